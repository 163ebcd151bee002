#pragma once
// The daemon's end of a worker's cable: a memif port of role server, in this process, that shows what arrives
// and sends what a test wants. One thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "dpdk_transport/memif_link.h"
#include "jobs/binding.h"

namespace tally::e2e {

class FakeBox {
 public:
  static constexpr Mac kMac{0x02, 0xB0, 0x0C, 0, 0, 1};

  struct Arrived {
    std::vector<std::byte> frame;
    std::vector<std::byte> payload;  // empty: open_frame() refused it
    jobs::Binding source;
    Mac destination{};
    std::uint16_t queue = 0;
    std::uint16_t port = 0;  // UDP destination
  };

  // device: of role server. Ends the process when it cannot be opened.
  FakeBox(const std::string& device, bool ipv6 = false, std::uint16_t mtu = 1500, std::uint16_t queues = 1);
  FakeBox(const FakeBox&) = delete;
  FakeBox& operator=(const FakeBox&) = delete;
  ~FakeBox();

  [[nodiscard]] const jobs::Box& box() const noexcept { return box_; }
  [[nodiscard]] bool up() const noexcept { return port_->link_up(); }
  // What is there now, from all queues, at most a full ring of each.
  [[nodiscard]] std::vector<Arrived> poll();
  // A frame as the box would send it to `to`, for tests that spoil it before send_frame().
  [[nodiscard]] std::vector<std::byte> frame_for(const jobs::Binding& to, std::span<const std::byte> payload,
                                                 std::uint16_t source_port = 0xBF00) const;
  // False: the ring is full.
  bool send_frame(std::span<const std::byte> frame, std::uint16_t queue = 0);
  bool send(const jobs::Binding& to, std::span<const std::byte> payload, std::uint16_t queue = 0) {
    return send_frame(frame_for(to, payload), queue);
  }
  // Sends what poll() gives back to where it came from; returns how many.
  std::size_t echo();
  // After the worker's end was closed: returns when the driver is done with it.
  void settle();

 private:
  jobs::Box box_;
  dpdk::Mempool pool_;
  std::unique_ptr<dpdk_transport::InterruptFence> fence_;
  std::unique_ptr<dpdk::Port> port_;
};

}  // namespace tally::e2e
