#include "worker_node.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "jobs.h"
#include "spans.h"
#include "tally/check.h"

namespace tally::sim {

WorkerNode::WorkerNode(Schedule& schedule, std::uint64_t seed, WorkerOptions options,
                       const Workload& workload, Agreement& agreement, Send send, Alarm alarm)
    : HostProcess(schedule, options.binding),
      rng_(seed),
      options_(std::move(options)),
      workload_(workload),
      agreement_(agreement),
      send_(std::move(send)),
      alarm_(std::move(alarm)) {}

void WorkerNode::start() {
  if (alive()) return;
  begin_life();
  leaving_ = false;
  generation_ = Generation{};
  submitted_ = completed_ = 0;
  engine::EngineOptions o;
  o.job = options_.job;
  o.token = options_.token;
  o.rank = options_.rank;
  o.world = options_.world;
  o.elements = options_.elements;
  o.priority = options_.priority;
  o.instance = instance_ = rng_.next();
  o.seed = rng_.next();
  o.rto_floor = options_.rto_floor;
  o.sparse = options_.sparse;
  for (const jobs::Box& box : options_.boxes) o.boxes.push_back(mapped(box.ipv4));
  const auto tables = kernels::usable_kernels();
  auto engine = engine::WorkerEngine::create(o, *tables[rng_.below(tables.size())]);
  if (!engine) return alarm_("the engine refuses its options: " + engine.error().text());
  engine_ = std::move(*engine);
  service();
}

void WorkerNode::crash() {
  end_life();
  engine_.reset();
  running_.clear();
  outcomes_.clear();
}

void WorkerNode::program_again() {
  if (!closed()) return;
  leaving_ = false;
  generation_ =
      Generation{};  // the program begins its plan again, also if it comes back into the same generation
  submitted_ = completed_ = 0;
  if (const auto again = engine_->rejoin(schedule_.now()); !again)
    return alarm_("rejoin: " + again.error().text());
  service();
}

void WorkerNode::take(std::span<const std::byte> datagram, const Ipv6& source) {
  const auto box = box_of(source);
  if (!box) return;  // its transport hears the boxes it was told of
  engine_->receive(datagram, schedule_.now(), *box);
  service();
}

std::optional<std::size_t> WorkerNode::box_of(const Ipv6& source) const {
  if (options_.boxes.empty()) return 0;
  const auto boxes = engine_->boxes();
  const auto at = std::find(boxes.begin(), boxes.end(), source);
  if (at == boxes.end()) return std::nullopt;
  return static_cast<std::size_t>(at - boxes.begin());
}

const jobs::Box& WorkerNode::box_for(std::size_t box) const {
  static const jobs::Box kOnly = test_box();
  if (options_.boxes.empty()) return kOnly;
  const jobs::Box* const at = box_at(options_.boxes, engine_->boxes()[box]);
  TALLY_CHECK(at != nullptr, "a plan names boxes that there are");
  return *at;
}

void WorkerNode::service() {
  if (!runs()) return;
  Bytes out;
  for (;;) {
    while (auto completion = engine_->next_completion()) finish(std::move(*completion));
    submit();
    if (wire_free_ > schedule_.now() && wire_free_ - schedule_.now() > options_.backlog)
      return wake_at(wire_free_ - options_.backlog);
    out.resize(engine_->max_datagram_bytes());
    engine::Destination to;
    const std::size_t bytes = engine_->transmit(out, schedule_.now(), to);
    if (bytes == 0) break;
    wire_free_ =
        send_(options_.index, wrap(std::span{out}.first(bytes), options_.binding, box_for(to.box), to.port));
  }
  while (auto completion = engine_->next_completion()) finish(std::move(*completion));
  if (const TimeNs deadline = engine_->deadline(); deadline != kNever) {
    if (deadline <= schedule_.now())
      return alarm_("the engine's deadline does not lie ahead after transmit() returned 0");
    wake_at(deadline);
  }
}

// The plan belongs to a generation; a new one starts it afresh. What is still running fails by itself.
void WorkerNode::submit() {
  if (closed() || leaving_) return;
  if (const auto& membership = engine_->membership(); membership &&
                                                      engine_->state() == engine::EngineState::kRunning &&
                                                      membership->generation != generation_) {
    generation_ = membership->generation;
    submitted_ = completed_ = 0;
  }
  if (generation_ == Generation{} || engine_->state() == engine::EngineState::kClosed) return;
  if (engine_->state() != engine::EngineState::kRunning && !options_.early) return;
  while (submitted_ < workload_.operations() && submitted_ - completed_ < options_.in_flight && !closed())
    submit_one();
  if (options_.leaves && plan_done() && engine_->state() == engine::EngineState::kRunning) {
    leaving_ = true;
    engine_->leave(schedule_.now());
  }
}

// `values` of the whole table become those of the rows that are not zero; the table, or what is collected, goes to `out`.
template <class T>
Result<engine::OperationId> WorkerNode::submit_rows(Running& op, std::vector<T>& values,
                                                    std::vector<T>& out) {
  const std::uint32_t width = op.plan.width;
  std::vector<T> rows;
  for (std::size_t at = 0; at < values.size(); at += width) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::all_of(row, row + width, [](T v) { return v == 0; })) continue;
    op.ids.push_back(static_cast<std::uint32_t>(at / width));
    rows.insert(rows.end(), row, row + width);
  }
  out.assign(values.size(), T{});
  values = std::move(rows);
  engine::OperationOptions options = op.plan.options();
  if (op.plan.in_place) options.rows = &op.collector.emplace();
  const bool floats = std::is_same_v<T, float>;
  return engine_->allreduce(
      floats ? ElementType::kFloat32 : ElementType::kInt32,
      engine::segments_of(op.plan.table(), op.ids, values.data(), op.collector ? nullptr : out.data()),
      schedule_.now(), options);
}

