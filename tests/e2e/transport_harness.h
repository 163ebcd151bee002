#pragma once
// What the tests of transport 'dpdk' share.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/transport.h"
#include "dpdk_transport/dpdk_transport.h"
#include "fake_box.h"
#include "tally/wire.h"

namespace tally::e2e {

// A directory of its own for the sockets of one test.
class SocketDirectory {
 public:
  SocketDirectory();
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;
  ~SocketDirectory();
  [[nodiscard]] std::string socket() const { return path_ / "m.sock"; }
  // Devices whose names are unique in this process.
  [[nodiscard]] std::string server(unsigned id = 0) const;
  [[nodiscard]] std::string client(unsigned id = 0, const std::string& more = {}) const;

 private:
  std::filesystem::path path_;
};

// What one worker is told; every member may be changed before open().
struct WorkerSetup {
  std::string device;
  std::string box = "10.0.0.1";
  std::string address = "10.0.0.11/24";
  std::uint16_t mtu = 1500;
  bool poll = false;
  [[nodiscard]] Result<std::unique_ptr<dpdk_transport::DpdkTransport>> open() const;
};

// Turns the transport until `done`, at most 20 s; between the turns `other` runs. Returns done().
bool turn_until(
    dpdk_transport::DpdkTransport& transport, const std::function<bool()>& done,
    const std::function<void()>& other = [] {});
[[nodiscard]] bool bring_up(dpdk_transport::DpdkTransport& transport, FakeBox* box = nullptr);

// A datagram of `bytes` whose content is a function of `seed`; at least a header, never a JOIN unless said.
[[nodiscard]] std::vector<std::byte> datagram(std::uint32_t seed, std::size_t bytes,
                                              PacketType type = PacketType::kContribute);
// Lends, fills and sends one datagram. False: nothing was lent.
bool send_one(dpdk_transport::DpdkTransport& transport, std::span<const std::byte> bytes,
              std::uint16_t port = 0xBF00);
// All that receive() gives in one turn.
[[nodiscard]] std::vector<std::vector<std::byte>> take_all(dpdk_transport::DpdkTransport& transport);

}  // namespace tally::e2e
