#pragma once
// The members' end of the box's one port: another port of DPDK, or the kernel's end of its interface.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dpdk/mbuf.h"
#include "dpdk/port.h"

namespace tally::e2e {

class MembersEnd {
 public:
  MembersEnd() = default;
  MembersEnd(const MembersEnd&) = delete;
  MembersEnd& operator=(const MembersEnd&) = delete;
  virtual ~MembersEnd() = default;

  // False: there is no room now.
  [[nodiscard]] virtual bool send(std::span<const std::byte> frame) = 0;
  // Frames of one burst, each in one piece, as long as `each` runs. Returns how many.
  virtual std::size_t receive(const std::function<void(std::span<const std::byte> frame)>& each) = 0;
};

// ethdev: started. pool: outlives it.
[[nodiscard]] std::unique_ptr<MembersEnd> ethdev_end(std::uint16_t ethdev, rte_mempool* pool);
// The same of a port that the end owns.
[[nodiscard]] std::unique_ptr<MembersEnd> port_end(dpdk::Port port, rte_mempool* pool);
// A raw socket on an interface.
[[nodiscard]] std::unique_ptr<MembersEnd> socket_end(const std::string& interface);

}  // namespace tally::e2e
