#include "kv/table_worker.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "tally/float_options.h"
#include "tally/ids.h"

namespace tally::kv {
namespace {

constexpr std::size_t kMostHot = std::size_t{1} << 20;
constexpr std::uint64_t kLeastEvery = 16;
constexpr int kMostNumber = 65'535;
constexpr std::chrono::milliseconds kMostAge = std::chrono::hours(1);

TableOptions checked(const TableOptions& options, int workers) {
  const auto object = [](const std::string& what) {
    throw Failure(ErrorCode::kInvalidArgument, "a table " + what);
  };
  if (options.number < 0 || options.number > kMostNumber)
    object("has a number from 0 to 65535, not " + std::to_string(options.number));
  if (options.width == 0 || options.width > kMostTableWidth)
    object("has a width from 1 to 4096, not " + std::to_string(options.width));
  if (most_hot_of(options) > kMostHot)
    object("has at most 1048576 hot keys, not " + std::to_string(most_hot_of(options)));
  if (options.every < kLeastEvery)
    object("chooses its hot keys every 16 rounds or more, not " + std::to_string(options.every));
  if (!std::isfinite(options.rate)) object("has a rate that is a number");
  if (options.least < 0 || options.least > workers)
    object("waits for 1 to " + std::to_string(workers) + " workers, or 0 for all, not " +
           std::to_string(options.least));
  if (options.least != 0 && options.age == std::chrono::milliseconds(0))
    object("that waits for " + std::to_string(options.least) +
           " workers needs an age: at each of two servers one may be missing that waits at the other");
  if (options.age < std::chrono::milliseconds(0) || options.age > kMostAge)
    object("has an age from 0 to 3600000 ms, not " + std::to_string(options.age.count()));
  return options;
}

TableTerms terms_of(const TableOptions& options, bool hot) noexcept {
  return {static_cast<std::uint32_t>(options.width),
          options.rule,
          options.rate,
          static_cast<std::uint32_t>(most_hot_of(options)),
          options.every,
          hot,
          static_cast<std::uint16_t>(options.least),
          static_cast<std::uint32_t>(options.age.count())};
}

template <class T>
void or_throw(const Result<T>& result) {
  if (!result) throw Failure(result.error().code, result.error().text());
}

std::unique_ptr<WorkerCore> core_of(Node& node, int number) {
  try {
    return std::make_unique<WorkerCore>(node, kTableApp, number);
  } catch (const Failure&) {
    throw Failure(ErrorCode::kInvalidArgument, "this process has a table " + std::to_string(number) +
                                                   " already; destroy it first, or give each its number");
  }
}

std::uint64_t next_life() noexcept {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

bool may_have_hot_keys(const TableOptions& options, int workers) noexcept {
  return most_hot_of(options) != 0 && workers <= static_cast<int>(kMaxRanks);
}

// What a call waits for: answers of servers, and the box. Shared with threads that bring them.
class TableWorker::Flight {
 public:
  void expect() {
    const std::lock_guard lock(mutex_);
    ++left_;
  }
  void arrived(std::vector<Reply> replies) {
    const std::lock_guard lock(mutex_);
    replies_ = std::move(replies);
  }
  void done(std::optional<Failure> failure) {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = std::move(failure);
    --left_;
    changed_.notify_all();
  }
  // Throws the first failure, whatever is still under way. Replies by server.
  [[nodiscard]] std::vector<Reply> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0 || failure_; });
    if (failure_) throw *failure_;
    return std::move(replies_);
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  int left_ = 0;
  std::vector<Reply> replies_{};
  std::optional<Failure> failure_{};
};

TableWorker::TableWorker(Node& node, const TableOptions& options, std::shared_ptr<HotPath> box)
    : options_(checked(options, node.options().workers)),
      most_rows_(std::max<std::size_t>(1, std::min(kMostMovedBytes, node.options().queue_bytes / 4) /
                                              (sizeof(Key) + options.width * sizeof(float)))),
      most_bytes_(node.options().queue_bytes),
      rank_(static_cast<std::uint32_t>(node.rank())),
      workers_(static_cast<std::uint32_t>(node.options().workers)),
      box_(may_have_hot_keys(options, node.options().workers) ? std::move(box) : nullptr),
      terms_(terms_of(options, box_ != nullptr)),
      flight_(std::make_shared<Flight>()),
      core_(core_of(node, options.number)) {
  life_ = next_life();  // not before the core has made this the one table of its number
  rounds_.resize(core_->ranges().size());
  // All requests under way are of the newest flight; a table that has had a failure makes no other.
  core_->on_failure([this](int, const Failure& failure) { flight_->done(failure); });
}

TableWorker::~TableWorker() {
  if (!is_over()) leave("its program ended the table without close()", false);
}

TableStatistics TableWorker::statistics() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void TableWorker::publish() {
  const std::lock_guard lock(mutex_);
  published_ = statistics_;
  published_.hot_keys = hot_ && !is_over() ? hot_->set().size() : 0;
}

void TableWorker::check(std::span<const Key> keys, std::size_t values, const char* what) const {
  if (!keys.empty()) WorkerCore::check_keys(keys);
  if (values != keys.size() * options_.width)
    throw Failure(ErrorCode::kInvalidArgument, std::to_string(keys.size()) + " keys of width " +
                                                   std::to_string(options_.width) + " have " +
                                                   std::to_string(keys.size() * options_.width) + " " + what +
                                                   ", not " + std::to_string(values));
}

// At a server they would be in the row from then on, for all; a sum through the box would fail, and end the job.
void TableWorker::check_summable(std::span<const float> gradients) const {
  const auto wrong = std::find_if(gradients.begin(), gradients.end(),
                                  [](float value) { return !(std::fabs(value) <= kMostMagnitude); });
  if (wrong == gradients.end()) return;
  const auto i = wrong - gradients.begin();
  throw Failure(ErrorCode::kQuantise,
                "gradients[" + std::to_string(i) + "] is " + std::to_string(*wrong) +
                    "; what is pushed to a table is finite, and of magnitudes up to 2^126",
                i / static_cast<std::ptrdiff_t>(options_.width));
}

// Each server gets its part in one message, though some of it may turn out to be hot: what can be pushed does not depend on
// that.
void TableWorker::check_room(std::span<const Key> keys) const {
  constexpr std::size_t kForm = 256;  // of a message, more than its headers
  const auto slices = WorkerCore::slices(keys, {}, keys.size(), core_->ranges());
  for (std::size_t server = 0; server < slices.size(); ++server) {
    const std::size_t bytes = slices[server].keys * (sizeof(Key) + options_.width * sizeof(float)) + kForm;
    if (bytes <= most_bytes_) continue;
    throw Failure(ErrorCode::kInvalidArgument,
                  std::to_string(slices[server].keys) + " keys of this push are of server " +
                      std::to_string(server) + "; with their rows they are more than " +
                      std::to_string(most_bytes_) + " bytes (TALLY_KV_QUEUE)",
                  static_cast<std::int64_t>(slices[server].key));
  }
}

void TableWorker::or_leave(const std::function<void()>& call) {
  if (over_) throw *over_;
  if (closed_) throw Failure(ErrorCode::kClosed, "table " + std::to_string(options_.number) + " is closed");
  bool for_all = true;
  try {
    call();
    return;
  } catch (const Failure& failure) {
    over_.emplace(failure.code(), failure.what());
  } catch (const std::exception& error) {  // no memory here
    over_.emplace(ErrorCode::kSystem, error.what());
    for_all = false;
  }
  leave(over_->what(), for_all);
  throw *over_;
}

// --- Rounds.

void TableWorker::pull(std::span<const Key> keys, std::span<float> rows) {
  check(keys, rows.size(), "values of room");
  or_leave([&] {
    const std::size_t width = options_.width;
    std::vector<Key> cold;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (const float* const row = hot_ ? hot_->find(keys[i]) : nullptr) {
        std::copy_n(row, width, rows.data() + i * width);
      } else {
        cold.push_back(keys[i]);
        places.push_back(i);
      }
    }
    std::vector<float> got(cold.size() * width);
    exchange(TableAct::kPull, cold, {}, got.data());
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(got.data() + i * width, width, rows.data() + places[i] * width);
  });
}

