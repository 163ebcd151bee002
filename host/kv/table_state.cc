#include "kv/table_state.h"

#include <algorithm>
#include <utility>

namespace tally::kv {
namespace {

struct PushedRow {
  Key key = 0;
  const float* row = nullptr;
};

// Of all workers, by key, and of each key by rank: what is added in this order does not depend on who came first.
std::vector<PushedRow> by_key(const std::vector<std::span<const Key>>& keys,
                              const std::vector<const float*>& rows, std::size_t width) {
  std::vector<PushedRow> all;
  std::vector<std::ptrdiff_t> ends{0};
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    for (std::size_t i = 0; i < keys[rank].size(); ++i)
      all.push_back({keys[rank][i], rows[rank] + i * width});
    ends.push_back(static_cast<std::ptrdiff_t>(all.size()));
  }
  const auto before = [](const PushedRow& a, const PushedRow& b) { return a.key < b.key; };
  const std::size_t runs = keys.size();
  for (std::size_t step = 1; step < runs; step *= 2) {
    for (std::size_t run = 0; run + step < runs; run += 2 * step)
      std::inplace_merge(all.begin() + ends[run], all.begin() + ends[run + step],
                         all.begin() + ends[std::min(run + 2 * step, runs)], before);
  }
  return all;
}

}  // namespace

TableState::TableState(int number, int workers)
    : name_("table " + std::to_string(number)), workers_(static_cast<std::size_t>(workers)), over_(workers_) {
  begin_session();
}

void TableState::begin_session() {
  terms_.reset();
  clock_.reset();
  broken_.clear();
  applied_ = 0;
  gone_.assign(workers_, false);
  pushes_.assign(workers_, std::nullopt);
  pushed_ = 0;
  moves_.clear();
  newest_ = 0;
  agreed_ = 0;
}

void TableState::take(const KVMeta& from, TableMessage message, std::vector<TableAnswer>& answers) {
  answers_ = &answers;
  const auto rank = static_cast<std::size_t>(from.rank());
  if (message.life <= over_[rank]) return take_late(from, message);
  if (gone_[rank] && message.act != TableAct::kLeave) {
    try {
      throw_if_no_room(message);
    } catch (const Failure& failure) {
      return refuse(from, failure);
    }
  }
  later_.push_back({from, std::move(message)});
  do_what_is_due(later_.size() - 1);
}

void TableState::lose(int rank, std::vector<TableAnswer>& answers) {
  answers_ = &answers;
  lost_.insert(rank);
  std::erase_if(later_, [rank](const Held& held) { return held.from.rank() == rank; });
  if (goes_on()) {
    forget_close_of(rank);
    go_on_without_who_is_gone();
  } else if (terms_) {
    break_off("worker " + std::to_string(rank) + " is lost");
  }
  if (end_session_if_all_are_gone()) do_what_is_due(0);
}

void TableState::pass_time(TimeNs now, std::vector<TableAnswer>& answers) {
  answers_ = &answers;
  now_ = now;
  if (now_ < due()) return;
  clock_ ? tell(clock_->call()) : apply_round();
}

TimeNs TableState::due() const noexcept {
  if (clock_) return clock_->due();
  return pushed_ == 0 || !is_asynchronous() ? kNever : opened_ + terms_->age * kMillisecond;
}

// Of later_, from i on. What a worker says that has left waits until the session is over for all, if it soon will be.
void TableState::do_what_is_due(std::size_t i) {
  while (i < later_.size()) {
    const int rank = later_[i].from.rank();
    if (gone_[static_cast<std::size_t>(rank)] && !goes_on()) {
      ++i;
      continue;
    }
    const Held what = std::move(later_[i]);
    later_.erase(later_.begin() + static_cast<std::ptrdiff_t>(i));
    const bool went_on = goes_on();
    try {
      agree(rank, what.message);
      do_now(what);
    } catch (const Failure& failure) {
      refuse(what.from, failure);
    }
    // Or it has just been said that it is a table which goes on without them.
    if (end_session_if_all_are_gone() || (goes_on() && !went_on)) i = 0;
  }
}

