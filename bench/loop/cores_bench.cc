// Two data cores beside one: performance.md, goal 5. One process, a pinned thread for each data core, the
// production data plane's turns, the in-memory port with a queue for each core; 256 elements, 8 members.

#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contributions.h"
#include "dpdk/eal.h"
#include "harness.h"
#include "io/core_time.h"
#include "io/data_plane.h"
#include "memory_port.h"
#include "pipeline/burst.h"
#include "pipeline_contenders.h"
#include "start.h"
#include "traffic.h"

#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>

namespace tally::bench {
namespace {

// The production data plane on one data core or two, each a pinned thread with a receive queue of its own on
// the in-memory port; or raw add on as many threads. Frames arrive at the core that owns their slot, or not.

// Runs work(core) on the lcores of `cores` data cores at once; the caller sleeps until all have returned.
void on_lcores(unsigned cores, const std::function<void(unsigned core)>& work);

// A meeting of so many threads that run and do not sleep.
class SpinBarrier {
 public:
  explicit SpinBarrier(unsigned threads) : threads_(threads) {}
  void meet() noexcept;

 private:
  unsigned threads_;
  std::atomic<unsigned> arrived_{0};
};

struct CoresOptions {
  std::uint8_t cores = 1;   // 1 or 2: of the data plane
  std::uint8_t active = 1;  // of these, which run and get frames; the others own slots that nobody asks for
  // How many of the frames arrive at the core that does not own their slot (two cores).
  enum class HandedOver : std::uint8_t { kNone, kHalf, kAll } handed_over = HandedOver::kNone;
  ResultsMode results = ResultsMode::kUnicast;
};

class CoresRig {
 public:
  static constexpr unsigned kMostCores = 2;

  // EAL has been started with at least so many data cores. name, directory: as LoopRig's.
  CoresRig(const CoresOptions& options, const std::string& name, const std::string& directory);
  CoresRig(const CoresRig&) = delete;
  CoresRig& operator=(const CoresRig&) = delete;
  ~CoresRig() = default;

  // One turn of the receive rings to warm up, then one measured. Seconds and operations (contributions) are
  // those of one core, on average. Ends the process if a result is wrong or missing.
  Round round();

 private:
  void open_port(const std::string& name, const std::string& directory);
  void prepare(unsigned core);
  Round turn_ring(unsigned core);
  void check() const;

  CoresOptions options_;
  jobs::NativeJob job_;
  std::vector<std::unique_ptr<Traffic>> traffic_;  // of the chunks that each core owns
  std::uint32_t descriptors_;                      // of each queue
  dpdk::Pools pools_{};                            // until the data plane has them
  rte_mempool* frames_ = nullptr;
  std::uint16_t ethdev_ = 0;
  std::vector<io::BoxPort> ports_;
  std::unique_ptr<io::DataPlane> plane_;
  std::vector<std::unique_ptr<MemoryPort>> queues_;  // of each core
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> received{0};
  };
  std::array<Progress, kMostCores> progress_{};
  std::uint64_t turns_ = 0;  // of the rings
};

// Raw add on so many lcores at once, over entries and frames of their own.
class RawAddOnCores {
 public:
  RawAddOnCores(unsigned cores, const jobs::NativeJob& job);
  Round round();

