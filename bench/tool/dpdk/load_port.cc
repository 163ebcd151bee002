#include "load_port.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "tally/mix64.h"
#include "tally/net.h"

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr TimeNs kLinkPeriod = 10 * kMillisecond;

Result<dpdk::Mempool> pool_for(const dpdk::PortNeeds& needs, std::uint16_t mtu, const std::string& name) {
  constexpr std::uint32_t kBursts = 128;  // in hand, and of control
  // What is sent has a pool of the generator's own; a driver with a umem copies it into this one.
  const std::uint32_t transmit = needs.umem() ? needs.transmit_mbufs : 0;
  const dpdk::PoolPlan plan{
      .name = name,
      .mbufs = needs.receive_mbufs + transmit + dpdk::kPoolCache * 3 / 2 + kBursts,
      .room = static_cast<std::uint16_t>(std::max<std::uint32_t>(load_frame_bytes(mtu), needs.least_room)),
      .umem = needs.umem(),
      .threads = 1};
  auto pool = dpdk::make_pool(plan);
  if (pool) return pool;
  return fail(ErrorCode::kSystem,
              "no memory for " + std::to_string(plan.mbufs) + " packets (" +
                  rte_strerror(pool.error().sys_errno) +
                  "): use fewer ports, fewer queues=, or a larger --memory",
              "--port");
}

}  // namespace

std::uint16_t load_frame_bytes(std::uint16_t mtu) noexcept {
  return static_cast<std::uint16_t>(mtu + sizeof(EthernetHeader) + sizeof(VlanTag));
}

Result<std::unique_ptr<LoadPort>> LoadPort::open(const dpdk_transport::WorkerDevice& device,
                                                 std::uint16_t mtu, std::size_t number) {
  std::unique_ptr<LoadPort> made(new LoadPort);
  made->name_ = device.name;
  made->card_ = device.pci;
  std::string private_name;
  if (device.memif) {
    auto relay = dpdk_transport::MemifRelay::create(device.socket, device.abstract_socket);
    if (!relay) return tl::unexpected(relay.error());
    made->relay_ = std::move(*relay);
    private_name = made->relay_->private_name();
  }
  dpdk::PortOptions options;
  options.name = device.name;
  options.device = device.driver_string(private_name);
  options.pci = device.pci;
  options.mtu = mtu;
  options.receive_queues = options.transmit_queues = device.queues;
  const dpdk::PortNeeds needs = dpdk::Port::needs_of(options);
  auto pool = pool_for(needs, mtu, "load-" + std::to_string(number));
  if (!pool) return tl::unexpected(pool.error());
  made->pool_ = std::move(*pool);
  made->transmit_descriptors_ = std::uint32_t{dpdk::Port::descriptors_of(options)} * options.transmit_queues;
  auto port = dpdk::Port::open(options, made->pool_.get());
  if (!port) return tl::unexpected(port.error());
  made->port_.emplace(std::move(*port));
  const std::uint16_t granted = std::min(made->queues(), made->transmit_queues());
  if (granted < device.queues)
    return fail(ErrorCode::kInvalidArgument,
                device.name + " has " + std::to_string(granted) +
                    " queues each way here: queues=" + std::to_string(device.queues) + " is too many",
                "--port");
  if (made->relay_ == nullptr) return made;
  auto link = dpdk_transport::MemifLink::create(*made->relay_, *made->port_, mix64(number + 1));
  if (!link) return tl::unexpected(link.error());
  made->link_ = std::move(*link);
  return made;
}

void LoadPort::maintain(TimeNs now) {
  if (link_ != nullptr) {
    link_->step(now);
    up_ = link_->up();
  } else if (now >= due_) {
    up_ = port_->link_up();
    due_ = now + kLinkPeriod;
  }
}

double LoadPort::line_rate() const noexcept {
  rte_eth_link link{};
  if (!card_ || rte_eth_link_get_nowait(id(), &link) != 0 || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
    return 0;
  return link.link_speed / 1e3;
}

std::string LoadPort::why_down() const {
  if (link_ != nullptr && !link_->why_down().empty()) return link_->why_down();
  return "its link is down";
}

namespace {

// memif says so at every device because there are no secondary processes here, and means nothing by it.
constexpr std::string_view kHarmless = "Failed to register mp action callback";

constexpr std::string_view kDataCore = "lcore-worker";  // what EAL names a data core's thread

}  // namespace

Result<std::vector<dpdk_transport::WorkerDevice>> parse_load_devices(const std::vector<std::string>& ports,
                                                                     std::uint16_t mtu) {
  std::vector<dpdk_transport::WorkerDevice> devices;
  for (const std::string& text : ports) {
    auto device = dpdk_transport::parse_worker_device(text, mtu);
    if (!device) {
      Error error = device.error();
      error.where = "--port";
      return tl::unexpected<Error>(std::move(error));
    }
    for (const dpdk_transport::WorkerDevice& other : devices)
      if (other.name == device->name)
        return fail(ErrorCode::kInvalidArgument, device->name + " is there twice: number the devices",
                    "--port");
    devices.push_back(std::move(*device));
  }
  return devices;
}

Result<dpdk::Eal> start_load_eal(const std::string& program,
                                 const std::vector<dpdk_transport::WorkerDevice>& devices,
                                 std::uint64_t memory_mib, bool in_memory) {
  dpdk::EalOptions eal;
  eal.program = program;
  eal.instance = "bench-" + std::to_string(getpid());
  eal.pinned = false;
  eal.memory_bytes = memory_mib << 20;
  for (const dpdk_transport::WorkerDevice& device : devices)
    if (device.pci) eal.pci.push_back(device.name);
  if (!in_memory && eal.pci.empty()) eal.hugepages = false;
  return dpdk::Eal::start(eal, [program](std::uint32_t level, std::string_view line) {
    if (level > RTE_LOG_WARNING || line.find(kHarmless) != std::string_view::npos) return;
    std::fprintf(stderr, "%s: DPDK: %.*s\n", program.c_str(), static_cast<int>(line.size()), line.data());
  });
}

Result<void> pin_to(std::optional<std::uint16_t> cpu) {
  if (!cpu) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(*cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  Error error{.code = ErrorCode::kInvalidArgument,
              .what = "CPU " + std::to_string(*cpu) + " does not exist or is not allowed to this process",
              .where = "--cpu",
              .sys_errno = errno};
  return tl::unexpected<Error>(std::move(error));
}

bool shares_cpu(int process, std::uint16_t cpu) {
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with(kDataCore)) continue;
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line == "Cpus_allowed_list:\t" + std::to_string(cpu)) return true;
  }
  return false;
}

}  // namespace tally::bench
