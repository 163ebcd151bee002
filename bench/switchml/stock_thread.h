#pragma once
// One worker thread of a SwitchML client, as the original client's threads behave (docs/switchml_clients.md
// names the source of each habit and what was left out). Pure: frames and time in, frames out. Owner: one
// thread.
//
// M = window. The thread's slots are 2 M t .. 2 M t + M - 1. Its packets have running numbers over all
// operations; number s uses slot s mod M of them, in set (s / M) mod 2. B = min(M, blocks of the slice)
// packets are sent at once, and the reply to packet p becomes packet p + B, in place.

#include <cstdint>
#include <span>
#include <vector>

#include "stock_frame.h"
#include "stock_slice.h"
#include "tally/time.h"

namespace tally::stock {

enum class DuplicateGuard : std::uint8_t {
  kEvery,    // a reply to a packet that was answered is passed over
  kObserved  // the original's test sees every 64th packet only: other repeated replies count as new ones
};

enum class TimerHabit : std::uint8_t {
  kOwn,       // a packet has a timer, which its reply stops: a corrected client
  kNumbered,  // packet p has the (p mod M)-th, which the reply to the packet before it in its slot stops
  kObserved   // as the original: those of a first window, too, say p + 1, with packet p's slot
};

struct StockOptions {
  StockAddresses addresses{};
  std::uint32_t rank = 0;
  std::uint32_t ranks = 2;
  std::uint16_t payload = 1024;   // bytes of values: valid_payload()
  std::uint16_t threads = 1;      // 2 * window * threads <= 16,384 slots
  std::uint16_t window = 64;      // packets under way, of each thread
  TimeNs timeout = kMillisecond;  // of a slot; `window` times as long for the first window of an operation
  std::uint32_t timeouts_to_double = 100;  // of a thread, then the timeout doubles until its operation ends
  DuplicateGuard guard = DuplicateGuard::kEvery;
  TimerHabit timers = TimerHabit::kNumbered;
};

// Of one thread.
struct StockCounters {
  std::uint64_t sent = 0;    // requests, without resends
  std::uint64_t resent = 0;  // by timers, stale ones too
  std::uint64_t stale = 0;   // of these, for packets that were answered, most of them of an earlier operation
  std::uint64_t answered = 0;     // replies that counted
  std::uint64_t duplicates = 0;   // replies to packets that were answered
  std::uint64_t taken_twice = 0;  // of these, counted as new
  std::uint64_t others = 0;       // replies of another operation, or when there was none
  std::uint64_t malformed = 0;    // replies too short, or with a packet number that was never sent

  StockCounters& operator+=(const StockCounters& o) noexcept;
};

class StockThread {
 public:
  StockThread(const StockOptions& options, std::uint16_t number);

  // done() before. job: running number of the operation. slice: lives until done(); may be empty.
  void begin(StockTensor slice, std::uint32_t job) noexcept;
  [[nodiscard]] bool done() const noexcept { return received_ >= slice_.packets(); }

  [[nodiscard]] std::size_t frame_bytes() const noexcept { return kHeads + options_.payload; }
  // Writes the next frame of the first window; false: there is none left. frame: frame_bytes().
  [[nodiscard]] bool first(std::span<std::byte> frame, TimeNs now) noexcept;
  // A reply to this thread's port. True: `frame` has become the next request and is to be sent.
  [[nodiscard]] bool receive(std::span<std::byte> frame, TimeNs now) noexcept;
  // Writes a frame whose timer has run out; false: none has. The original looks at timers only when no reply
  // is there.
  [[nodiscard]] bool resend(std::span<std::byte> frame, TimeNs now) noexcept;
  // No timer runs out before.
  [[nodiscard]] TimeNs next_resend() const noexcept { return done() ? kNever : next_look_; }

  [[nodiscard]] const StockCounters& counters() const noexcept { return counters_; }
  // Of what it waits for, for people: the first packet without a reply.
  [[nodiscard]] std::uint32_t first_unanswered() const noexcept;

 private:
  struct Timer {
    TimeNs due = kNever;
    StockHeader sent{};  // so that a request that is made again is the same behind its UDP header
  };

  [[nodiscard]] bool answered(std::uint32_t packet) const noexcept { return seen_[packet]; }
  [[nodiscard]] bool passed_over(const StockHeader& h) noexcept;
  [[nodiscard]] std::uint16_t pool_index_of(std::uint32_t packet) const noexcept;
  void build(std::span<std::byte> frame, StockHeader header) const noexcept;
  void arm(std::uint32_t packet, TimeNs due, const StockHeader& sent) noexcept;
  [[nodiscard]] Timer& timer_of(std::uint32_t packet) noexcept;

  StockOptions options_;
  std::uint16_t number_;
  std::uint32_t shift_ = 0;  // running number of the operation's first packet, modulo 2 M
  StockSlice slice_{};
  std::uint32_t job_ = 0;
  std::uint32_t first_sent_ = 0;  // packets of the first window that have left
  std::uint32_t received_ = 0;
  std::vector<bool> seen_;
  std::vector<Timer> timers_;  // M
  TimeNs timeout_ = 0;
  TimeNs next_look_ = kNever;
  std::uint32_t timeouts_ = 0;  // since the timeout last doubled
  StockCounters counters_{};
};

// A SwitchML client: one rank, its worker threads and its running operation. Pure. Owner: one thread (the
// original has a thread for each StockThread; they share nothing but the operation).
class StockClient {
 public:
  explicit StockClient(const StockOptions& options);

  // The next operation, over all threads: thread t has the t-th part, the last one what is left over. done()
  // before; the tensor lives until done().
  void begin(StockTensor tensor) noexcept;
  [[nodiscard]] bool done() const noexcept;

  // Who gets this frame, by its Ethernet and UDP destinations, as a card's rules tell it; nullptr: nobody
  // here.
  [[nodiscard]] StockThread* thread_for(std::span<const std::byte> frame) noexcept;
  [[nodiscard]] std::span<StockThread> threads() noexcept { return threads_; }
  [[nodiscard]] std::span<const StockThread> threads() const noexcept { return threads_; }
  [[nodiscard]] StockCounters counters() const noexcept;
  [[nodiscard]] const StockOptions& options() const noexcept { return options_; }

 private:
  StockOptions options_;
  std::vector<StockThread> threads_;
  std::uint32_t next_job_ = 0;  // from 0 on, whenever a client starts
};

}  // namespace tally::stock
