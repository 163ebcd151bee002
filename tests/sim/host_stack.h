#pragma once
// A host of the simulated rack: its IP stack, and what every process on it has in common.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "frames.h"
#include "jobs/binding.h"
#include "schedule.h"
#include "tally/net.h"

namespace tally::sim {

// The UDP payload of a frame; without data: it is cut short, or not for this address and port, and never
// reaches the program.
[[nodiscard]] std::span<const std::byte> unwrap(const Bytes& frame, const jobs::Binding& self);

// Of a frame that is whole.
[[nodiscard]] Ipv6 source_of(const Bytes& frame);
[[nodiscard]] Ipv6 destination_of(const Bytes& frame);

// Which of the boxes has the address; nullptr: none.
[[nodiscard]] const jobs::Box* box_at(std::span<const jobs::Box> boxes, const Ipv6& address);

// A process: it hears datagrams and wakes when it asked to, can pause, and after a crash it comes back as another one.
class HostProcess {
 public:
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;
  virtual ~HostProcess() = default;

  void receive(const Bytes& frame);
  void pause(TimeNs until);
  [[nodiscard]] virtual bool alive() const noexcept = 0;

 protected:
  // self: its address and port.
  HostProcess(Schedule& schedule, const jobs::Binding& self) : schedule_(schedule), self_(self) {}

  virtual void take(std::span<const std::byte> datagram, const Ipv6& source) = 0;
  virtual void service() = 0;  // time to look at the clock, and to send

  void begin_life();
  void end_life();  // nothing that waits reaches who comes next
  [[nodiscard]] bool runs() const noexcept { return alive() && schedule_.now() >= paused_until_; }
  void wake_at(TimeNs when);  // calls service(); of several, the earliest

  Schedule& schedule_;

 private:
  jobs::Binding self_;
  std::uint64_t life_ = 0;
  TimeNs wake_ = kNever;
  TimeNs paused_until_ = 0;
  std::deque<Bytes> inbox_;  // what arrives while paused, as in a socket buffer
};

}  // namespace tally::sim