void TableWorker::push(std::span<const Key> keys, std::span<const float> gradients) {
  check_push(keys, gradients);
  take_part(keys, gradients);
}

void TableWorker::check_push(std::span<const Key> keys, std::span<const float> gradients) const {
  check(keys, gradients.size(), "values");
  check_summable(gradients);
  check_room(keys);
}

void TableWorker::take_part(std::span<const Key> keys, std::span<const float> gradients) {
  or_leave([&] {
    if (box_ != nullptr && !hot_) {
      auto hot = HotRows::create(options_, rank_, workers_);
      or_throw(hot);
      hot_.emplace(std::move(*hot));
    }
    flight_ = std::make_shared<Flight>();
    KeyedRows cold;
    std::shared_ptr<HotSums> sums;
    TableMessage mine = message(TableAct::kPush);
    mine.keys = keys;
    mine.rows = gradients;
    if (hot_) {
      sums = hot_->begin(keys, gradients, cold);
      mine.keys = cold.keys;
      mine.rows = cold.rows;
    }
    (void)send(parts_of(mine, true), flight_);
    if (hot_) {
      flight_->expect();
      box_->sum_hot(sums,
                    [flight = flight_](std::optional<Failure> failure) { flight->done(std::move(failure)); });
    }
    const std::vector<Reply> answers = flight_->wait();
    if (hot_) or_throw(hot_->end(*sums));
    if (terms_.rounds_end_by_themselves()) go_on_behind(answers);
    ++statistics_.rounds;
    statistics_.cold_pairs += mine.keys.size();
    statistics_.hot_pairs += keys.size() - mine.keys.size();
    if (hot_) {
      auto begun = hot_->begin_next();
      or_throw(begun);
      if (*begun) change(**begun);
    }
    publish();
  });
}

