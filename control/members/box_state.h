#pragma once
// What all jobs of the box share.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "epoch_source.h"
#include "job_membership.h"
#include "membership.h"
#include "outbox.h"
#include "publisher.h"
#include "rate_limit.h"
#include "session_life.h"
#include "shared_region.h"
#include "slot_allocator.h"

namespace tally {

// Lines of each core that pools and ledgers may take.
constexpr std::uint32_t own_slot_lines(const MembershipOptions& o) noexcept {
  return o.slot_lines - static_cast<std::uint32_t>(shared_lines(o.shared_entries, o.shared_elements));
}

struct BoxState {
  BoxState(const MembershipOptions& o, RandomWords random)
      : options(o), source(std::move(random)), slots(own_slot_lines(o)) {}

  MembershipOptions options;
  EpochSource source;
  SlotAllocator slots;         // in front of the shared region
  bool slots_changed = false;  // jobs that wait for lines are to be tried again
  TimeNs grow_at = kNever;     // when the next shrunk pool may grow
  Publisher publisher{};
  Outbox outbox{};
  RateLimit refusals{10, source.word()};  // JOINED(refused) to strangers, REJECT
  RateLimit probes{100, source.word()};
  MembershipCounters counters{};
  std::array<std::unique_ptr<JobMembership>, kMaxJobs + 1> jobs{};  // native ones
  std::array<std::unique_ptr<SessionMembership>, kMaxJobs + 1> sessions{};
  std::map<std::string, JobId, std::less<>> names{};  // of both

  [[nodiscard]] JobMembership* find(JobId id) const noexcept {
    return raw(id) <= kMaxJobs ? jobs[raw(id)].get() : nullptr;
  }
  [[nodiscard]] SessionMembership* find_session(JobId id) const noexcept {
    return raw(id) <= kMaxJobs ? sessions[raw(id)].get() : nullptr;
  }
  // Of all cores together.
  [[nodiscard]] std::uint32_t shared_slots() const noexcept {
    return options.shared_entries * options.shards;
  }
  void count(MembershipDrop d) noexcept { ++counters.drops[static_cast<std::size_t>(d)]; }
  void accept(PacketType t) noexcept { ++counters.accepted[static_cast<std::size_t>(t)]; }
  // An epoch that no job of the box lives in, is about to live in, or last lived in.
  [[nodiscard]] Epoch draw_epoch();
  // ... and for a session: its lower 24 bits are not all 0, and those of no other.
  [[nodiscard]] Epoch draw_session_epoch();

 private:
  [[nodiscard]] bool in_use(Epoch epoch) const noexcept;
};

}  // namespace tally
