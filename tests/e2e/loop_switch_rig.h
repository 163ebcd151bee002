#pragma once
// The box as a switch: cables with hosts that send and receive raw frames, and no job.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/mbuf.h"
#include "frames.h"
#include "io/data_plane.h"
#include "loop_cable.h"

namespace tally::e2e {

struct SwitchCase {
  std::string name;
  l2::BoxMode mode = l2::BoxMode::kInline;
  std::uint8_t cores = 1;
  std::uint16_t ports = 4;
  std::uint16_t up = 1;    // receive queues of each port of the box
  std::uint16_t down = 1;  // transmit queues
  bool segments = true;
  bool copies = false;              // ports that do not hand the mbuf itself to a reader
  std::vector<std::uint16_t> mtus;  // of each port; those that are missing: 1500
  unsigned frame_mbufs = 512;
  std::uint16_t frame_room = 2'048;
  impair::PortImpairment impair{};
  unsigned impaired = ~0U;  // bitmap: the ports that have it
};

inline std::ostream& operator<<(std::ostream& out, const SwitchCase& c) { return out << c.name; }

// A frame of an experimental EtherType.
[[nodiscard]] Bytes plain_frame(const Mac& to, const Mac& from, std::size_t bytes = 60);
// Host n, 02:00:00:00:01:n.
[[nodiscard]] Mac host_mac(std::uint8_t n);

class SwitchRig {
 public:
  explicit SwitchRig(const SwitchCase& c);
  SwitchRig(const SwitchRig&) = delete;
  SwitchRig& operator=(const SwitchRig&) = delete;
  ~SwitchRig();

  // Sends a frame in this many mbufs from the host behind `port`.
  void send(std::size_t port, const Bytes& frame, std::uint16_t queue = 0, std::size_t segments = 1);
  // Turns of all cores until nothing moves.
  void turn();
  // What arrived at the host since the last call.
  [[nodiscard]] std::vector<Bytes> received(std::size_t port);
  // send(), turn(), and the ports where exactly this frame came out, as "1 3": "" for none. Anything else
  // that came out is a failure.
  [[nodiscard]] std::string ports_of(std::size_t port, const Bytes& frame, std::uint16_t queue = 0,
                                     std::size_t segments = 1);
  // Whose last frame came in several mbufs.
  [[nodiscard]] std::size_t segments_received() const noexcept { return segments_; }

  [[nodiscard]] l2::SwitchCounters counters() const;
  [[nodiscard]] std::uint64_t sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const;
  [[nodiscard]] io::DataPlane& plane() noexcept { return *plane_; }
  void set_time(TimeNs now) noexcept { now_ = now; }
  // Nobody has an mbuf any more, and each frame has one fate.
  void expect_clean();

 private:
  SwitchCase case_;
  dpdk::Mempool hosts_pool_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::unique_ptr<io::DataPlane> plane_;
  rte_mempool* frames_ = nullptr;
  dpdk::MbufCounters mbufs_;
  TimeNs now_ = kSecond;
  std::size_t segments_ = 0;  // of the last frame received
};

}  // namespace tally::e2e
