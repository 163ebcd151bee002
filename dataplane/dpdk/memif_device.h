#pragma once
// What must be right about a memif before the driver sees it: DPDK 22.11 ignores all arguments of a memif
// when it does not know one of them, explains failures in its log only, and leaves the device's name taken.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::dpdk {

struct MemifDevice {
  std::string name{};  // net_memif0
  std::uint32_t id = 0;
  bool server = false;
  bool abstract = true;
  std::string socket{};
  std::uint16_t descriptors = 0;  // of each ring
  std::string device{};           // for the driver: with rsize and bsize, if the text had none
};

[[nodiscard]] bool is_memif(std::string_view device) noexcept;

// descriptors: wished, used if there is no rsize (which is a power of two's exponent). frame_bytes: the
// largest frame. A buffer that is smaller would cut frames into segments, so it is refused. Pure.
[[nodiscard]] Result<MemifDevice> parse_memif(std::string_view device, std::uint16_t descriptors,
                                              std::uint32_t frame_bytes);

// Before a server listens: its directory can be written, and nobody else listens there. Removes the file that
// a killed process left. Never connects: that could abort a process whose memif is the driver's own.
[[nodiscard]] Result<void> make_way_for_memif(const MemifDevice& device);

}  // namespace tally::dpdk