void TableWorker::go_on_behind(const std::vector<Reply>& answers) {
  bool late = false;
  for (const Reply& answer : answers) {
    const std::uint64_t round = round_in(answer);
    std::uint64_t& mine = rounds_[static_cast<std::size_t>(answer.server)];
    late = late || round > mine;
    mine = round + 1;
  }
  if (late) ++statistics_.late;
}

std::uint64_t TableWorker::round_in(const Reply& answer) {
  std::uint64_t round = 0;
  if (answer.data.vals.size() != sizeof round)
    throw Failure(ErrorCode::kCorrupt, "server " + std::to_string(answer.server) +
                                           " does not say which round of a table it means");
  std::memcpy(&round, answer.data.vals.data(), sizeof round);
  return round;
}

void TableWorker::change(const HotRows::Change& change) {
  exchange(TableAct::kBring, change.left.keys, change.left.rows, nullptr);
  KeyedRows came{change.came, std::vector<float>(change.came.size() * options_.width)};
  exchange(TableAct::kFetch, came.keys, {}, came.rows.data());
  hot_->take(came);
  ++statistics_.sets;
  statistics_.moves += change.moves;
}

// --- Ends.

void TableWorker::close() {
  if (closed_ || over_) return;
  or_leave([&] {
    if (hot_) {
      const KeyedRows mine = hot_->part();
      exchange(TableAct::kBring, mine.keys, mine.rows, nullptr);
      statistics_.moves += mine.keys.size();
    }
    flight_ = std::make_shared<Flight>();
    (void)send(parts_of(message(TableAct::kClose), true), flight_);
    (void)flight_->wait();
  });
  closed_ = true;
  box_ = nullptr;
  publish();
}

