#pragma once
// net_memif: packets in memory that two processes share, over a Unix socket. What must be right before the
// driver sees it: DPDK 22.11 ignores all arguments of a memif when it does not know one of them, explains
// failures in its log only, and leaves the device's name taken. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "device/port_device.h"

namespace tally::device {

// Whose port it is, and so what it must be. A box is the server, and says how large its buffers are where the
// usual ones do not carry the MTU; a worker is the client. kAny: either; buffers follow from the MTU.
enum class MemifEnd : std::uint8_t { kAny, kBox, kWorker };

struct MemifDevice {
  DeviceComplaints complaints{};  // empty: it can be opened as it is, and only then the rest holds
  std::string name{};             // net_memif0
  std::uint32_t id = 0;
  bool server = false;
  bool abstract = true;  // the socket is a name, not a file
  std::string socket = "/run/memif.sock";
  std::uint16_t descriptors = 0;  // of each ring
  std::string device{};           // for DPDK: with rsize and bsize, if the text had none
};

// mtu: 0 if it is not known, and no complaint follows from it then. A buffer that is smaller than a frame
// would cut frames into segments, so it is refused. descriptors: wished, of each ring; used if there is no
// rsize (which is a power of two's exponent). `text` is of the kind kMemif.
[[nodiscard]] MemifDevice examine_memif_device(std::string_view text, MemifEnd end, std::uint32_t mtu,
                                               std::uint32_t descriptors);

}  // namespace tally::device
