#include "kernel_port.h"

#include <set>

#include "kernel_interface.h"
#include "probed_device.h"

#include <rte_log.h>

namespace tally {
namespace {

tl::unexpected<Error> wrong(const PortOptions& options, std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), options.device);
}

// Interfaces that af_xdp opened in this process. DPDK 22.11 miscounts the users of a umem when it closes a
// port, so that the first socket, which is the umem's own, stays bound to the interface's queue.
std::set<std::string>& used_by_xdp() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

void note_xdp(const std::string& interface) { used_by_xdp().insert(interface); }

Result<void> prepare_kernel_port(const PortOptions& options, ProbedDevice& p) {
  const KernelDevice device = examine_kernel_device(options.device, options.mtu, options.receive_queues,
                                                    options.descriptors, options.burst);
  p.kernel = device.driver;
  if (device.driver == KernelDriver::kNone) return {};
  if (!device.complaints.empty())
    return wrong(options, device.complaints.front().message + ": " + device.complaints.front().help);
  if (device.driver == KernelDriver::kAfXdp && used_by_xdp().contains(device.interface))
    return wrong(options, device.interface +
                              " was a port of this process before, and DPDK gives an interface of "
                              "af_xdp back only when the process ends: start it again");
  const InterfaceAdvice advice =
      advise(device, options.mtu, facts_of(device.interface), interfaces_present());
  if (!advice.error.empty()) return wrong(options, advice.error);
  for (const std::string& warning : advice.warnings)
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1, "port %s: %s\n", options.name.c_str(), warning.c_str());
  p.device = device.device;
  p.interface = device.interface;
  return {};
}

}  // namespace tally
