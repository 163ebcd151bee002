#include "loop_rig.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "harness.h"
#include "pipeline/burst.h"
#include "pipeline/pool.h"
#include "start.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace tally::bench {
namespace {

constexpr std::uint16_t kTransmitDescriptors = 512;
// Enough for any shape: the first chunk of 64 members is complete after 8,064 contributions, and a turn has
// 480 or more.
constexpr int kMostWarmUps = 64;

// Descriptors of each port: together at least ring_bytes of frames, and bursts come out even.
std::uint32_t descriptors_for(std::size_t ring_bytes, std::uint32_t frame_bytes, std::uint32_t ports) {
  const std::size_t frames = ring_bytes / frame_bytes + 1;
  const std::size_t granule = pipeline::kBurst * ports;
  return static_cast<std::uint32_t>((frames + granule - 1) / granule * pipeline::kBurst);
}

void paint(rte_mempool*, void* traffic, void* object, unsigned index) {
  const auto* const m = static_cast<const rte_mbuf*>(object);
  static_cast<const Traffic*>(traffic)->paint(static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM,
                                              index);
}

}  // namespace

LoopRig::LoopRig(const RigOptions& options, const std::string& name, const std::string& directory)
    : options_(options),
      job_(make_job(options.job)),
      traffic_(job_, job_box(), kernels::best_kernels(), options.job.ports),
      descriptors_(descriptors_for(options.ring_bytes, traffic_.frame_bytes(), options.job.ports)) {
  const std::uint32_t ports = options_.job.ports;
  traffic_.hold(ring_frames());
  const dpdk::PortNeeds needs{.kind = device::DeviceKind::kPci,
                              .frame_bytes = static_cast<std::uint32_t>(traffic_.frame_bytes() + 4),
                              .receive_mbufs = descriptors_,
                              .transmit_mbufs = kTransmitDescriptors};
  pools_ = started(dpdk::make_pools(dpdk::plan_pools({.ports = std::vector(ports, needs)}), name));
  frames_ = pools_.frames[0];
  rte_mempool_obj_iter(frames_, paint, &traffic_);
  open_ports(name, directory);
  if (options_.runs == RigOptions::Runs::kDataPlane) {
    const io::DataPlaneOptions plane{.box = job_box(),
                                     .make_core = options_.profiled ? make_profiled_core : nullptr,
                                     .slot_lines = job_.slots.count};
    plane_ =
        started(io::DataPlane::create(plane, std::move(pools_), std::move(ports_), kernels::best_kernels()));
    plane_->publish(
        {.version = 1, .table = jobs::JobTable().with(job_.id, std::make_shared<jobs::NativeJob>(job_))});
  }
  if (options_.runs == RigOptions::Runs::kScalarServer ||
      options_.runs == RigOptions::Runs::kVectorisedServer) {
    using Loops = ScalarServer::Loops;
    const bool plain = options_.runs == RigOptions::Runs::kScalarServer;
    server_ = std::make_unique<ScalarServer>(job_, job_box(), ethdevs_.front(), frames_,
                                             plain ? Loops::kOneByOne : Loops::kVectorised);
  }
  for (std::size_t p = 0; p < ports; ++p) {
    const MemoryPortOptions port{.ethdev = ethdevs_[p],
                                 .index = p,
                                 .descriptors = descriptors_,
                                 .frames = frames_,
                                 .driver = options_.driver,
                                 .check = plane_ != nullptr || server_ != nullptr};
    memory_ports_.push_back(std::make_unique<MemoryPort>(port, traffic_));
    if (options_.profiled) profiled_ports_.push_back(std::make_unique<ProfiledPort>(ethdevs_[p]));
  }
}

void LoopRig::open_ports(const std::string& name, const std::string& directory) {
  static int devices = 0;
  for (std::size_t p = 0; p < options_.job.ports; ++p) {
    const std::string device = "net_vhost" + std::to_string(devices++);
    const dpdk::PortOptions options{.name = name + std::to_string(p),
                                    .device = device + ",iface=" + directory + "/" + device,
                                    .mtu = static_cast<std::uint16_t>(traffic_.frame_bytes() - 14),
                                    .checksum = true};
    dpdk::Port port = started(dpdk::Port::open(options, frames_));
    const dpdk::PortTraits& traits = port.traits();
    if (!traits.segments || !traits.vouches || traits.same_mbuf)
      give_up("net_vhost does not stand for a NIC here");
    ethdevs_.push_back(traits.id);
    ports_.push_back({.port = std::move(port)});
  }
}

