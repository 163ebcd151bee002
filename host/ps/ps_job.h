#pragma once
// The sums of one job at a server (docs/protocol_server.md, 11.7): what comes in goes into the table, what
// the table says goes out. Knows nothing of joining; its owner tells it the epoch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/datagram.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "ps/job_boxes.h"
#include "ps/ps_options.h"
#include "ps/state_timers.h"
#include "server/merge_table.h"
#include "tally/bounded_queue.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::ps {

// What the server owes its boxes, first come first served, in a few words each: the sum of a RESULT is read
// from its state when its turn comes, straight into the datagram. Bounded; what does not fit is counted by
// its job and repaired by the timers of workers and server. In a job over several boxes it is one datagram for
// each box that some of the ranks are behind: many boxes take no more room than one, and keep nobody waiting
// for longer than it takes to send that.

enum class OwedKind : std::uint8_t { kResult, kFlush, kResend };

struct Owed {
  // RESULT: who shall get it; RESEND: who shall offer again; FLUSH, only with a plan: whose contributions a box may
  // hold. Written, they are taken off; 0: nothing more is owed.
  std::uint64_t ranks = 0;
  Epoch epoch{};  // not sent in another one
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
  // A chunk's state as an input finds it.
  struct Before {
    std::uint64_t held = 0;   // ranks
    std::uint64_t whole = 0;  // boxes that have no entry of the chunk any more, the input's among them
    BoxIndex box = 0;         // where the input came from
    bool was_whole = false;   // the input was all that this box can hold
  };

 public:
  // index: in PsOptions::jobs.
  PsJob(const PsShared& shared, std::uint16_t index, Rank self, PsJobStatistics& statistics);

  // The same epoch, which the server has asked about again: nothing is lost.
  void renew(const engine::Membership& membership) { membership_ = membership; }
  // A new one: every sum is gone. One that was kept would be taken for that of the same number, 2^32 chunks
  // later in the same generation. With a plan the boxes other than the home are open() when the server is a
  // member there.
  void enter(const engine::Membership& membership, std::shared_ptr<const Plan> plan = {}, BoxIndex home = 0);
  void end() noexcept;

  void open(BoxIndex box, JobId job, std::uint32_t shards) { boxes_.open(box, job, shards); }
  void close(BoxIndex box) { boxes_.close(box); }

  // CONTRIBUTE, PARTIAL, RESULT or QUERY of the present epoch, which came from this box of the plan (without one:
  // 0): job, epoch and cookie are checked. What is refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const engine::Datagram& datagram, BoxIndex box, TimeNs now);

  // Why the job cannot go on: its ranks issue different operations. Handed out once.
  [[nodiscard]] std::string take_failure() { return std::exchange(failure_, {}); }

  // Takes the steps that are due.
  void time_out(TimeNs now) noexcept;
  [[nodiscard]] TimeNs deadline() const noexcept { return timers_.deadline(); }

  // Of what is owed the next datagram: its bytes, 0 if the rest is of no use any more.
  [[nodiscard]] std::size_t write(Owed& owed, std::span<std::byte> out, std::uint16_t& port, BoxIndex& box);

  [[nodiscard]] const JobBoxes& boxes() const noexcept { return boxes_; }

 private:
  [[nodiscard]] std::optional<Refused> check_sender(const Header& header) const noexcept;
  [[nodiscard]] std::optional<Refused> check_chunk(const Header& header) const noexcept;
  [[nodiscard]] bool outdated(Chunk chunk) const noexcept;
  void advance(Chunk chunk, std::uint64_t ranks, BoxIndex box) noexcept;
  void on_query(const Header& header, BoxIndex box, TimeNs now) noexcept;
  void note_whole(const Header& header, const StateTimer* timer, Before& before) const noexcept;
  void stop_timers(Chunk chunk, server::StateIndex before) noexcept;
  void after_merge(const Header& header, const server::MergeResult& result, const Before& before, TimeNs now);
  void completed(const Header& header, const Before& before) noexcept;
  [[nodiscard]] static std::string mismatch_text(const Header& header, const server::MergeResult& result);
  void step(server::StateIndex at, TimeNs now) noexcept;
  [[nodiscard]] std::uint64_t overdue(Chunk chunk, std::uint64_t missing) const noexcept;
  void owe(OwedKind kind, Chunk chunk, std::uint64_t ranks, bool again = false) noexcept;
  [[nodiscard]] std::uint64_t take_ranks(Owed& owed, BoxIndex& box) noexcept;
  [[nodiscard]] std::uint32_t keys_of(std::uint64_t ranks) const noexcept;
  [[nodiscard]] Header header_of(PacketType type, const Owed& owed, std::uint64_t ranks,
                                 JobId job) const noexcept;

  PsShared shared_;
  std::uint16_t index_;
  Rank self_;
  PsJobStatistics& statistics_;
  std::optional<engine::Membership> membership_;
  server::MergeJob job_;  // its id is ours: a box that gives out its ids anew must not mix two jobs
  std::array<std::uint32_t, kMaxRanks> keys_{};
  StateTimers timers_;
  std::optional<Chunk> high_;  // the newest chunk of this epoch
  JobBoxes boxes_;
  // With a plan, of each box and each rank whose bit is set: the newest chunk that it is known to have offered there in
  // this epoch. Queues in front of two boxes say nothing of each other.
  struct Heard {
    std::uint64_t ranks = 0;
    std::array<Chunk, kMaxRanks> newest{};
  };
  std::vector<Heard> heard_;
  std::string failure_;
};

}  // namespace tally::ps
