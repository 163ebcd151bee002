#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine_operation.h"
#include "tally/tally.h"
#include "tally/worker.h"

// NOLINTBEGIN(readability-identifier-naming): as tally.h declares them
struct tally_worker {
  tally::Worker worker;
};
struct tally_operation {
  tally::Operation operation;
  // Rows of the sum, of one that was issued so; set when it is done.
  std::function<tally_sparse_rows()> sums{};
};
// NOLINTEND(readability-identifier-naming)

namespace tally {
namespace {

struct NamedCounter {
  const char* name;
  std::uint64_t EngineStatistics::*counter;
};

constexpr auto kCounters =
    std::to_array<NamedCounter>({{"contributions", &EngineStatistics::contributions},
                                 {"retransmissions", &EngineStatistics::retransmissions},
                                 {"zeros", &EngineStatistics::zeros},
                                 {"runs", &EngineStatistics::runs},
                                 {"sparse", &EngineStatistics::sparse},
                                 {"early", &EngineStatistics::early},
                                 {"nacks", &EngineStatistics::nacks},
                                 {"queries", &EngineStatistics::queries},
                                 {"asks", &EngineStatistics::asks},
                                 {"answers", &EngineStatistics::answers},
                                 {"answers_dropped", &EngineStatistics::answers_dropped},
                                 {"queries_silent", &EngineStatistics::queries_silent},
                                 {"direct", &EngineStatistics::direct},
                                 {"resends_dropped", &EngineStatistics::resends_dropped},
                                 {"resends_silent", &EngineStatistics::resends_silent},
                                 {"results", &EngineStatistics::results},
                                 {"overflows", &EngineStatistics::overflows},
                                 {"incomplete", &EngineStatistics::incomplete},
                                 {"waiting", &EngineStatistics::waiting},
                                 {"hints", &EngineStatistics::hints},
                                 {"rejects", &EngineStatistics::rejects},
                                 {"joins", &EngineStatistics::joins},
                                 {"epochs", &EngineStatistics::epochs},
                                 {"generations", &EngineStatistics::generations},
                                 {"heartbeats", &EngineStatistics::heartbeats},
                                 {"heartbeat_echoes", &EngineStatistics::heartbeat_echoes},
                                 {"srtt_ns", &EngineStatistics::srtt},
                                 {"rto_ns", &EngineStatistics::rto}});
constexpr const char* kRefusedTotal = "refused";

// The structs as they were at first.
constexpr std::size_t kFirstOptions = offsetof(tally_options, priority);
constexpr std::size_t kFirstReduceOptions = offsetof(tally_reduce_options, mean);
constexpr std::size_t kFirstStats = offsetof(tally_operation_stats, contributors);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

std::size_t size_of(const void* sized) noexcept {
  std::size_t size = 0;
  std::memcpy(&size, sized, sizeof size);
  return size;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : std::string(text); }

// Notes the text for tally_last_error() and returns the code.
tally_code c_failure(const Error& error) noexcept {
  last_error() = error.text();
  return static_cast<tally_code>(static_cast<int>(error.code) + 1);
}

tally_code c_invalid(std::string what) noexcept {
  return c_failure({ErrorCode::kInvalidArgument, std::move(what)});
}

// Structs of C carry their size, so that they can grow. `known`: as of this version. Copies what the caller
// has over the defaults in `to`. A caller of a later version must not rely on what is not known here: bytes
// beyond `known` that are not 0 are refused, as is a size below `least` (the first version's).
tally_code take_struct(const void* from, std::size_t least, void* to, std::size_t known,
                       const char* name) noexcept {
  const std::size_t size = size_of(from);
  if (size < least)
    return c_invalid(std::string(name) + ": size is " + std::to_string(size) +
                     ", begin with its _INIT macro");
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] != 0)
      return c_invalid(std::string(name) + ": a member that libtally " + tally_version() +
                       " does not know is set; install the version the program was compiled with");
  }
  std::memcpy(to, from, std::min(size, known));
  return TALLY_OK;
}

