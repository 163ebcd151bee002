#pragma once
// The sums of one job at a server (docs/protocol_server.md, 11.7): what comes in goes into the table, what
// the table says goes out. Knows nothing of joining; its owner tells it the epoch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/datagram.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "ps/ps_options.h"
#include "ps/state_timers.h"
#include "server/merge_table.h"
#include "tally/bounded_queue.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::ps {

// What the server owes the box, first come first served, in a few words each: the sum of a RESULT is read
// from its state when its turn comes, straight into the datagram. Bounded; what does not fit is counted by
// its job and repaired by the timers of workers and server.

enum class OwedKind : std::uint8_t { kResult, kFlush, kResend };

struct Owed {
  std::uint64_t ranks = 0;  // RESULT: who shall get it; RESEND: who shall offer again
  Epoch epoch{};            // not sent in another one
  Chunk chunk{};
  std::uint16_t job = 0;  // index in PsOptions::jobs
  OwedKind kind{};
  bool again = false;  // RESULT of a chunk that was complete before
};

using SendQueue = BoundedQueue<Owed, 4096>;

// What the jobs of one server share.
struct PsShared {
  const kernels::Kernels& kernels;
  server::MergeTable& table;
  StateTimerPool& timers;  // one for each state of the table
  SendQueue& queue;
};

class PsJob {
 public:
  // index: in PsOptions::jobs.
  PsJob(const PsShared& shared, std::uint16_t index, Rank self, PsJobStatistics& statistics);

  // The same epoch, which the server has asked about again: nothing is lost.
  void renew(const engine::Membership& membership) noexcept { membership_ = membership; }
  // A new one: every sum is gone. One that was kept would be taken for that of the same number, 2^32 chunks
  // later in the same generation.
  void enter(const engine::Membership& membership) noexcept;
  void end() noexcept;

  // CONTRIBUTE, PARTIAL, RESULT or QUERY of the present epoch: job, epoch and cookie are checked. What is
  // refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const engine::Datagram& datagram, TimeNs now);

  // Why the job cannot go on: its ranks issue different operations. Handed out once.
  [[nodiscard]] std::string take_failure() { return std::exchange(failure_, {}); }

  // Takes the steps that are due.
  void time_out(TimeNs now) noexcept;
  [[nodiscard]] TimeNs deadline() const noexcept { return timers_.deadline(); }

  // Of what is owed: bytes of the datagram, 0 if it is of no use any more.
  [[nodiscard]] std::size_t write(const Owed& owed, std::span<std::byte> out, std::uint16_t& port);

 private:
  [[nodiscard]] std::optional<Refused> check_sender(const Header& header) const noexcept;
  [[nodiscard]] std::optional<Refused> check_chunk(const Header& header) const noexcept;
  [[nodiscard]] bool outdated(Chunk chunk) const noexcept;
  void advance(Chunk chunk) noexcept;
  void on_query(const Header& header, TimeNs now) noexcept;
  void stop_timers(Chunk chunk, server::StateIndex before) noexcept;
  void after_merge(const Header& header, const server::MergeResult& result, std::uint64_t held, TimeNs now);
  void completed(const Header& header, std::uint64_t held) noexcept;
  [[nodiscard]] static std::string mismatch_text(const Header& header, const server::MergeResult& result);
  void step(server::StateIndex at, TimeNs now) noexcept;
  void owe(OwedKind kind, Chunk chunk, std::uint64_t ranks, bool again = false) noexcept;
  [[nodiscard]] std::uint32_t keys_of(std::uint64_t ranks) const noexcept;
  [[nodiscard]] Header header_of(PacketType type, const Owed& owed) const noexcept;

  PsShared shared_;
  std::uint16_t index_;
  Rank self_;
  PsJobStatistics& statistics_;
  std::optional<engine::Membership> membership_;
  server::MergeJob job_;  // its id is ours: a box that gives out its ids anew must not mix two jobs
  std::array<std::uint32_t, kMaxRanks> keys_{};
  StateTimers timers_;
  std::optional<Chunk> high_;  // the newest chunk of this epoch
  std::string failure_;
};

}  // namespace tally::ps
