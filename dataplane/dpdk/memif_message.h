#pragma once
// The control messages of memif 2.0 as they lie on the socket (drivers/net/memif/memif.h of DPDK, libmemif):
// one of 128 bytes per datagram, file descriptors beside it.

#include <sys/socket.h>
#include <sys/un.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tally/unique_fd.h"

namespace tally::dpdk {

enum class MemifType : std::uint16_t {
  kNone,
  kAck,
  kHello,      // server to client
  kInit,       // client to server: which interface
  kAddRegion,  // with the memory
  kAddRing,    // with the ring's event
  kConnect,
  kConnected,  // server to client: packets may flow
  kDisconnect,
};

struct MemifMessage {
  static constexpr std::size_t kBytes = 128;
  alignas(8) std::array<std::byte, kBytes> bytes{};
  UniqueFd fd{};

  [[nodiscard]] MemifType type() const noexcept;
  [[nodiscard]] std::uint32_t interface_id() const noexcept;  // of kInit
  [[nodiscard]] bool ring_to_server() const noexcept;         // of kAddRing
  struct Region {                                             // of kAddRegion
    std::uint16_t index = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Region region() const noexcept;
  struct Ring {  // of kAddRing
    std::uint16_t index = 0;
    std::uint16_t region = 0;
    std::uint64_t first_byte = 0;  // in the region
    std::uint64_t end_byte = 0;
    std::uint8_t log2_size = 0;
  };
  [[nodiscard]] Ring ring() const noexcept;
};

[[nodiscard]] MemifMessage memif_ack();
[[nodiscard]] MemifMessage memif_disconnect(std::string_view reason);

// Where a memif listens. An abstract name begins with a zero byte and has no final one: exactly its length
// counts.
class MemifAddress {
 public:
  MemifAddress(std::string_view socket, bool abstract) noexcept;
  [[nodiscard]] const sockaddr* raw() const noexcept { return reinterpret_cast<const sockaddr*>(&name_); }
  [[nodiscard]] socklen_t bytes() const noexcept { return bytes_; }

 private:
  sockaddr_un name_{};
  socklen_t bytes_ = sizeof(sockaddr_un);
};

// For either end; never blocks. None: see errno.
[[nodiscard]] UniqueFd memif_socket() noexcept;

enum class MemifReceived : std::uint8_t { kMessage, kNothing, kEnd };
// Neither blocks. False: the other end is gone, or does not read.
[[nodiscard]] MemifReceived receive_memif(int socket, MemifMessage& message) noexcept;
bool send_memif(int socket, const MemifMessage& message) noexcept;

}  // namespace tally::dpdk
