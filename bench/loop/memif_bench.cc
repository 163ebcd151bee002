// The ends of memif ports, for tools/bench-memif and tools/bench-idle: the box (production data plane, a job
// of two members) and a generator of contributions, which dpdk-testpmd can echo just as well.
//
//   tally_memif_bench box SOCKET CPU                 until its standard input ends; then its counters, as
//   JSON tally_memif_bench generate SOCKET CPU box|echo   rates, as JSON; the other end is a box or an echo

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench_job.h"
#include "data_plane.h"
#include "eal.h"
#include "harness.h"
#include "memif_generator.h"
#include "started.h"

#include <rte_mbuf.h>

namespace tally::bench {
namespace {

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  std::perror("sched_setaffinity");
  std::exit(1);
}

EalOptions eal_options(std::string_view role) {
  return {.program = "tally_memif_bench",
          .instance = std::string(role) + "-" + std::to_string(getpid()),
          .memory_bytes = std::uint64_t{128} << 20,
          .hugepages = EalOptions::Hugepages::kOff};
}

void wait_for_end_of_input() {
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

nlohmann::json counters_of(const DataPlane& plane, const Job& job) {
  const CoreStatistics& core = plane.statistics(0);
  const JobCounters counters = plane.counters(0, job.id);
  return {{"frames_in", core.frames_in.get()},
          {"frames_out", core.frames_out.get()},
          {"refused", core.refused.get()},
          {"no_mbuf", core.no_mbuf.get()},
          {"results", core.results.get()},
          {"absorbed", counters.of(Verdict::kAbsorb)},
          {"completed", counters.of(Verdict::kComplete)}};
}

int box(const std::string& socket, std::uint16_t cpu) {
  EalOptions options = eal_options("box");
  options.cores = {cpu};
  const Eal eal = started(Eal::start(options, print_warnings));
  const Job job = make_job(kMemifJob);
  const PortOptions port_options = memif_port("server", socket, 0);
  const std::uint32_t descriptors = Port::descriptors_of(port_options);
  Pools pools = started(make_pools(size_pools({.ports = 1,
                                               .cores = 1,
                                               .receive_descriptors = descriptors,
                                               .transmit_descriptors = descriptors,
                                               .frame_bytes = kMemifFrame}),
                                   "box", -1));
  std::vector<BoxPort> ports;
  ports.push_back({.port = started(Port::open(port_options, pools.frames.get()))});
  const DataPlaneOptions plane_options{
      .box = job_box(), .prefix = "box", .idle = IdlePolicy::kPoll, .slot_lines = job.slots.count};
  auto plane = started(DataPlane::create(plane_options, std::move(pools), std::move(ports), best_kernels()));
  plane->publish({.version = 1, .table = JobTable().with(job.id, std::make_shared<Job>(job))});
  started(plane->start());
  std::printf("ready\n");
  wait_for_end_of_input();
  plane->stop();
  std::printf("%s\n", counters_of(*plane, job).dump().c_str());
  return 0;
}

int generate(const std::string& socket, bool other_is_box, pid_t other) {
  const Eal eal = started(Eal::start(eal_options("generator"), print_warnings));
  MemifGenerator generator(socket, other_is_box, other);
  nlohmann::json out{{"environment", environment()}};
  out["flood"] = generator.run({.window = 0, .seconds = 1.0});
  out["window"] = generator.run({.window = 256, .seconds = 1.0});
  out["sent"] = generator.sent();
  std::printf("%s\n", out.dump().c_str());
  wait_for_end_of_input();  // testpmd's counters end with the connection
  return 0;
}

int connect(const std::string& socket, int ports) {
  const Eal eal = started(Eal::start(eal_options("silent"), print_warnings));
  const Mempool frames(rte_pktmbuf_pool_create("silent", 1024, 0, 0, kHeadRoom + 2048, SOCKET_ID_ANY));
  if (frames == nullptr) give_up("the mempool does not fit into the memory");
  std::vector<Port> clients;
  for (int id = 0; id < ports; ++id)
    clients.push_back(connected(memif_port("client", socket, id), frames.get()));
  std::printf("connected\n");
  wait_for_end_of_input();
  return 0;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string_view role = argc > 1 ? argv[1] : "";
  const std::string_view other = argc > 4 ? argv[4] : "";
  const int cpu = argc > 3 ? std::atoi(argv[3]) : 0;
  pin_to(cpu);
  if (role == "box" && argc == 4) return box(argv[2], static_cast<std::uint16_t>(cpu));
  if (role == "generate" && argc == 6 && (other == "box" || other == "echo"))
    return generate(argv[2], other == "box", std::atoi(argv[5]));
  if (role == "connect" && argc == 5) return connect(argv[2], std::atoi(argv[4]));
  std::fprintf(stderr,
               "usage: tally_memif_bench box SOCKET CPU\n"
               "       tally_memif_bench generate SOCKET CPU box|echo PID\n"
               "       tally_memif_bench connect SOCKET CPU PORTS\n");
  return 2;
}
