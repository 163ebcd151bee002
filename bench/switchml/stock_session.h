#pragma once
// All clients of one session and their operations, one behind the other without a barrier between clients, as
// training does. Says which frames to send, loses some on purpose, has replies judged, and checks every sum.
// Pure: whoever has a network moves the frames. Owner: one thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "impair/faults.h"
#include "reply_judge.h"
#include "stock_slice.h"
#include "stock_thread.h"

namespace tally::stock {

// A rank begins an operation so long after it has ended the one before.
struct LateRank {
  std::uint32_t rank = 0;
  std::size_t operation = 0;
  TimeNs by = 0;
};

struct SessionOptions {
  std::vector<StockAddresses> members{};  // by rank, at most 64
  std::uint16_t payload = 1024;
  std::uint16_t threads = 1;
  std::uint16_t window = 64;
  TimeNs timeout = kMillisecond;
  DuplicateGuard guard = DuplicateGuard::kEvery;
  TimerHabit timers = TimerHabit::kNumbered;
  std::vector<StockOperation> operations{};
  std::vector<LateRank> late{};
  double loss = 0;  // share of the frames, of requests and of replies
  std::uint64_t seed = 1;
  bool opaque_tsi = false;  // packet numbers on the wire mean nothing (scramble_tsi())
  bool judged = true;       // every byte of every reply (reply_judge.h)
};

struct SessionFigures {
  StockCounters counters{};
  std::uint64_t lost_requests = 0, lost_replies = 0;
  std::uint64_t strangers = 0;  // frames for none of the clients, such as other hosts' broadcasts
  std::uint64_t judged = 0;     // replies
};

class StockSession {
 public:
  explicit StockSession(const SessionOptions& options);

  [[nodiscard]] std::size_t frame_bytes() const noexcept { return kHeads + options_.payload; }
  [[nodiscard]] std::size_t members() const noexcept { return clients_.size(); }

  // Writes a frame that the rank is to send now: of a first window, or, if `idle` (no reply waits), one whose
  // timer has run out. frame: frame_bytes(). False: there is none now.
  [[nodiscard]] bool next(std::size_t rank, std::span<std::byte> frame, TimeNs now, bool idle);
  // A frame that arrived, for whomever its Ethernet destination is. True: it has become one that this rank is
  // to send, as long as it was.
  [[nodiscard]] bool receive(std::span<std::byte> frame, TimeNs now);
  // No timer of the rank runs out before, and it begins no operation.
  [[nodiscard]] TimeNs next_resend(std::size_t rank) const noexcept;

  // All clients have all their results.
  [[nodiscard]] bool done() const noexcept;
  // Results so far, of all: what does not grow, stands still.
  [[nodiscard]] std::uint64_t progress() const noexcept;
  // The first reply that was wrong; empty: none was.
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }
  // Who waits for what, for people.
  [[nodiscard]] std::string waiting() const;
  // After done(): the first operation with wrong sums, or whose float sums differ between ranks; empty: all
  // are right. largest_error: of floats, in parts of the bound.
  [[nodiscard]] std::string check(double& largest_error);
  [[nodiscard]] SessionFigures figures() const noexcept;

 private:
  struct Member {
    std::vector<std::vector<std::int32_t>> integers{};  // by operation; one of both is empty
    std::vector<std::vector<float>> floats{};
    std::size_t begun = 0;           // operations
    std::optional<TimeNs> begins{};  // the next one, not before

    [[nodiscard]] StockTensor tensor(std::size_t number) noexcept {
      return {integers[number], floats[number]};
    }
  };

  [[nodiscard]] TimeNs lateness(std::size_t rank, std::size_t operation) const noexcept;
  [[nodiscard]] bool leaves(std::size_t rank, std::span<std::byte> frame);

  SessionOptions options_;
  ValuesSetting values_;
  std::vector<StockClient> clients_;
  std::unordered_map<std::uint64_t, std::size_t> ranks_;  // by MAC
  std::vector<Member> data_;                              // by rank
  ReplyJudge judge_;
  impair::Chance lose_request_, lose_reply_;
  std::string complaint_;
  SessionFigures figures_{};
};

}  // namespace tally::stock