namespace {

// The whole table of what was collected.
template <class T>
void spread(engine::RowCollector& collector, const TableShape& table, std::vector<T>& out) {
  SparseSums<T> sums;
  collector.finish(table, sums);
  for (std::size_t i = 0; i < sums.ids.size(); ++i)
    std::copy_n(sums.values.begin() + static_cast<std::ptrdiff_t>(i * table.width), table.width,
                out.begin() + static_cast<std::ptrdiff_t>(std::size_t{sums.ids[i]} * table.width));
}

}  // namespace

void WorkerNode::submit_one() {
  auto op = std::make_unique<Running>();
  op->k = submitted_++;
  op->generation = generation_;
  op->plan = workload_.operation(generation_, op->k);
  const TimeNs now = schedule_.now();
  const bool rows = op->plan.width != 0;
  Result<engine::OperationId> id;
  if (op->plan.kind == OperationKind::kBarrier) {
    id = engine_->barrier(now);
  } else if (op->plan.kind == OperationKind::kInt32) {
    op->ints = workload_.ints(generation_, op->k, options_.rank);
    op->int_out = op->plan.in_place ? op->ints : std::vector<std::int32_t>(op->ints.size(), 77);
    const auto out = cut<std::int32_t>(op->int_out, op->plan.spans);
    id = rows                ? submit_rows(*op, op->ints, op->int_out)
         : op->plan.in_place ? engine_->allreduce(out, now, op->plan.options())
                             : engine_->allreduce(cut<const std::int32_t>(op->ints, op->plan.spans), out, now,
                                                  op->plan.options());
  } else {
    op->floats = workload_.floats(generation_, op->k, options_.rank);
    op->float_out = op->plan.in_place ? op->floats : std::vector<float>(op->floats.size(), 77.0F);
    const auto out = cut<float>(op->float_out, op->plan.spans);
    id = rows ? submit_rows(*op, op->floats, op->float_out)
         : op->plan.in_place
             ? engine_->allreduce(out, now, op->plan.options())
             : engine_->allreduce(cut<const float>(op->floats, op->plan.spans), out, now, op->plan.options());
  }
  if (!id) return alarm_("an operation is refused: " + id.error().text());
  running_.emplace(*id, std::move(op));
}

