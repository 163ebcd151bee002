#pragma once
// The door of membership: packets of control, each to the life of the job that it is for, and who may ask at all. It makes
// the groups of a job that admits them, and forgets those in which nobody is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "jobs/binding.h"
#include "members/box_state.h"
#include "members/control_packet.h"
#include "members/membership_status.h"
#include "members/native_life.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::members {

struct Reception {
  Reception(const MembershipOptions& options, RandomWords random) : box(options, std::move(random)) {}

  BoxState box;
  std::uint32_t last_id = 0;  // ids rotate, so that a withdrawn job's is not taken at once
  std::string closed{};       // why nothing new is admitted; empty: it is

  // As MembershipEngine's.
  void receive(std::span<const std::byte> datagram, const jobs::Binding& source, TimeNs now);
  // For a job of that name; fails if there is one, or no room.
  [[nodiscard]] Result<JobId> new_id(const std::string& name);
  // The life of that id ends, not its name.
  void withdraw(JobId id, std::string_view reason);
  // After anything that may have changed a job.
  void settle(TimeNs now);

 private:
  // A group of a declared job that admits it, which the JOIN makes; nullptr: it makes none, and was answered.
  [[nodiscard]] NativeLife* make_group(const ControlPacket& packet, JoinRequest& join,
                                       const jobs::Binding& source, TimeNs now);
  void forget_idle_groups(TimeNs now);
  void join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void give_up(const ControlPacket& packet, JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void enlist(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void planned(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  // True: it is control of the parent of some job, and was taken or dropped as that.
  [[nodiscard]] bool from_parent(std::span<const std::byte> datagram, const jobs::Binding& source,
                                 TimeNs now);
};

}  // namespace tally::members
