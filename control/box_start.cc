#include "box_start.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "box_options.h"
#include "kernels.h"
#include "random_words.h"
#include "steering.h"
#include "to_members.h"
#include "units.h"

namespace tally {
namespace {

constexpr int kAnySocket = -1;

// What drivers call an error and is none here. memif and tap complain of a service for secondary processes
// that EAL has switched off, as we asked it to; tap of the flow rules that its interface has no queueing for.
constexpr std::array<std::string_view, 6> kNoise{
    "Failed to register mp action callback", "Failed to send start req to secondary",
    "Specified qdisc kind is unknown",       "qdisc_create_multiq(): Could not add multiq qdisc",
    "failed to create multiq qdisc",         "Disabling rte flow support"};

void log_dpdk(const LogSink& log, std::uint32_t level, std::string_view line) {
  const bool noise = std::ranges::any_of(
      kNoise, [&](std::string_view words) { return line.find(words) != std::string_view::npos; });
  log(noise ? LogLevel::kDebug : level_of_dpdk(level), line);
}

// EAL would clear ordinary memory for a quarter of a minute before it gave up.
Result<void> check_memory(const DataplaneSection& dataplane) {
  struct sysinfo machine {};
  if (dataplane.memory <= free_hugepage_bytes() || sysinfo(&machine) != 0) return {};
  const std::uint64_t all = std::uint64_t{machine.totalram} * machine.mem_unit;
  if (dataplane.memory < all) return {};
  return fail(ErrorCode::kInvalidArgument,
              size_text(dataplane.memory) + " is more than the " + rough_size(all) +
                  " of this machine: lower it (the demo takes 256MiB)",
              "dataplane.memory");
}

Result<std::vector<BoxPort>> open_ports(const Config& config, rte_mempool* frames) {
  std::vector<BoxPort> ports;
  ports.reserve(config.ports.size());
  for (const PortSection& section : config.ports) {
    auto port = Port::open(port_options(config, section), frames);
    if (!port) return tl::unexpected<Error>(std::move(port.error()));
    ports.push_back({std::move(*port), impair_options(section)});
  }
  return ports;
}

}  // namespace

Result<StartedBox> StartedBox::start(const Config& config, const LogSink& log) {
  if (auto fits = check_memory(config.dataplane); !fits)
    return tl::unexpected<Error>(std::move(fits.error()));
  auto eal = Eal::start(eal_options(config),
                        [log](std::uint32_t level, std::string_view line) { log_dpdk(log, level, line); });
  if (!eal) return tl::unexpected<Error>(std::move(eal.error()));
  auto owned_eal = std::make_unique<Eal>(std::move(*eal));

  PoolDemand demand = pool_demand(config);
  demand.hugepages = owned_eal->hugepages();
  const PoolSizes sizes = size_pools(demand);
  log(LogLevel::kDebug, "packet buffers: " + sizes.explanation);
  auto pools = make_pools(sizes, "tally", kAnySocket);
  if (!pools) return tl::unexpected<Error>(std::move(pools.error()));
  auto ports = open_ports(config, pools->frames.get());
  if (!ports) return tl::unexpected<Error>(std::move(ports.error()));
  steer_ports(config, *ports, log);
  auto plane = DataPlane::create(plane_options(config), std::move(*pools), std::move(*ports), best_kernels());
  if (!plane) return tl::unexpected<Error>(std::move(plane.error()));
  StartedBox box(std::move(owned_eal), std::move(*plane));
  if (auto started = box.plane().start(); !started) return tl::unexpected<Error>(std::move(started.error()));
  return box;
}

StartedBox::~StartedBox() {
  if (plane_ != nullptr) plane_->stop();
}

Result<MembershipEngine> start_members(const Config& config) {
  auto engine = MembershipEngine::create(member_options(config), kernel_random());
  if (!engine) return engine;
  for (const JobSection& job : config.jobs) {
    if (auto id = declare(job, *engine); !id) return tl::unexpected<Error>(std::move(id.error()));
  }
  return engine;
}

}  // namespace tally