// Of a life that is over here. Mostly its worker was answered when all closed and could not close at another server, so it
// leaves all of them. The session that is open now is not concerned.
void TableState::take_late(const KVMeta& from, const TableMessage& message) {
  if (message.act == TableAct::kLeave) return answer(from);
  refuse(from, Failure(ErrorCode::kAborted, "all workers have closed " + name_ + " here; its rows are back"));
}

void TableState::agree(int rank, const TableMessage& message) {
  if (message.act == TableAct::kLeave) return;
  if (gone_[static_cast<std::size_t>(rank)])
    throw Failure(ErrorCode::kAborted,
                  "worker " + std::to_string(rank) + " has left " + name_ + ", which the others go on with");
  const TableTerms& terms = message.terms;
  if (!terms_) {
    if (rows_ && rows_->size() != 0 && width_ != terms.width)
      throw Failure(ErrorCode::kInvalidArgument, name_ + " has rows of width " + std::to_string(width_) +
                                                     ", and worker " + std::to_string(rank) + " has width " +
                                                     std::to_string(terms.width));
    if (!rows_ || width_ != terms.width) {
      rows_.emplace(RowsOptions{.dimension = terms.width});
      try {
        throw_if_no_room(message);
      } catch (const Failure&) {
        rows_.reset();
        throw;
      }
    }
    rows_->set_rule(terms.rule, terms.rate);
    width_ = terms.width;
    terms_ = terms;
    first_ = rank;
    if (terms.rounds_are_called()) clock_.emplace(workers_, terms.least, terms.age * kMillisecond);
    if (!is_asynchronous() && broken_.empty()) {
      const auto left =
          std::find(gone_.begin(), gone_.end(), true);  // before anybody said what kind of table it is
      if (!lost_.empty()) broken_ = "worker " + std::to_string(*lost_.begin()) + " is lost";
      if (left != gone_.end())
        broken_ = "worker " + std::to_string(left - gone_.begin()) + " has left " + name_;
    }
  } else if (*terms_ != terms) {
    const auto [theirs, its] = difference_of(*terms_, terms);
    break_off(name_ + " has " + theirs + " at worker " + std::to_string(first_) + " and " + its +
              " at worker " + std::to_string(rank) + "; its options are the same at all workers");
    throw Failure(ErrorCode::kInvalidArgument, broken_);
  }
}

void TableState::do_now(const Held& what) {
  const TableMessage& message = what.message;
  const bool in_round =
      message.act == TableAct::kPull || message.act == TableAct::kPush || message.act == TableAct::kFetch;
  if (!broken_.empty() && message.act != TableAct::kPull && message.act != TableAct::kBring &&
      message.act != TableAct::kLeave)
    throw Failure(ErrorCode::kAborted, broken_);
  if (message.act == TableAct::kFetch && is_asynchronous())
    throw Failure(ErrorCode::kCorrupt, name_ + " is asynchronous, and has no hot rows");
  if (in_round && message.rounds != applied_ && !(is_asynchronous() && message.rounds < applied_))
    throw Failure(ErrorCode::kCorrupt, "for worker " + std::to_string(what.from.rank()) + " " +
                                           std::to_string(message.rounds) + " rounds of " + name_ +
                                           " have ended, and for this server " + std::to_string(applied_));
  check_set(what);
  switch (message.act) {
    case TableAct::kPull:
    case TableAct::kFetch:
      return give(what);
    case TableAct::kPush:
      make_room_in_round(message);
      return push(what);
    case TableAct::kBring:
      bring(message);
      return answer(what.from);
    case TableAct::kClose:
      return close(what);
    case TableAct::kLeave:
      return leave(what);
    case TableAct::kAsk:
    case TableAct::kAskPushed:
    case TableAct::kAskCloses:
      return ask(what);
  }
}

// --- Memory. What applying a round takes for a moment is not in it.