 private:
  std::vector<std::unique_ptr<RawAdd>> adds_;
};

constexpr std::size_t kRingBytes = std::size_t{4} << 20;
constexpr std::uint16_t kTransmitDescriptors = 512;

std::uint32_t descriptors_for(std::uint32_t frame_bytes) {
  return static_cast<std::uint32_t>((kRingBytes / frame_bytes + pipeline::kBurst) / pipeline::kBurst *
                                    pipeline::kBurst);
}

// Each core has the entries of a window of kBenchWindow, so that its share of the work is the same.
jobs::NativeJob job_of(const CoresOptions& options) {
  jobs::NativeJob job = make_job({.results = options.results});
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
  const dpdk::PortNeeds needs{.kind = device::DeviceKind::kPci,
                              .frame_bytes = static_cast<std::uint32_t>(traffic_.front()->frame_bytes() + 4),
                              .receive_mbufs = options_.cores * descriptors_,
                              .transmit_mbufs = std::uint32_t{options_.cores} * kTransmitDescriptors};
  pools_ = started(dpdk::make_pools(
      dpdk::plan_pools({.ports = {needs}, .cores = std::vector<int>(options_.cores, dpdk::kAnyNode)}), name));
  frames_ = pools_.frames[0];
  rte_mempool_obj_iter(frames_, paint, traffic_.front().get());
  open_port(name, directory);
  const io::DataPlaneOptions plane{.box = job_box(), .cores = options_.cores, .slot_lines = job_.slots.count};
  plane_ =
      started(io::DataPlane::create(plane, std::move(pools_), std::move(ports_), kernels::best_kernels()));
  plane_->publish(
      {.version = 1, .table = jobs::JobTable().with(job_.id, std::make_shared<jobs::NativeJob>(job_))});
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
    const io::CoreStatistics& core = plane_->core(c).statistics;
    require(core.frames_in.get() == frames && core.no_mbuf.get() == 0 && core.refused.get() == 0 &&
                core.copied.get() == 0 && core.hand_over_lost.get() == 0,
            "frames were lost or copied");
    handed_over += core.handed_over.get();
    const JobCounters counters = plane_->core(c).counters(job_.id);
    require(counters.of(Verdict::kComplete) == traffic.chunks() &&
                counters.of(Verdict::kAbsorb) == traffic.contributions() - traffic.chunks(),
            "contributions were not absorbed and completed one by one");
  }
  constexpr std::array<std::uint64_t, 3> kShares{0, 1, 2};  // of 2
  require(
      2 * handed_over == kShares[static_cast<std::size_t>(options_.handed_over)] * frames * options_.active,
      "another share of the frames was handed over");
}

