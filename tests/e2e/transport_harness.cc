#include "transport_harness.h"

#include <unistd.h>

#include <cstring>

#include "tally/check.h"

// EAL and its drivers are not instrumented: ThreadSanitizer sees how they use files, and not the locks
// around.
extern "C" const char* __tsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier): its name
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:librte_eal.so\n";
}

namespace tally::e2e {
namespace {

unsigned fresh_number() {
  static unsigned count = 0;
  return count++;
}

}  // namespace

SocketDirectory::SocketDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "tally-transport-XXXXXX").string();
  TALLY_CHECK(mkdtemp(path.data()) != nullptr, "a directory for sockets is made");
  path_ = path;
}

SocketDirectory::~SocketDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string SocketDirectory::server(unsigned id) const {
  return "net_memif" + std::to_string(fresh_number()) + ",role=server,id=" + std::to_string(id) +
         ",socket=" + socket() + ",socket-abstract=no";
}

std::string SocketDirectory::client(unsigned id, const std::string& more) const {
  return "net_memif" + std::to_string(fresh_number()) + ",role=client,id=" + std::to_string(id) +
         ",socket=" + socket() + ",socket-abstract=no" + more;
}

Result<std::unique_ptr<dpdk_transport::DpdkTransport>> WorkerSetup::open() const {
  return dpdk_transport::DpdkTransport::open(TransportOptions{device, box, address, mtu, poll});
}

bool turn_until(dpdk_transport::DpdkTransport& transport, const std::function<bool()>& done,
                const std::function<void()>& other) {
  const TimeNs end = steady_now() + 20 * kSecond;
  while (!done()) {
    const TimeNs now = steady_now();
    if (now > end) return false;
    other();
    transport.wait(now, now + kMillisecond);
  }
  return true;
}

bool bring_up(dpdk_transport::DpdkTransport& transport, FakeBox* box) {
  if (!turn_until(transport, [&] { return transport.up() && (box == nullptr || box->up()); })) return false;
  // Only a receiver that has looked into its ring once gives the other end buffers to send into.
  return take_all(transport).empty();
}

std::vector<std::byte> datagram(std::uint32_t seed, std::size_t bytes, PacketType type) {
  std::vector<std::byte> made(std::max(bytes, kHeaderBytes));
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = static_cast<std::byte>(seed * 131 + i * 7 + i / 251);
  made[0] = std::byte{kWireVersion};
  made[1] = static_cast<std::byte>(type);
  std::memcpy(made.data() + 4, &seed, sizeof seed);
  return made;
}

bool send_one(dpdk_transport::DpdkTransport& transport, std::span<const std::byte> bytes,
              std::uint16_t port) {
  const auto room = transport.lend(1, bytes.size());
  if (room.empty()) return false;
  std::copy(bytes.begin(), bytes.end(), room[0].room.begin());
  room[0].bytes = bytes.size();
  room[0].destination_port = port;
  transport.send(1);
  return true;
}

std::vector<std::vector<std::byte>> take_all(dpdk_transport::DpdkTransport& transport) {
  std::vector<std::vector<std::byte>> all;
  transport.receive([&](std::span<const std::byte> bytes) { all.emplace_back(bytes.begin(), bytes.end()); });
  return all;
}

}  // namespace tally::e2e
