#include "kv/table_clock.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tally::kv {

TableClock::TableClock(std::size_t workers, std::size_t least, TimeNs age)
    : least_(least != 0 ? least : workers), age_(age), said_(workers, TableAct::kAsk) {}

// A round is called once a worker has ended the one before, in which all took part: so nobody is more than one behind.
TableClock::Call TableClock::take(const KVMeta& from, TableAct says, std::uint64_t rounds, TimeNs now) {
  if (rounds > called_ || rounds + 1 < called_)
    throw Failure(ErrorCode::kCorrupt, "worker " + std::to_string(from.rank()) + " asks about round " +
                                           std::to_string(rounds) + " of a table, and " +
                                           std::to_string(called_) + " are called");
  if (rounds < called_) return {{from}, rounds};  // it has not heard yet
  waiting_.push_back(from);
  if (says != TableAct::kAsk) said_[static_cast<std::size_t>(from.rank())] = says;
  const std::size_t pushed = count(TableAct::kAskPushed);
  const std::size_t closing = count(TableAct::kAskCloses);
  if (says == TableAct::kAskPushed && pushed == 1) opened_ = now;
  if (pushed >= least_ || (pushed != 0 && pushed + closing == said_.size())) return call();
  return closing == said_.size() ? answer_all(kEnd) : Call{};
}

TableClock::Call TableClock::call() { return answer_all(called_++); }

TimeNs TableClock::due() const noexcept { return count(TableAct::kAskPushed) == 0 ? kNever : opened_ + age_; }

std::vector<KVMeta> TableClock::forget() { return answer_all(kEnd).to; }

TableClock::Call TableClock::answer_all(std::uint64_t round) {
  std::fill(said_.begin(), said_.end(), TableAct::kAsk);
  return {std::exchange(waiting_, {}), round};
}

std::size_t TableClock::count(TableAct says) const {
  return static_cast<std::size_t>(std::count(said_.begin(), said_.end(), says));
}

}  // namespace tally::kv