// The other way: fills as many bytes of the caller's struct as it has.
tally_code give_struct(const void* from, std::size_t known, void* to, std::size_t least,
                       const char* name) noexcept {
  const std::size_t size = size_of(to);
  if (size < least)
    return c_invalid(std::string(name) + ": size is " + std::to_string(size) +
                     ", begin with its _INIT macro");
  std::memcpy(to, from, std::min(size, known));
  std::memcpy(to, &size, sizeof size);
  return TALLY_OK;
}

tally_code worker_options(const tally_options& from, WorkerOptions& to) noexcept {
  tally_options o = TALLY_OPTIONS_INIT;
  if (const tally_code bad = take_struct(&from, kFirstOptions, &o, sizeof o, "tally_options")) return bad;
  if (o.reserved != 0) return c_invalid("tally_options: reserved is not 0, begin with its _INIT macro");
  if (o.priority > kGreatestPriority)
    return c_invalid("priority: " + std::to_string(o.priority) + " is not in 0..254");
  to.job = text_of(o.job);
  to.token = text_of(o.token);
  to.box = text_of(o.box);
  if (o.transport != nullptr) to.transport = o.transport;
  to.address = text_of(o.address);
  to.debug = text_of(o.debug);
  to.rank = o.rank;
  to.world = o.world;
  to.elements = o.elements;
  to.mtu = o.mtu;
  to.poll = o.poll != 0;
  to.join_timeout = std::chrono::milliseconds(o.join_timeout_ms);
  to.priority = static_cast<std::uint16_t>(o.priority);
  return TALLY_OK;
}

std::chrono::milliseconds timeout_of(std::int64_t ms) {
  return ms < 0 ? std::chrono::milliseconds::max() : std::chrono::milliseconds(ms);
}

// -1, TALLY_PRIORITY_CLASS(c), or the value itself.
Priority priority_of(std::int32_t number) noexcept {
  constexpr std::int32_t kClasses = TALLY_PRIORITY_CLASS(0);
  if (number == TALLY_PRIORITY_OF_WORKER) return {};
  return number < kClasses ? Priority::exactly(number) : Priority::in_class(number - kClasses);
}

tally_operation_stats c_stats(const OperationStats& stats) noexcept {
  return {sizeof(tally_operation_stats),
          stats.elements,
          stats.chunks,
          stats.packets,
          stats.retransmissions,
          stats.finished - stats.started,
          stats.overflow ? 1 : 0,
          stats.incomplete ? 1 : 0,
          stats.contributors,
          stats.incomplete_chunks,
          stats.partial.size()};
}

tally_code reduce_options(const tally_reduce_options* from, ReduceOptions& to) {
  if (from == nullptr) return TALLY_OK;
  tally_reduce_options o = TALLY_REDUCE_OPTIONS_INIT;
  if (const tally_code bad = take_struct(from, kFirstReduceOptions, &o, sizeof o, "tally_reduce_options"))
    return bad;
  if (o.mean > 1 || o.reserved != 0)
    return c_invalid(
        "tally_reduce_options: mean is not 0 or 1, or reserved not 0; begin with its _INIT macro");
  switch (o.wire_bits) {
    case TALLY_WIRE_SHORTEST:
      to.wire = WireType::kShortest;
      break;
    case TALLY_WIRE_INT16:
      to.wire = WireType::kInt16;
      break;
    case TALLY_WIRE_INT32:
      to.wire = WireType::kInt32;
      break;
    case TALLY_WIRE_EXACT:
      to.wire = WireType::kExact;
      break;
    default:
      return c_invalid("wire_bits: " + std::to_string(o.wire_bits) + " is not 0, 16, 32 or 384");
  }
  if (o.non_finite > TALLY_NON_FINITE_PROPAGATE)
    return c_invalid("non_finite: " + std::to_string(o.non_finite) + " is not 0 (fail) or 1 (propagate)");
  to.non_finite = o.non_finite == TALLY_NON_FINITE_PROPAGATE ? NonFinite::kPropagate : NonFinite::kFail;
  to.mean = o.mean != 0;
  to.priority = priority_of(o.priority);
  if (std::string why = engine::objection_to(to.priority); !why.empty()) return c_invalid(std::move(why));
  to.timeout = std::chrono::milliseconds(o.timeout_ms);
  if (o.done != nullptr)
    to.done = [call = o.done, user = o.user](const Result<OperationStats>& result) {
      if (!result) return call(user, c_failure(result.error()), nullptr);
      const tally_operation_stats stats = c_stats(*result);
      call(user, TALLY_OK, &stats);
    };
  return TALLY_OK;
}

