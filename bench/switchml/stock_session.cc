#include "stock_session.h"

#include <algorithm>
#include <cstring>

namespace tally::stock {
namespace {

enum Way : std::uint64_t { kRequests, kReplies };

std::uint64_t number_of(const Mac& mac) noexcept {
  std::uint64_t number = 0;
  std::memcpy(&number, mac.data(), mac.size());
  return number;
}

// frame: with all heads.
void change_tsi(std::span<std::byte> frame, void (*change)(StockHeader&) noexcept) noexcept {
  FrameHeads h = heads_of(frame);
  change(h.switchml);
  set_heads(frame, h);
}

std::string wrong_text(const WrongSums& sums, std::size_t number, std::size_t rank) {
  return "WRONG SUMS: operation " + std::to_string(number) + ", rank " + std::to_string(rank) + ": " +
         std::to_string(sums.wrong) + " elements, the first is " + std::to_string(sums.first) + ": " +
         std::to_string(sums.got) + " instead of " + std::to_string(sums.expected);
}

}  // namespace

StockSession::StockSession(const SessionOptions& options)
    : options_(options),
      values_{.seed = options.seed,
              .ranks = static_cast<std::uint32_t>(options.members.size()),
              .threads = options.threads,
              .values = options.payload / sizeof(std::int32_t)},
      data_(options.members.size()),
      judge_(options.members, options.payload),
      lose_request_(options.loss, {options.seed, kRequests, 0}),
      lose_reply_(options.loss, {options.seed, kReplies, 0}) {
  for (std::uint32_t rank = 0; rank < values_.ranks; ++rank) {
    clients_.emplace_back(StockOptions{.addresses = options.members[rank],
                                       .rank = rank,
                                       .ranks = values_.ranks,
                                       .payload = options.payload,
                                       .threads = options.threads,
                                       .window = options.window,
                                       .timeout = options.timeout,
                                       .guard = options.guard,
                                       .timers = options.timers});
    ranks_.emplace(number_of(options.members[rank].mac), rank);
    Member& data = data_[rank];
    for (std::size_t number = 0; number < options.operations.size(); ++number) {
      const StockOperation& o = options.operations[number];
      data.integers.emplace_back(o.floats ? 0 : o.elements);
      data.floats.emplace_back(o.floats ? o.elements : 0);
      fill_values(data.tensor(number), values_, number, rank);
    }
  }
}

TimeNs StockSession::lateness(std::size_t rank, std::size_t operation) const noexcept {
  for (const LateRank& late : options_.late)
    if (late.rank == rank && late.operation == operation) return late.by;
  return 0;
}

bool StockSession::leaves(std::size_t rank, std::span<std::byte> frame) {
  if (options_.judged) judge_.sent(rank, frame);
  if (options_.opaque_tsi) change_tsi(frame, scramble_tsi);
  if (!lose_request_.next()) return true;
  ++figures_.lost_requests;
  return false;
}

bool StockSession::next(std::size_t rank, std::span<std::byte> frame, TimeNs now, bool idle) {
  StockClient& client = clients_[rank];
  Member& data = data_[rank];
  if (client.done()) {
    if (data.begun == options_.operations.size()) return false;
    if (!data.begins) data.begins = now + lateness(rank, data.begun);
    if (now < *data.begins) return false;
    data.begins.reset();
    client.begin(data.tensor(data.begun));
    ++data.begun;
  }
  for (StockThread& thread : client.threads()) {
    while (thread.first(frame, now) || (idle && thread.resend(frame, now)))
      if (leaves(rank, frame)) return true;
  }
  return false;
}

bool StockSession::receive(std::span<std::byte> frame, TimeNs now) {
  const auto found =
      frame.size() < kHeads ? ranks_.end() : ranks_.find(number_of(heads_of(frame).ethernet.destination));
  const std::size_t rank = found == ranks_.end() ? 0 : found->second;
  StockThread* const thread = found == ranks_.end() ? nullptr : clients_[rank].thread_for(frame);
  if (thread == nullptr) {
    ++figures_.strangers;
    return false;
  }
  if (lose_reply_.next()) {
    ++figures_.lost_replies;
    return false;
  }
  if (options_.opaque_tsi) change_tsi(frame, unscramble_tsi);
  if (options_.judged) {
    ++figures_.judged;
    if (complaint_.empty()) complaint_ = judge_.judge(rank, frame);
  }
  return thread->receive(frame, now) && leaves(rank, frame);
}

TimeNs StockSession::next_resend(std::size_t rank) const noexcept {
  TimeNs earliest = data_[rank].begins.value_or(kNever);
  for (const StockThread& thread : clients_[rank].threads())
    earliest = std::min(earliest, thread.next_resend());
  return earliest;
}

bool StockSession::done() const noexcept {
  for (std::size_t rank = 0; rank < clients_.size(); ++rank)
    if (data_[rank].begun < options_.operations.size() || !clients_[rank].done()) return false;
  return true;
}

std::uint64_t StockSession::progress() const noexcept {
  std::uint64_t answered = 0;
  for (const StockClient& client : clients_) answered += client.counters().answered;
  return answered;
}

std::string StockSession::waiting() const {
  std::string text;
  for (std::size_t rank = 0; rank < clients_.size(); ++rank) {
    for (std::size_t t = 0; const StockThread& thread : clients_[rank].threads()) {
      if (!thread.done())
        text += (text.empty() ? "" : "; ") + std::string("rank ") + std::to_string(rank) + " thread " +
                std::to_string(t) + " for packet " + std::to_string(thread.first_unanswered()) +
                " of operation " + std::to_string(data_[rank].begun - 1);
      ++t;
    }
  }
  return text;
}

std::string StockSession::check(double& largest_error) {
  for (std::size_t rank = 0; rank < data_.size(); ++rank) {
    Member& data = data_[rank];
    for (std::size_t number = 0; number < options_.operations.size(); ++number) {
      const WrongSums sums = check_values(data.tensor(number), values_, number);
      largest_error = std::max(largest_error, sums.largest_error);
      if (sums.wrong != 0) return wrong_text(sums, number, rank);
      const auto& mine = data.floats[number];
      // Of an operation on integers there are none, and memcmp() takes no null pointer.
      if (!mine.empty() &&
          std::memcmp(mine.data(), data_[0].floats[number].data(), mine.size() * sizeof(float)) != 0)
        return "operation " + std::to_string(number) + ": ranks 0 and " + std::to_string(rank) +
               " have different bits";
    }
  }
  return {};
}

SessionFigures StockSession::figures() const noexcept {
  SessionFigures all = figures_;
  for (const StockClient& client : clients_) all.counters += client.counters();
  return all;
}

}  // namespace tally::stock