RawAddOnCores::RawAddOnCores(unsigned cores, const jobs::NativeJob& job) {
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

constexpr int kSkipped = 77;  // tools/run-bench: it cannot run here
constexpr int kRounds = 31;
constexpr std::uint16_t kElements = 256;
constexpr double kGoal = 0.90;  // efficiency from one core to two

std::vector<std::uint16_t> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<std::uint16_t> cpus;
  for (std::uint16_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

struct Row {
  std::string key;
  unsigned cores = 1;
};

// Raw add and the loop on one core and on both, then what is handed over, in turn.
nlohmann::json run(ResultsMode results, const std::string& directory) {
  using HandedOver = CoresOptions::HandedOver;
  std::vector<Row> rows;
  std::vector<Contender> contenders;
  std::vector<std::unique_ptr<RawAddOnCores>> raw;
  std::vector<std::unique_ptr<CoresRig>> rigs;
  const auto add_raw = [&](const char* name, unsigned cores) {
    raw.push_back(std::make_unique<RawAddOnCores>(cores, make_job({})));
    rows.push_back({"raw_add", cores});
    contenders.push_back({name, [add = raw.back().get()] { return undisturbed(*add); }});
  };
  const auto add = [&](const char* key, const char* name, std::uint8_t cores, HandedOver handed_over,
                       std::uint8_t active) {
    const std::string prefix = "cores" + std::to_string(rigs.size());
    const CoresOptions options{
        .cores = cores, .active = active, .handed_over = handed_over, .results = results};
    rigs.push_back(std::make_unique<CoresRig>(options, prefix, directory));
    rows.push_back({key, active});
    contenders.push_back({name, [rig = rigs.back().get()] { return undisturbed(*rig); }});
  };
  add_raw("raw add, one core", 1);
  add_raw("raw add, both cores at once", 2);
  add("own", "loop, one core", 1, HandedOver::kNone, 1);
  add("own", "loop, two cores, each its own frames", 2, HandedOver::kNone, 2);
  add("shard", "loop, the first of two, the other asleep", 2, HandedOver::kNone, 1);
  add("half", "loop, two cores, half handed over", 2, HandedOver::kHalf, 2);
  add("all", "loop, two cores, all handed over", 2, HandedOver::kAll, 2);

  const auto figures = measure(contenders, kRounds);
  const double raw_one = figures[0].median_ns;
  const double loop_one = figures[2].median_ns;
  const double loop_own = figures[3].median_ns;
  const bool multicast = results == ResultsMode::kMulticast;
  std::printf("\n%s results%*s %9s %9s %9s %9s %9s %9s\n", multicast ? "multicast" : "unicast", 25, "",
              "ns, core", "min", "max", "Mpps, all", "Gel/s", "efficiency");
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const Figure& f = figures[i];
    const Row& row = rows[i];
    const double mpps = row.cores * 1e3 / f.median_ns;
    const double one = row.key == "raw_add" ? raw_one : loop_one;
    const double efficiency = one / f.median_ns;
    std::printf("%-41s %9.1f %9.1f %9.1f %9.2f %9.2f", f.name.c_str(), f.median_ns, f.min_ns, f.max_ns, mpps,
                mpps * kElements / 1e3);
    if (row.cores == 2 || row.key == "shard") std::printf("      %3.0f %%", 100 * efficiency);
    if (row.key == "own" && row.cores == 2)
      std::printf("  goal >= %.0f %%: %s", 100 * kGoal, efficiency >= kGoal ? "reached" : "NOT reached");
    if (row.key == "half" || row.key == "all")
      std::printf("  %+.1f ns for each handed over",
                  (f.median_ns - loop_own) / (row.key == "half" ? 0.5 : 1.0));
    std::printf("\n");
    out.push_back({{"key", row.key},
                   {"name", f.name},
                   {"results", multicast ? "multicast" : "unicast"},
                   {"cores", row.cores},
                   {"median_ns", f.median_ns},
                   {"min_ns", f.min_ns},
                   {"max_ns", f.max_ns},
                   {"efficiency", efficiency}});
  }
  return out;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  const auto cpus = own_cpus();
  if (cpus.size() < 2) {
    std::printf("tally_cores_bench: SKIPPED: needs two CPUs, this process may use one\n");
    return kSkipped;
  }
  nlohmann::json results{{"environment", environment()}};
  print_environment();
  constexpr std::uint64_t kHugeMemory = std::uint64_t{256} << 20;
  const bool huge = tally::dpdk::hugepages_of().free_bytes >= kHugeMemory;
  const tally::dpdk::EalOptions options{.program = argv[0],
                                        .instance = "cores-" + std::to_string(getpid()),
                                        .cores = {cpus[0], cpus[1]},
                                        .memory_bytes = huge ? kHugeMemory : 2 * kHugeMemory};
  const tally::dpdk::Eal eal = started(tally::dpdk::Eal::start(options, print_warnings));
  static const Scratch scratch;  // std::exit() removes it too
  std::printf(
      "\n%u elements, 8 members, a window of %u for each core, kernels %s, %s, a ring of 4 MiB for each "
      "core,\n%d rounds interleaved; ns of CPU time of one core for each contribution that its queue "
      "received\n",
      kElements, kBenchWindow, std::string(tally::kernels::best_kernels().name).c_str(),
      eal.hugepages() ? "hugepages" : "NO HUGEPAGES: every frame costs a walk of the page table", kRounds);
  results["cores"] = {{"cpus", {cpus[0], cpus[1]}},
                      {"hugepages", eal.hugepages()},
                      {"rounds", kRounds},
                      {"goal_efficiency", kGoal}};
  for (const auto mode : {tally::ResultsMode::kUnicast, tally::ResultsMode::kMulticast})
    for (auto& row : run(mode, scratch.path())) results["cores"]["rows"].push_back(std::move(row));
  write_json(file, results);
  return 0;
}