// The type that a C program names; nothing, and the error is noted.
std::optional<ElementType> element_type(std::int32_t type) {
  constexpr std::array kTypes{ElementType::kFloat32, ElementType::kInt32, ElementType::kFloat16,
                              ElementType::kBfloat16};
  const auto number = static_cast<std::size_t>(type);
  if (number < kTypes.size()) return kTypes.at(number);
  (void)c_invalid("type: " + std::to_string(type) + " is none; see tally_type");
  return std::nullopt;
}

// issue(options) starts the operation. One that is known to have failed is reported by tally_wait, except for
// a worker that is closed: a program that does not wait shall hear of it.
template <class Issue>
tally_code issue(tally_worker* worker, const tally_reduce_options* options, tally_operation** operation,
                 Issue issue_it) {
  if (operation == nullptr) return c_invalid("operation is NULL");
  *operation = nullptr;
  if (worker == nullptr) return c_invalid("worker is NULL");
  ReduceOptions with;
  if (const tally_code bad = reduce_options(options, with)) return bad;
  if (const tally_code closed = tally_check(worker)) return closed;
  *operation = new tally_operation{issue_it(with)};
  return TALLY_OK;
}

template <class T, class CSpan>
tally_code issue_list(tally_worker* worker, const CSpan* spans, std::size_t count,
                      const tally_reduce_options* options, tally_operation** operation) {
  if (spans == nullptr && count != 0)
    return c_invalid("spans is NULL, but count is " + std::to_string(count));
  std::vector<std::span<T>> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (spans[i].values == nullptr && spans[i].count != 0)
      return c_invalid("span " + std::to_string(i) + ": values is NULL, but count is " +
                       std::to_string(spans[i].count));
    list.emplace_back(spans[i].values, spans[i].count);
  }
  return issue(worker, options, operation, [&](const ReduceOptions& with) {
    return worker->worker.allreduce_async(std::span<const std::span<T>>(list), with);
  });
}

template <class T>
tally_code issue_sparse(tally_worker* worker, const tally_sparse_rows& rows, void* sums,
                        const tally_reduce_options* options, tally_operation** operation) {
  const TableShape table{rows.table_rows, rows.width};
  const std::size_t values = rows.count * rows.width;
  const SparseRows<T> given{{rows.ids, rows.count}, {static_cast<const T*>(rows.values), values}};
  const auto kept = std::make_shared<SparseSums<T>>();
  const tally_code issued = issue(worker, options, operation, [&](ReduceOptions with) {
    const std::size_t whole = std::size_t{table.rows} * table.width;
    if (sums != nullptr)
      return worker->worker.allreduce_sparse_async(table, given, std::span(static_cast<T*>(sums), whole),
                                                   with);
    // The sums have a place until it is done, also when the operation was freed before.
    with.done = [kept, then = std::move(with.done)](const Result<OperationStats>& result) {
      if (then) then(result);
    };
    return worker->worker.allreduce_sparse_async(table, given, *kept, with);
  });
  if (issued == TALLY_OK && sums == nullptr)
    (*operation)->sums = [kept, table] {
      return tally_sparse_rows{table.rows, table.width, kept->ids.data(), kept->values.data(),
                               kept->ids.size()};
    };
  return issued;
}

