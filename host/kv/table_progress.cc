#include "kv/table_progress.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kv/table_clock.h"

namespace tally::kv {
namespace {

constexpr int kClocks = 65'536;  // among customers of tables, behind their numbers

// For another thread. Copies of an exception share its text, by a count that ThreadSanitizer does not see.
Failure apart(const Failure& failure) { return {failure.code(), failure.what(), failure.index()}; }

}  // namespace

std::unique_ptr<TableCalls> make_table(Node& node, const TableOptions& options,
                                       std::shared_ptr<HotPath> box) {
  const bool is_called = options.age != std::chrono::milliseconds(0) && box != nullptr &&
                         may_have_hot_keys(options, node.options().workers);
  if (is_called) return std::make_unique<TableProgress>(node, options, std::move(box));
  return std::make_unique<TableWorker>(node, options, std::move(box));
}

TableProgress::TableProgress(Node& node, const TableOptions& options, std::shared_ptr<HotPath> box)
    : table_(node, options, std::move(box)),
      inbox_("tally-kv-table", std::numeric_limits<std::size_t>::max(), [] {}),
      clock_(std::make_unique<WorkerCore>(node, kTableApp, kClocks + options.number)) {
  clock_->on_failure(
      [this](int, const Failure& failure) { inbox_.post([this, failure] { fail(failure); }); });
  inbox_.post([this] { ask(); });
  inbox_.begin();
}

// The thread, which asks, before what it asks with.
TableProgress::~TableProgress() { inbox_.stop(); }

void TableProgress::wait_for(const std::function<void(const Waits&)>& begin) {
  const auto call = std::make_shared<std::promise<std::optional<Failure>>>();
  inbox_.post([begin, call] { begin(call); });
  const std::optional<Failure> failure = call->get_future().get();
  if (failure) throw *failure;
}

void TableProgress::pull(std::span<const Key> keys, std::span<float> rows) {
  wait_for([=, this](const Waits& call) {
    try {
      table_.pull(keys, rows);
      call->set_value(std::nullopt);
    } catch (const Failure& failure) {
      heard_ = true;
      call->set_value(apart(failure));
    }
  });
}

// What is wrong with it is said before others rest on it.
void TableProgress::push(std::span<const Key> keys, std::span<const float> gradients) {
  table_.check_push(keys, gradients);
  wait_for([=, this](const Waits& call) {
    push_ = {keys, gradients, call};
    ask();
  });
}

void TableProgress::close() {
  wait_for([this](const Waits& call) {
    if (table_.is_over()) {
      const bool is_news = table_.failure() && !std::exchange(heard_, true);
      return call->set_value(is_news ? std::optional(apart(*table_.failure())) : std::nullopt);
    }
    closing_ = call;
    ask();
  });
}

TableStatistics TableProgress::statistics() const {
  TableStatistics now = table_.statistics();
  now.late = late_;
  return now;
}

// --- On the thread.

bool TableProgress::or_fail(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Failure& failure) {
    for (const Waits& call : {std::exchange(push_, {}).call, std::exchange(closing_, nullptr)}) {
      if (!call) continue;
      heard_ = true;
      call->set_value(apart(failure));
    }
    return false;
  }
}

void TableProgress::fail(const Failure& failure) {
  (void)or_fail([&] { table_.or_leave([&] { throw failure; }); });
}

// Again when the program has more to say: of several answers the first one counts.
void TableProgress::ask() {
  const auto send = [this] {
    const TableAct act = push_.call ? TableAct::kAskPushed : closing_ ? TableAct::kAskCloses : TableAct::kAsk;
    Request request{0, true, true, 0, kTableKind, {table_.question(act)}, {}, {}};
    request.gather = [this](std::vector<Reply>& replies) {
      inbox_.post([this, round = TableWorker::round_in(replies.front())] { hear(round); });
    };
    request.waits_for_room = true;
    (void)clock_->send(std::move(request));
  };
  (void)or_fail([&] { table_.or_leave(send); });
}

void TableProgress::hear(std::uint64_t round) {
  const std::uint64_t mine = table_.statistics().rounds;
  if (table_.is_over() || round < mine) return;
  if (round == mine) return take_part();
  if (round != TableClock::kEnd || !closing_)
    return fail({ErrorCode::kCorrupt, "server 0 calls a round of table " + std::to_string(options().number) +
                                          " that cannot be yet"});
  if (!or_fail([this] { table_.close(); })) return;
  std::exchange(closing_, nullptr)->set_value(std::nullopt);
}

void TableProgress::take_part() {
  const std::uint64_t round = table_.statistics().rounds;
  if (!or_fail([this] { table_.take_part(push_.keys, push_.gradients); })) return;
  const Waits pushed = std::exchange(push_, {}).call;
  if (pushed) {
    late_ += round > next_ ? 1 : 0;
    next_ = round + 1;
  }
  if (pushed) pushed->set_value(std::nullopt);
  ask();
}

}  // namespace tally::kv