std::size_t TableState::held_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& held : pushes_) bytes += held ? held->message.memory.size() : 0;
  for (const Held& held : waiting_) bytes += held.message.memory.size();
  for (const Held& held : later_) bytes += held.message.memory.size();
  return bytes;
}

// To hold the message until others have come.
void TableState::throw_if_no_room(const TableMessage& message) const {
  const std::size_t held = held_bytes() + message.memory.size();
  if (bound_ != 0 && row_bytes() + held > bound_)
    throw Failure(ErrorCode::kRefused,
                  "this server has no room for a round of " + name_ + ": its rows have " +
                      std::to_string(row_bytes()) + " bytes, pushes that wait " + std::to_string(held) +
                      ", and at most " + std::to_string(bound_) + " are left for it (tally-kv --memory)");
}

void TableState::bound_rows(std::size_t held) {
  rows_->set_bound(bound_ == 0 ? 0 : std::max<std::size_t>(bound_, held + 1) - held);
}

// Nobody's push can be applied without the others', unless the table is asynchronous: the round ends for all, before any row
// has changed.
void TableState::make_room_in_round(const TableMessage& message) {
  try {
    throw_if_no_room(message);
  } catch (const Failure& failure) {
    if (!is_asynchronous()) break_off(failure.what());
    throw;
  }
  bound_rows(held_bytes() + message.memory.size());
}

// --- Rounds.

bool TableState::is_asynchronous() const noexcept { return terms_ && terms_->rounds_end_by_themselves(); }

bool TableState::goes_on() const noexcept { return is_asynchronous() && broken_.empty(); }

bool TableState::is_here(std::size_t rank) const {
  return !gone_[rank] && !lost_.contains(static_cast<int>(rank));
}

// As many have pushed as it waits for, or all who will.
bool TableState::round_is_full() const {
  if (pushed_ >= (is_asynchronous() && terms_->least != 0 ? terms_->least : workers_)) return true;
  std::size_t others = 0;
  for (std::size_t rank = 0; rank < workers_; ++rank) others += is_here(rank) && !pushes_[rank] ? 1 : 0;
  return others == closing_.size();
}

void TableState::push(const Held& what) {
  const int rank = what.from.rank();
  if (!closing_.empty() && !is_asynchronous()) {
    break_off("worker " + std::to_string(closing_.front().from.rank()) + " has closed " + name_ +
              ", and worker " + std::to_string(rank) + " goes on");
    throw Failure(ErrorCode::kAborted, broken_);
  }
  auto& place = pushes_[static_cast<std::size_t>(rank)];
  if (place) throw Failure(ErrorCode::kCorrupt, "a worker pushed twice in a round of " + name_);
  throw_if_lost(what.message.keys);
  place = what;
  if (++pushed_ == 1) opened_ = now_;
  if (round_is_full()) apply_round();
}

void TableState::ask(const Held& what) {
  if (!clock_) throw Failure(ErrorCode::kCorrupt, "rounds of " + name_ + " are not called");
  tell(clock_->take(what.from, what.message.act, what.message.rounds, now_));
}

void TableState::tell(TableClock::Call call) {
  for (KVMeta& to : call.to) answers_->push_back({std::move(to), {}, std::nullopt, call.round});
}

void TableState::apply_round() {
  std::vector<std::span<const Key>> pushed_keys;
  std::vector<const float*> pushed_rows;
  for (const auto& held : pushes_) {
    if (!held) continue;
    pushed_keys.push_back(held->message.keys);
    pushed_rows.push_back(held->message.rows.data());
  }
  std::vector<Key> keys;
  std::vector<float> sums;
  for (const PushedRow& one : by_key(pushed_keys, pushed_rows, width_)) {
    if (keys.empty() || keys.back() != one.key) {
      keys.push_back(one.key);
      sums.insert(sums.end(), one.row, one.row + width_);
    } else {
      apply(Rule::kSum, 0, sums.data() + sums.size() - width_, one.row, width_);
    }
  }
  try {
    if (rows_->first_lent(keys)) return;  // until it is back
    rows_->push(keys, {}, width_, sums.data(), 0);
  } catch (const Failure& failure) {
    return break_off(failure.what());
  }
  pushed_ = 0;
  std::uint32_t set = agreed_ + 1;
  for (const auto& held : pushes_) set = held ? std::min(set, held->message.set) : set;
  agreed_ = set;
  for (auto& held : pushes_) {
    if (held) answers_->push_back({std::exchange(held, std::nullopt)->from, {}, std::nullopt, applied_});
  }
  ++applied_;
  ++all_rounds_;
}