std::string all_names() {
  std::string names;
  for (std::size_t i = 0; const char* const name = tally_statistic_name(i); ++i)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace
}  // namespace tally

using tally::c_failure;
using tally::c_invalid;

tally_code tally_join(const tally_options* options, tally_worker** worker) {
  if (worker == nullptr) return c_invalid("worker is NULL");
  *worker = nullptr;
  tally::WorkerOptions with;
  if (options == nullptr) {
    auto read = tally::WorkerOptions::from_environment();
    if (!read) return c_failure(read.error());
    with = std::move(*read);
  } else if (const tally_code bad = tally::worker_options(*options, with)) {
    return bad;
  }
  auto joined = tally::Worker::join(with);
  if (!joined) return c_failure(joined.error());
  *worker = new tally_worker{std::move(*joined)};
  return TALLY_OK;
}

void tally_worker_free(tally_worker* worker) { delete worker; }

tally_code tally_allreduce_float_async(tally_worker* worker, float* values, size_t count,
                                       const tally_reduce_options* options, tally_operation** operation) {
  const tally_float_span span{values, count};
  return tally::issue_list<float>(worker, &span, 1, options, operation);
}

tally_code tally_allreduce_int32_async(tally_worker* worker, int32_t* values, size_t count,
                                       const tally_reduce_options* options, tally_operation** operation) {
  const tally_int32_span span{values, count};
  return tally::issue_list<std::int32_t>(worker, &span, 1, options, operation);
}

tally_code tally_allreduce_float_list_async(tally_worker* worker, const tally_float_span* spans, size_t count,
                                            const tally_reduce_options* options,
                                            tally_operation** operation) {
  return tally::issue_list<float>(worker, spans, count, options, operation);
}

tally_code tally_allreduce_int32_list_async(tally_worker* worker, const tally_int32_span* spans, size_t count,
                                            const tally_reduce_options* options,
                                            tally_operation** operation) {
  return tally::issue_list<std::int32_t>(worker, spans, count, options, operation);
}

tally_code tally_allreduce_async(tally_worker* worker, int32_t type, const tally_buffer* buffers,
                                 size_t count, const tally_reduce_options* options,
                                 tally_operation** operation) {
  if (buffers == nullptr && count != 0)
    return c_invalid("buffers is NULL, but count is " + std::to_string(count));
  const auto of = tally::element_type(type);
  if (!of) return TALLY_INVALID_ARGUMENT;
  std::vector<tally::Buffer> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) list.push_back({buffers[i].in, buffers[i].out, buffers[i].count});
  return tally::issue(worker, options, operation, [&](const tally::ReduceOptions& with) {
    return worker->worker.allreduce_async(*of, list, with);
  });
}

tally_code tally_allreduce_sparse_async(tally_worker* worker, int32_t type, const tally_sparse_rows* rows,
                                        void* sums, const tally_reduce_options* options,
                                        tally_operation** operation) {
  if (rows == nullptr) return c_invalid("rows is NULL");
  if ((rows->ids == nullptr || rows->values == nullptr) && rows->count != 0)
    return c_invalid("rows: ids or values is NULL, but count is " + std::to_string(rows->count));
  if (type == TALLY_FLOAT32) return tally::issue_sparse<float>(worker, *rows, sums, options, operation);
  if (type == TALLY_INT32) return tally::issue_sparse<std::int32_t>(worker, *rows, sums, options, operation);
  return c_invalid("type: " + std::to_string(type) + "; rows are of TALLY_FLOAT32 or TALLY_INT32");
}

tally_code tally_get_sparse_sums(tally_operation* operation, tally_sparse_rows* sums) {
  if (operation == nullptr || sums == nullptr) return c_invalid("operation or sums is NULL");
  if (!operation->sums)
    return c_invalid("it was not issued by tally_allreduce_sparse_async, or with room for the whole table");
  const auto result = operation->operation.wait(tally::timeout_of(0));
  if (!result) return c_failure(result.error());
  *sums = operation->sums();
  return TALLY_OK;
}

