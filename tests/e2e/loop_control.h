#pragma once
// A small control program: the production membership engine against a data plane, as membership.h says.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/data_plane.h"
#include "members/membership.h"

namespace tally::e2e {

class LoopControl {
 public:
  LoopControl(io::DataPlane& plane, std::uint32_t slot_lines, std::uint64_t seed);

  JobId declare(const members::NativeConfig& job);
  void withdraw(std::string_view name);

  // Returns the datagrams, events and publications that it handled.
  std::size_t turn(TimeNs now);
  // No turn is needed before, unless the data plane has something to say.
  [[nodiscard]] TimeNs deadline() const noexcept { return membership_.deadline(); }

  [[nodiscard]] members::MembershipEngine& membership() noexcept { return membership_; }
  [[nodiscard]] const std::vector<JobId>& jobs() const noexcept { return jobs_; }  // ever declared
  [[nodiscard]] const std::vector<pipeline::Event>& events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t punts() const noexcept { return punts_; }
  [[nodiscard]] std::uint64_t published() const noexcept { return published_; }
  [[nodiscard]] std::uint64_t not_injected() const noexcept { return not_injected_; }

 private:
  std::size_t take_punts(TimeNs now);
  std::size_t take_events(TimeNs now);
  std::size_t publish(TimeNs now);
  std::size_t send();

  io::DataPlane& plane_;
  members::MembershipEngine membership_;
  std::vector<JobId> jobs_;
  std::vector<pipeline::Event> events_;
  std::vector<std::byte> datagram_;
  std::uint64_t newest_ = 0;  // version published
  std::uint64_t told_ = 0;    // version that membership knows to be in force
  std::uint64_t punts_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t not_injected_ = 0;
};

}  // namespace tally::e2e