// --- Rows that are asked for, and such as move.

void TableState::give(const Held& what) {
  const TableMessage& message = what.message;
  throw_if_lost(message.keys);
  if (message.keys.size() * width_ * sizeof(float) > kMostMovedBytes)
    throw Failure(ErrorCode::kCorrupt, "worker " + std::to_string(what.from.rank()) + " asks for " +
                                           std::to_string(message.keys.size()) + " rows of " + name_ +
                                           " at once");
  const bool fetch = message.act == TableAct::kFetch;
  // Under this set others may have fetched it; under one of before its way back is not over.
  const auto elsewhere = [&](Key key) {
    const auto move = moves_.find(key);
    return move != moves_.end() && move->second.away && !(fetch && move->second.set >= message.set);
  };
  if (rows_->first_lent(message.keys) && std::any_of(message.keys.begin(), message.keys.end(), elsewhere)) {
    if (!broken_.empty()) throw Failure(ErrorCode::kAborted, broken_);
    throw_if_no_room(message);
    waiting_.push_back(what);
    return;
  }
  if (fetch) lend(message);
  std::vector<float> rows;
  std::vector<int> lens;
  rows.reserve(message.keys.size() * width_);
  rows_->pull(message.keys, rows, lens);
  answer(what.from, std::move(rows));
}

// A fetch that is older than the row's last move moves nothing.
void TableState::lend(const TableMessage& message) {
  if (!heard_of_set(message.set)) return;
  std::vector<Key> keys;
  for (const Key key : message.keys) {
    const auto move = moves_.find(key);
    if (move == moves_.end() || move->second.set < message.set) keys.push_back(key);
  }
  bound_rows(held_bytes());
  rows_->lend(keys, width_);
  for (const Key key : keys) moves_[key] = {message.set, applied_, true};
}

// Several may bring a row when they leave. The one with the most rounds has it right.
void TableState::bring(const TableMessage& message) {
  if (!heard_of_set(message.set)) return;
  for (std::size_t i = 0; i < message.keys.size(); ++i) {
    const auto found = moves_.find(message.keys[i]);
    if (found == moves_.end()) continue;
    Move& move = found->second;
    if (message.set < move.set || !(move.away || message.rounds > move.rounds)) continue;
    rows_->take_back(message.keys[i], message.rows.data() + i * width_);
    move = {message.set, message.rounds, false};
  }
  for (const Held& held : std::exchange(waiting_, {})) {
    try {
      give(held);
    } catch (const Failure& failure) {
      refuse(held.from, failure);
    }
  }
  if (pushed_ != 0 && round_is_full()) apply_round();
}

// A set follows another after a round of all, so one worker alone does not get ahead: under a set far away it would make
// every row that comes back older than what this server has heard of, and be ignored.
void TableState::check_set(const Held& what) const {
  if (what.message.set <= agreed_ + 1) return;
  throw Failure(ErrorCode::kCorrupt, "worker " + std::to_string(what.from.rank()) + " speaks of set " +
                                         std::to_string(what.message.set) + " of the hot keys of " + name_ +
                                         ", and the last round had set " + std::to_string(agreed_));
}

// Workers are at most one set apart, so what is older needs no memory. false: it is older.
bool TableState::heard_of_set(std::uint32_t set) {
  if (set > newest_) {
    newest_ = set;
    std::erase_if(moves_, [set](const auto& one) { return !one.second.away && one.second.set + 1 < set; });
  }
  return set + 1 >= newest_;
}