tally_code tally_broadcast_async(tally_worker* worker, void* data, size_t bytes, uint16_t root,
                                 const tally_reduce_options* options, tally_operation** operation) {
  if (data == nullptr && bytes != 0) return c_invalid("data is NULL, but bytes is " + std::to_string(bytes));
  return tally::issue(worker, options, operation, [&](const tally::ReduceOptions& with) {
    return worker->worker.broadcast_async({static_cast<std::byte*>(data), bytes}, root, with);
  });
}

tally_code tally_all_gather_async(tally_worker* worker, const void* mine, void* all, size_t bytes,
                                  const tally_reduce_options* options, tally_operation** operation) {
  if ((mine == nullptr || all == nullptr) && bytes != 0)
    return c_invalid("mine or all is NULL, but bytes is " + std::to_string(bytes));
  return tally::issue(worker, options, operation, [&](const tally::ReduceOptions& with) {
    const auto membership = worker->worker.membership();
    const std::size_t world = membership ? membership->world : 0;
    return worker->worker.all_gather_async({static_cast<const std::byte*>(mine), bytes},
                                           {static_cast<std::byte*>(all), world * bytes}, with);
  });
}

tally_code tally_reduce_scatter_async(tally_worker* worker, int32_t type, const void* in, void* out,
                                      size_t count, const tally_reduce_options* options,
                                      tally_operation** operation) {
  if ((in == nullptr || out == nullptr) && count != 0)
    return c_invalid("in or out is NULL, but count is " + std::to_string(count));
  const auto of = tally::element_type(type);
  if (!of) return TALLY_INVALID_ARGUMENT;
  return tally::issue(worker, options, operation, [&](const tally::ReduceOptions& with) {
    return worker->worker.reduce_scatter_async(*of, in, out, count, with);
  });
}

int tally_event_fd(const tally_worker* worker) { return worker == nullptr ? -1 : worker->worker.event_fd(); }

tally_code tally_barrier_async(tally_worker* worker, const tally_reduce_options* options,
                               tally_operation** operation) {
  return tally::issue(worker, options, operation,
                      [&](const tally::ReduceOptions& with) { return worker->worker.barrier_async(with); });
}

tally_code tally_barrier(tally_worker* worker) {
  if (worker == nullptr) return c_invalid("worker is NULL");
  const auto done = worker->worker.barrier();
  return done ? TALLY_OK : c_failure(done.error());
}

tally_code tally_wait(tally_operation* operation, int64_t timeout_ms, tally_operation_stats* stats) {
  if (operation == nullptr) return c_invalid("operation is NULL");
  const auto result = operation->operation.wait(tally::timeout_of(timeout_ms));
  if (!result) return c_failure(result.error());
  if (stats == nullptr) return TALLY_OK;
  const tally_operation_stats known = tally::c_stats(*result);
  return tally::give_struct(&known, sizeof known, stats, tally::kFirstStats, "tally_operation_stats");
}

tally_code tally_get_partial_sum(tally_operation* operation, uint64_t index, tally_partial_sum* partial) {
  if (operation == nullptr || partial == nullptr) return c_invalid("operation or partial is NULL");
  const auto result = operation->operation.wait(tally::timeout_of(0));
  if (!result) return c_failure(result.error());
  if (index >= result->partial.size())
    return c_invalid("index: there are " + std::to_string(result->partial.size()) +
                     " partial sums, counted from 0");
  const tally::PartialSum& sum = result->partial[index];
  *partial = {sum.first, sum.count, sum.contributors};
  return TALLY_OK;
}

int tally_done(const tally_operation* operation) {
  return operation == nullptr || operation->operation.done() ? 1 : 0;
}

void tally_operation_free(tally_operation* operation) { delete operation; }

tally_code tally_abort(tally_worker* worker, const char* reason) {
  if (worker == nullptr) return c_invalid("worker is NULL");
  worker->worker.abort(reason == nullptr ? "no reason given" : reason);
  return TALLY_OK;
}

