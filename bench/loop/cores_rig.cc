#include "cores_rig.h"

#include "dpdk/eal.h"
#include "harness.h"
#include "pipeline/burst.h"
#include "started.h"

#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>

namespace tally::bench {
namespace {

constexpr std::size_t kRingBytes = std::size_t{4} << 20;
constexpr std::uint16_t kTransmitDescriptors = 512;

std::uint32_t descriptors_for(std::uint32_t frame_bytes) {
  return static_cast<std::uint32_t>((kRingBytes / frame_bytes + pipeline::kBurst) / pipeline::kBurst *
                                    pipeline::kBurst);
}

// Each core has the entries of a window of kBenchWindow, so that its share of the work is the same.
jobs::Job job_of(const CoresOptions& options) {
  jobs::Job job = make_job({.results = options.results});
  job.shards = options.cores;
  job.window = kBenchWindow * options.cores;
  job.span = 2 * job.window;
  job.slots = {0, jobs::pool_lines(job.window, job.shards, job.elements)};
  return job;
}

void paint(rte_mempool*, void* traffic, void* object, unsigned index) {
  const auto* const m = static_cast<const rte_mbuf*>(object);
  static_cast<const Traffic*>(traffic)->paint(static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM,
                                              index);
}

// Of rounds that ran side by side.
Round average(const std::array<Round, CoresRig::kMostCores>& rounds, unsigned cores) {
  Round all;
  for (unsigned c = 0; c < cores; ++c) {
    all.seconds += rounds[c].seconds / cores;
    all.operations += rounds[c].operations / cores;
    all.disturbed |= rounds[c].disturbed;
  }
  return all;
}

}  // namespace

void on_lcores(unsigned cores, const std::function<void(unsigned)>& work) {
  struct Call {
    const std::function<void(unsigned)>* work;
    std::atomic<unsigned>* running;
    unsigned core;
  };
  std::atomic<unsigned> running{cores};
  std::array<Call, CoresRig::kMostCores> calls{};
  for (unsigned c = 0; c < cores; ++c) {
    calls[c] = {&work, &running, c};
    const auto run = [](void* argument) {
      const Call& call = *static_cast<Call*>(argument);
      (*call.work)(call.core);
      if (call.running->fetch_sub(1) == 1) call.running->notify_one();
      return 0;
    };
    if (rte_eal_remote_launch(run, &calls[c], dpdk::Eal::lcore(c)) != 0) give_up("an lcore is busy");
  }
  for (unsigned left = running.load(); left != 0; left = running.load()) running.wait(left);
  for (unsigned c = 0; c < cores; ++c) rte_eal_wait_lcore(dpdk::Eal::lcore(c));
}

void SpinBarrier::meet() noexcept {
  const unsigned before = arrived_.fetch_add(1);
  const unsigned all = (before / threads_ + 1) * threads_;
  while (arrived_.load() < all) rte_pause();
}

CoresRig::CoresRig(const CoresOptions& options, const std::string& name, const std::string& directory)
    : options_(options), job_(job_of(options)) {
  const bool two = options_.cores == 2;
  for (std::uint32_t c = 0; c < options_.cores; ++c) {
    const ChunkShard shard = two ? ChunkShard{c, 1} : ChunkShard{};
    traffic_.push_back(
        std::make_unique<Traffic>(job_, job_box(), kernels::best_kernels(), options_.cores, false, shard));
  }
  descriptors_ = descriptors_for(traffic_.front()->frame_bytes());
  pools_ = started(dpdk::make_pools(
      dpdk::size_pools({.ports = 1,
                        .cores = options_.cores,
                        .receive_descriptors = options_.cores * descriptors_,
                        .transmit_descriptors = std::uint32_t{options_.cores} * kTransmitDescriptors,
                        .frame_bytes = static_cast<std::uint16_t>(traffic_.front()->frame_bytes() + 4),
                        .nic = true}),
      name, -1));
  frames_ = pools_.frames.get();
  rte_mempool_obj_iter(frames_, paint, traffic_.front().get());
  open_port(name, directory);
  const io::DataPlaneOptions plane{
      .box = job_box(), .prefix = name, .cores = options_.cores, .slot_lines = job_.slots.count};
  plane_ =
      started(io::DataPlane::create(plane, std::move(pools_), std::move(ports_), kernels::best_kernels()));
  plane_->publish({.version = 1, .table = jobs::JobTable().with(job_.id, std::make_shared<jobs::Job>(job_))});
  const bool paced = options_.handed_over != CoresOptions::HandedOver::kNone;
  for (std::uint16_t c = 0; c < options_.cores; ++c) {
    const MemoryPortOptions port{.ethdev = ethdev_,
                                 .queue = c,
                                 .descriptors = descriptors_,
                                 .frames = frames_,
                                 .pace = paced ? &progress_[c].received : nullptr,
                                 .other = paced ? &progress_[1U - c].received : nullptr};
    queues_.push_back(std::make_unique<MemoryPort>(port, *traffic_[c]));
  }
}

void CoresRig::open_port(const std::string& name, const std::string& directory) {
  static int devices = 0;
  const std::string device = "net_vhost" + std::to_string(devices++);
  const dpdk::PortOptions options{
      .name = name,
      .device = device + ",iface=" + directory + "/" + device + ",queues=" + std::to_string(options_.cores),
      .mtu = static_cast<std::uint16_t>(traffic_.front()->frame_bytes() - 14),
      .receive_queues = options_.cores,
      .transmit_queues = options_.cores,
      .checksum = true};
  dpdk::Port port = started(dpdk::Port::open(options, frames_));
  const dpdk::PortTraits& traits = port.traits();
  if (!traits.segments || !traits.vouches || traits.same_mbuf || traits.receive_queues != options_.cores ||
      traits.transmit_queues != options_.cores)
    give_up("net_vhost does not stand for a NIC here");
  ethdev_ = traits.id;
  ports_.push_back({.port = std::move(port)});
}

// The frames that arrive at `core`: of every rank in turn, or with half handed over of every second rank, for
// one core's slots and the other's in turn.
void CoresRig::prepare(unsigned core) {
  if (options_.cores == 1) return queues_[core]->prepare();
  using HandedOver = CoresOptions::HandedOver;
  queues_[core]->prepare([&](std::size_t i, const std::byte* frame, auto headers) {
    switch (options_.handed_over) {
      case HandedOver::kNone:
        return traffic_[core]->next_headers(i % 2, frame, headers);
      case HandedOver::kHalf:
        return traffic_[i % 2]->next_headers(core, frame, headers);
      case HandedOver::kAll:
        return traffic_[1 - core]->next_headers(i % 2, frame, headers);
    }
  });
}

// Until the queue is empty and every chunk that this core owns has its result everywhere.
Round CoresRig::turn_ring(unsigned core) {
  const std::uint64_t frames = (turns_ + 1) * descriptors_;
  io::CoreClock clock;
  const RoundTimer timer;
  while (queues_[core]->received() < frames || traffic_[core]->delivered() < traffic_[core]->chunks()) {
    plane_->turn(core, clock.now());
    if (traffic_[core]->wrong() != nullptr) break;
  }
  return timer.done(descriptors_);
}

Round CoresRig::round() {
  rte_mempool_obj_iter(frames_, paint, traffic_.front().get());
  std::array<Round, kMostCores> rounds{};
  for (int turn = 0; turn < 2; ++turn, ++turns_) {
    SpinBarrier barrier(options_.active);
    on_lcores(options_.active, [&](unsigned core) {
      // One after the other: with frames handed over they draw from the same traffic.
      for (unsigned c = 0; c < options_.active; ++c) {
        if (c == core) prepare(core);
        barrier.meet();
      }
      rounds[core] = turn_ring(core);
    });
    check();
  }
  return average(rounds, options_.active);
}

void CoresRig::check() const {
  std::uint64_t handed_over = 0;
  const std::uint64_t frames = (turns_ + 1) * descriptors_;
  for (unsigned c = 0; c < options_.active; ++c) {
    const Traffic& traffic = *traffic_[c];
    if (traffic.wrong() != nullptr) require(false, traffic.wrong());
    require(queues_[c]->starved() == 0, "the mempool ran empty");
    require(traffic.contributions() == frames, "a core's slots did not get their share of the frames");
    require(traffic.delivered() == traffic.chunks(),
            "a finished chunk's result did not reach every receiver");
    require(traffic.compared() != 0 || turns_ == 0, "no result was compared value by value");
    const io::CoreStatistics& core = plane_->statistics(c);
    require(core.frames_in.get() == frames && core.no_mbuf.get() == 0 && core.refused.get() == 0 &&
                core.copied.get() == 0 && core.hand_over_lost.get() == 0,
            "frames were lost or copied");
    handed_over += core.handed_over.get();
    const JobCounters counters = plane_->counters(c, job_.id);
    require(counters.of(Verdict::kComplete) == traffic.chunks() &&
                counters.of(Verdict::kAbsorb) == traffic.contributions() - traffic.chunks(),
            "contributions were not absorbed and completed one by one");
  }
  constexpr std::array<std::uint64_t, 3> kShares{0, 1, 2};  // of 2
  require(
      2 * handed_over == kShares[static_cast<std::size_t>(options_.handed_over)] * frames * options_.active,
      "another share of the frames was handed over");
}

RawAddOnCores::RawAddOnCores(unsigned cores, const jobs::Job& job) {
  for (unsigned c = 0; c < cores; ++c)
    adds_.push_back(std::make_unique<RawAdd>(job, job_box(), kernels::best_kernels()));
}

Round RawAddOnCores::round() {
  const auto cores = static_cast<unsigned>(adds_.size());
  std::array<Round, CoresRig::kMostCores> rounds{};
  SpinBarrier barrier(cores);
  on_lcores(cores, [&](unsigned core) { rounds[core] = adds_[core]->round([&] { barrier.meet(); }); });
  return average(rounds, cores);
}

}  // namespace tally::bench