void TableState::throw_if_lost(std::span<const Key> keys) const {
  for (std::size_t i = 0; i < keys.size() && !lost_rows_.empty(); ++i) {
    if (lost_rows_.contains(keys[i]))
      throw Failure(ErrorCode::kAborted,
                    "the row of key " + std::to_string(keys[i]) + " is lost with the workers that had it",
                    static_cast<std::int64_t>(i));
  }
}

// --- Ends.

void TableState::close(const Held& what) {
  const std::string who = "worker " + std::to_string(what.from.rank());
  if (pushed_ != 0 && !is_asynchronous()) {
    break_off(who + " has closed " + name_ + " in a round of the others");
    throw Failure(ErrorCode::kAborted, broken_);
  }
  for (const Held& held : closing_) {
    if (held.from.sender == what.from.sender)
      throw Failure(ErrorCode::kCorrupt, who + " has closed " + name_ + " twice");
  }
  closing_.push_back(what);
  go_on_without_who_is_gone();
}

void TableState::forget_close_of(int rank) {
  std::erase_if(closing_, [rank](const Held& held) { return held.from.rank() == rank; });
}

// What was waited for may be there.
void TableState::go_on_without_who_is_gone() {
  if (pushed_ != 0 && round_is_full()) apply_round();
  std::size_t here = 0;
  for (std::size_t rank = 0; rank < workers_; ++rank) here += is_here(rank) ? 1 : 0;
  if (closing_.empty() || closing_.size() != here) return;
  for (const Held& held : std::exchange(closing_, {})) {
    over_[static_cast<std::size_t>(held.from.rank())] = held.message.life;
    answer(held.from);
  }
  gone_.assign(workers_, true);
}

void TableState::leave(const Held& what) {
  const auto rank = static_cast<std::size_t>(what.from.rank());
  const bool was_here = !gone_[rank];
  gone_[rank] = true;
  over_[rank] = what.message.life;
  // Nobody may have said yet what kind of table it is. Who has left before can end nothing for the others.
  if ((terms_ ? goes_on() : what.message.terms.rounds_end_by_themselves()) &&
      !(what.message.for_all && was_here)) {
    forget_close_of(what.from.rank());
    go_on_without_who_is_gone();
    return answer(what.from);
  }
  // Of a later set it has no row, and without it no round of that set has ended anywhere: what was given away is right here.
  for (auto& [key, move] : moves_) {
    if (!move.away || move.set <= what.message.set) continue;
    rows_->take_back(key, nullptr);
    move.away = false;
  }
  break_off("worker " + std::to_string(rank) + " has left " + name_ + ": " + std::string(what.message.text));
  answer(what.from);
}

// Nothing more is applied in this session, and nobody waits.
void TableState::break_off(const std::string& why) {
  if (broken_.empty()) broken_ = why;
  const Failure failure(ErrorCode::kAborted, broken_);
  for (auto& held : pushes_) {
    if (held) refuse(std::exchange(held, std::nullopt)->from, failure);
  }
  pushed_ = 0;
  for (std::vector<Held>* const all : {&waiting_, &closing_}) {
    for (const Held& held : std::exchange(*all, {})) refuse(held.from, failure);
  }
  if (!clock_) return;
  for (const KVMeta& asked : clock_->forget()) refuse(asked, failure);
}

bool TableState::end_session_if_all_are_gone() {
  for (std::size_t rank = 0; rank < workers_; ++rank) {
    if (!gone_[rank] && !lost_.contains(static_cast<int>(rank))) return false;
  }
  for (const auto& [key, move] : moves_) {
    if (move.away) lost_rows_.insert(key);
  }
  begin_session();
  return true;
}

void TableState::answer(const KVMeta& to, std::vector<float> rows) {
  answers_->push_back({to, std::move(rows), std::nullopt});
}

void TableState::refuse(const KVMeta& to, const Failure& failure) { answers_->push_back({to, {}, failure}); }

}  // namespace tally::kv
