#pragma once
// A data plane and a job with external servers, whose members and servers are played by hand: three ranks
// behind ports of their own; two servers behind the fourth, one by IPv4, one by IPv6 with a tag.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/mbuf.h"
#include "frames.h"
#include "io/data_plane.h"
#include "jobs.h"
#include "loop_cable.h"

namespace tally::e2e {

struct RigCase {
  std::uint8_t cores = 1;
  std::uint16_t up = 1;  // queues of each port, as in RackCase
  std::uint16_t down = 1;
  unsigned ring = 1'024;      // of each cable
  std::uint32_t entries = 4;  // of the shared region, of each core
  bool staged = false;
  unsigned frames = 1'024;  // mbufs of the box
};

// What a member or a server received.
struct Arrival {
  Header header{};
  std::uint16_t source_port = 0;
  std::size_t bytes = 0;
};

class ServerRig {
 public:
  explicit ServerRig(const RigCase& c);
  ServerRig(const ServerRig&) = delete;
  ServerRig& operator=(const ServerRig&) = delete;
  ~ServerRig();

  // To the box, on a queue of its port. What its ring does not take is lost.
  void send(const Bytes& datagram, const jobs::Binding& from, std::uint16_t queue = 0);
  void contribute(std::uint16_t rank, Chunk chunk, std::uint8_t flags = 0, std::uint16_t queue = 0);
  void say(PacketType type, Chunk chunk, std::uint64_t ranks, const std::vector<std::int32_t>& values = {});
  // Of all cores; returns what moved.
  std::size_t turn();
  // Everything that waits behind self's port: what is for `self` as its kernel would take it, with sums that
  // match; the rest is dropped.
  [[nodiscard]] std::vector<Arrival> received(const jobs::Binding& self);
  // What is under way arrives; what waits for servers waits until the box stops. Then every mbuf is back.
  void expect_all_mbufs_back();

  [[nodiscard]] const jobs::Binding& member(std::uint16_t rank) const { return job.ranks[rank].binding; }
  [[nodiscard]] const jobs::Binding& server(std::uint32_t i) const { return job.server_ranks[i].binding; }
  [[nodiscard]] std::uint64_t sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const;
  [[nodiscard]] io::DataPlane& plane() noexcept { return *plane_; }

  jobs::NativeJob job;
  TimeNs now = kSecond;

 private:
  static constexpr std::uint16_t kPorts = 4;
  std::vector<rte_mbuf*> take(std::uint16_t port);
  void empty_cables();

  // In the order of their construction: mempools outlive the ports.
  dpdk::Mempool far_;  // of whoever is at the other ends
  std::vector<std::unique_ptr<Cable>> cables_;
  std::unique_ptr<io::DataPlane> plane_;
  rte_mempool* frames_ = nullptr;  // of the plane
  rte_mempool* heads_ = nullptr;
  dpdk::MbufCounters mbufs_;
  std::vector<std::string> wrong_;
};

}  // namespace tally::e2e