// Each server by itself: one that is lost does not hold up the rows of the others.
void TableWorker::leave(const std::string& why, bool for_all) noexcept {
  try {
    const HotRows::Leftover leftover = hot_ ? hot_->leftover() : HotRows::Leftover{};
    TableMessage bring = message(TableAct::kBring);
    TableMessage last = message(TableAct::kLeave);
    bring.set = last.set = leftover.set;
    last.text = why;
    last.for_all = for_all;
    const std::vector<Range>& ranges = core_->ranges();
    const std::span<const Key> keys(leftover.rows.keys);
    const std::span<const float> rows(leftover.rows.rows);
    const auto slices = WorkerCore::slices(keys, {}, keys.size(), ranges);
    for (std::size_t server = 0; server < slices.size(); ++server) {
      const Slice& slice = slices[server];
      const auto tell = [&](const TableMessage& what) {
        core_->wait(send({part_of(static_cast<int>(server), what)}, std::make_shared<Flight>()));
      };
      try {
        for (std::size_t first = 0; first < slice.keys; first += most_rows_) {
          const std::size_t count = std::min(most_rows_, slice.keys - first);
          bring.keys = keys.subspan(slice.key + first, count);
          bring.rows = rows.subspan((slice.key + first) * options_.width, count * options_.width);
          tell(bring);
        }
      } catch (
          const Failure&) {  // the server is lost, or what it does not take is: the others have it, or it is named
      }
      try {
        tell(last);               // whatever became of the rows: nobody waits for this worker
      } catch (const Failure&) {  // it is lost, and its rows with it
      }
    }
    // Others' sums may wait for this worker's: of a round that it has no part in, or of one whose sum failed here alone, as
    // when the job began a new generation because one of them came back. And each finds no box from here on, whether it was
    // in a round or between two: their next tables are alike.
    if (box_ != nullptr)
      box_->give_up("table " + std::to_string(options_.number) + " is over at worker " +
                    std::to_string(rank_) + ": " + why);
    box_ = nullptr;
    publish();
  } catch (const std::exception&) {  // no memory: the others notice when this process ends
  }
}

// --- Messages.

TableMessage TableWorker::message(TableAct act) const {
  TableMessage out;
  out.act = act;
  out.table = options_.number;
  out.life = life_;
  out.terms = terms_;
  out.rounds = statistics_.rounds;
  out.set = hot_ ? hot_->set().number() : 0;
  return out;
}

Part TableWorker::part_of(int server, const TableMessage& message) {
  return {server, {SArray<Key>{static_cast<Key>(server)}, encode(message), {}}};
}

std::vector<Part> TableWorker::parts_of(const TableMessage& whole, bool to_all) const {
  std::vector<Part> parts;
  const auto slices = WorkerCore::slices(whole.keys, {}, whole.keys.size(), core_->ranges());
  for (std::size_t server = 0; server < slices.size(); ++server) {
    const Slice& slice = slices[server];
    if (slice.keys == 0 && !to_all) continue;
    TableMessage one = whole;
    one.keys = whole.keys.subspan(slice.key, slice.keys);
    if (terms_.rounds_end_by_themselves()) one.rounds = rounds_[server];
    if (!whole.rows.empty())
      one.rows = whole.rows.subspan(slice.key * options_.width, slice.keys * options_.width);
    parts.push_back(part_of(static_cast<int>(server), one));
  }
  return parts;
}

int TableWorker::send(std::vector<Part> parts, const std::shared_ptr<Flight>& flight) {
  Request request{0, true, true, 0, kTableKind, std::move(parts), {}, {}};
  request.gather = [flight](std::vector<Reply>& replies) { flight->arrived(std::move(replies)); };
  request.callback = [flight] { flight->done(std::nullopt); };
  request.waits_for_room = true;  // as every call of a table waits
  flight->expect();
  return core_->send(std::move(request));
}

void TableWorker::exchange(TableAct act, std::span<const Key> keys, std::span<const float> rows,
                           float* into) {
  const std::size_t width = options_.width;
  for (std::size_t first = 0; first < keys.size(); first += most_rows_) {
    const std::size_t count = std::min(most_rows_, keys.size() - first);
    TableMessage some = message(act);
    some.keys = keys.subspan(first, count);
    if (!rows.empty()) some.rows = rows.subspan(first * width, count * width);
    flight_ = std::make_shared<Flight>();
    (void)send(parts_of(some, false), flight_);
    std::size_t left = count * width * sizeof(float);
    for (const Reply& reply : flight_->wait()) {
      if (into == nullptr) continue;
      const std::size_t bytes = reply.data.vals.size();
      if (bytes % sizeof(float) != 0 || bytes > left)
        throw Failure(ErrorCode::kCorrupt, "server " + std::to_string(reply.server) + " answers with " +
                                               std::to_string(bytes) + " bytes of rows");
      std::memcpy(into, reply.data.vals.data(), bytes);
      into += bytes / sizeof(float);
      left -= bytes;
    }
    if (into != nullptr && left != 0)
      throw Failure(ErrorCode::kCorrupt, "the servers answer with too few rows");
  }
}

}  // namespace tally::kv