tally_code tally_leave(tally_worker* worker, int64_t timeout_ms) {
  if (worker == nullptr) return c_invalid("worker is NULL");
  const auto left = worker->worker.leave(tally::timeout_of(timeout_ms));
  return left ? TALLY_OK : c_failure(left.error());
}

tally_code tally_check(const tally_worker* worker) {
  if (worker == nullptr) return c_invalid("worker is NULL");
  auto closed = worker->worker.why_closed();
  if (!closed) return TALLY_OK;
  closed->code = tally::ErrorCode::kClosed;
  return c_failure(*closed);
}

tally_code tally_get_membership(const tally_worker* worker, tally_membership* membership) {
  if (worker == nullptr || membership == nullptr) return c_invalid("worker or membership is NULL");
  const auto m = worker->worker.membership();
  if (!m) return tally_check(worker);  // only in the child of a fork
  const tally_membership known{sizeof(tally_membership),
                               m->rank,
                               m->world,
                               m->elements,
                               static_cast<std::uint16_t>(m->multicast ? 1 : 0),
                               m->window,
                               m->shards,
                               m->epoch,
                               static_cast<std::uint32_t>(m->lease.count()),
                               m->generation};
  return tally::give_struct(&known, sizeof known, membership, sizeof known, "tally_membership");
}

tally_code tally_statistic(const tally_worker* worker, const char* name, uint64_t* value) {
  if (worker == nullptr || name == nullptr || value == nullptr)
    return c_invalid("worker, name or value is NULL");
  const std::string wanted(name);
  const tally::EngineStatistics statistics = worker->worker.statistics();
  const auto found = std::find_if(tally::kCounters.begin(), tally::kCounters.end(),
                                  [&](const auto& each) { return wanted == each.name; });
  if (found != tally::kCounters.end()) {
    *value = statistics.*found->counter;
    return TALLY_OK;
  }
  if (wanted != tally::kRefusedTotal)
    return c_invalid("'" + wanted + "' is not a statistic; there are " + tally::all_names());
  *value = statistics.refused_total();
  return TALLY_OK;
}

const char* tally_statistic_name(size_t index) {
  if (index < tally::kCounters.size()) return tally::kCounters.at(index).name;
  return index == tally::kCounters.size() ? tally::kRefusedTotal : nullptr;
}

const char* tally_last_error(void) { return tally::last_error().c_str(); }

const char* tally_code_name(int code) {
  constexpr std::array<const char*, 11> kNames{
      "TALLY_OK",          "TALLY_INVALID_ARGUMENT", "TALLY_QUANTISE", "TALLY_ABORTED",
      "TALLY_REFUSED",     "TALLY_UNREACHABLE",      "TALLY_TIMEOUT",  "TALLY_CORRUPT",
      "TALLY_FELL_BEHIND", "TALLY_CLOSED",           "TALLY_SYSTEM"};
  const auto i = static_cast<std::size_t>(code);
  return code >= 0 && i < kNames.size() ? kNames.at(i) : "TALLY_?";
}

const char* tally_version(void) { return TALLY_VERSION; }

tally_code tally_options_from_environment(tally_options* options) {
  thread_local tally::WorkerOptions read;
  auto result = tally::WorkerOptions::from_environment();
  if (!result) return tally::c_failure(result.error());
  read = std::move(*result);
  const tally_options known{sizeof(tally_options),
                            read.job.c_str(),
                            read.token.c_str(),
                            read.box.c_str(),
                            read.transport.c_str(),
                            read.address.c_str(),
                            read.debug.c_str(),
                            read.rank,
                            read.world,
                            read.elements,
                            read.mtu,
                            read.poll ? 1 : 0,
                            static_cast<std::uint32_t>(read.join_timeout.count()),
                            read.priority,
                            0};
  return tally::give_struct(&known, sizeof known, options, tally::kFirstOptions, "tally_options");
}