std::uint64_t LoopRig::ring_frames() const noexcept {
  return std::uint64_t{descriptors_} * options_.job.ports;
}

std::uint64_t LoopRig::ring_bytes() const noexcept { return ring_frames() * traffic_.frame_bytes(); }

void LoopRig::turn() {
  if (plane_ != nullptr) {
    plane_->turn(0, clock_.now());
    return;
  }
  if (server_ != nullptr) return server_->turn();
  std::array<rte_mbuf*, pipeline::kBurst> burst;
  for (const std::uint16_t port : ethdevs_) {
    const std::uint16_t n = rte_eth_rx_burst(port, 0, burst.data(), pipeline::kBurst);
    rte_eth_tx_burst(port, 0, burst.data(), n);
  }
}

std::uint64_t LoopRig::received() const noexcept {
  std::uint64_t n = 0;
  for (const auto& port : memory_ports_) n += port->received();
  return n;
}

// One turn of every ring.
Round LoopRig::turn_rings() {
  for (const auto& port : memory_ports_) port->prepare();
  const RoundTimer timer;
  if (options_.profiled) loop_profile.start(read_tsc());
  while (received() < traffic_.contributions()) turn();
  if (options_.profiled) loop_profile.stop(read_tsc(), ring_frames());
  const Round result = timer.done(ring_frames());
  for (const auto& port : memory_ports_) port->check_sent();
  return result;
}

// As RawAdd, over the frames of the ring and the entries that the box would use.
Round LoopRig::add_ring() {
  struct Step {
    std::int32_t* entry;
    std::byte* values;
    bool completes;
  };
  MemoryPort& port = *memory_ports_.front();
  port.prepare();
  entries_.resize(job_.slots.count);
  std::vector<Step> steps(descriptors_);
  auto all = std::byte{0};
  for (std::uint32_t i = 0; i < descriptors_; ++i) {
    Header h;
    std::memcpy(&h, port.headers(i) + Traffic::kHeaders - kHeaderBytes, sizeof h);
    steps[i] = {reinterpret_cast<std::int32_t*>(&entries_[pipeline::Pool::line_of(h.chunk_id(), job_) + 1]),
                port.values(i), h.rank.host() + 1U == job_.world};
    for (std::size_t at = 0; at < 4U * job_.elements; at += sizeof(jobs::Line)) all |= steps[i].values[at];
  }
  const kernels::Kernels& kernels = kernels::best_kernels();
  bool overflow = false;
  const RoundTimer timer;
  for (const Step& s : steps) {
    overflow |= s.completes ? kernels.add_emit(s.entry, s.values, job_.elements).overflow
                            : kernels.add(s.entry, s.values, job_.elements);
  }
  const Round result = timer.done(descriptors_);
  asm volatile("" : : "r"(overflow), "r"(all));
  return result;
}

Round LoopRig::round() {
  if (options_.runs == RigOptions::Runs::kRawAdd) return add_ring();
  const bool sums = plane_ != nullptr || server_ != nullptr;
  int warm_ups = 0;
  do {
    rte_mempool_obj_iter(frames_, paint, &traffic_);
    turn_rings();
  } while (sums && traffic_.compared() == 0 && ++warm_ups < kMostWarmUps);
  const Round result = turn_rings();
  if (sums) check();
  return result;
}

void LoopRig::check() const {
  if (traffic_.wrong() != nullptr) require(false, traffic_.wrong());
  for (const auto& port : memory_ports_) require(port->starved() == 0, "the mempool ran empty");
  require(traffic_.delivered() == traffic_.chunks(),
          "a finished chunk's result did not reach every receiver");
  require(traffic_.compared() != 0, "no result was compared value by value");
  if (server_ != nullptr) require(server_->lost() == 0, "the server lost frames");
  if (plane_ != nullptr) check_plane();
}

void LoopRig::check_plane() const {
  const io::CoreStatistics& core = plane_->core(0).statistics;
  require(core.frames_in.get() == traffic_.contributions() && core.no_mbuf.get() == 0 &&
              core.refused.get() == 0 && core.copied.get() == 0,
          "frames were lost or copied");
  const JobCounters counters = plane_->core(0).counters(job_.id);
  require(counters.packets() == traffic_.contributions() &&
              counters.of(Verdict::kComplete) == traffic_.chunks() &&
              counters.of(Verdict::kAbsorb) == traffic_.contributions() - traffic_.chunks(),
          "contributions were not absorbed and completed one by one");
}

}  // namespace tally::bench