void WorkerNode::finish(engine::Completion completion) {
  const auto it = running_.find(completion.id);
  if (it == running_.end()) {  // not of the plan
    outcomes_.insert_or_assign(completion.id, std::move(completion.result));
    return;
  }
  const auto op = std::move(it->second);
  running_.erase(it);
  if (!completion.result) {
    ++failed_;
    last_error_ = completion.result.error().text();
    return;
  }
  if (op->collector && op->plan.kind == OperationKind::kInt32)
    spread(*op->collector, op->plan.table(), op->int_out);
  if (op->collector && op->plan.kind == OperationKind::kFloat32)
    spread(*op->collector, op->plan.table(), op->float_out);
  check(*op, *completion.result);
  ++right_;
  if (op->generation == generation_) ++completed_;
}

// Invariants 1 and 2: what was delivered is the sum of every member's contribution once, the same bits for
// all.
void WorkerNode::check(const Running& op, const OperationStats& stats) {
  if (!options_.checks_values) return;
  if (options_.stragglers) return check_named(op, stats);
  const auto where = describe() + ", operation " + std::to_string(op.k);
  if (op.plan.kind == OperationKind::kInt32 &&
      !same_bits(op.int_out, workload_.int_sum(op.generation, op.k, options_.world))) {
    alarm_("invariant 1: wrong int32 sum at " + where);
  }
  if (op.plan.kind == OperationKind::kFloat32 &&
      !same_bits(op.float_out,
                 workload_.float_sum(op.generation, op.k, options_.world, engine_->membership()->elements))) {
    alarm_("invariant 1: wrong float32 sum at " + where);
  }
  if (stats.overflow != workload_.overflow(op.generation, op.k, options_.world)) {
    alarm_("invariant 2: wrong OVERFLOW flag at " + where);
  }
}

// With stragglers: each int32 sum is that of exactly the ranks that are named. Floats depend on who was in
// time with its exponents, too; but whatever they are, all members have the same bits, as everything else.
void WorkerNode::check_named(const Running& op, const OperationStats& stats) {
  const auto where = describe() + ", operation " + std::to_string(op.k);
  std::uint64_t everywhere = members_of(options_.world);
  for (const PartialSum& partial : stats.partial) everywhere &= partial.contributors;
  if (stats.contributors != everywhere || stats.incomplete == stats.partial.empty())
    alarm_("invariant 1: other contributors than those of the parts at " + where);
  if (op.plan.kind == OperationKind::kBarrier && stats.incomplete)
    alarm_("a barrier without everybody at " + where);
  if (op.plan.kind == OperationKind::kInt32 &&
      !same_bits(op.int_out, workload_.named_sum(op.generation, op.k, options_.world, stats.partial)))
    alarm_("invariant 1: not the sum of the ranks that are named at " + where);
  const bool same = op.plan.kind == OperationKind::kFloat32
                        ? agreement_.agrees(options_.job, op.generation, op.k, op.float_out, stats)
                        : agreement_.agrees(options_.job, op.generation, op.k, op.int_out, stats);
  if (!same) alarm_("invariant 2: another member has another result at " + where);
}

std::string WorkerNode::describe() const {
  std::string text = options_.job + " rank " + std::to_string(raw(options_.rank));
  if (engine_ == nullptr) return text + " (crashed)";
  text += engine_->state() == engine::EngineState::kRunning   ? " (running"
          : engine_->state() == engine::EngineState::kJoining ? " (joining"
                                                              : " (closed: " + engine_->why_closed().text();
  return text + ", generation " + std::to_string(raw(generation_)) + ", " + std::to_string(completed_) + "/" +
         std::to_string(submitted_) + " of " + std::to_string(workload_.operations()) + " operations, " +
         std::to_string(engine_->pending_operations()) +
         " pending, last error: " + (last_error_.empty() ? "none" : last_error_) + ")";
}

}  // namespace tally::sim
