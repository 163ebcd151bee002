#include "kernel_port.h"

#include "kernel_interface.h"
#include "probed_device.h"

#include <rte_log.h>

namespace tally {
namespace {

tl::unexpected<Error> wrong(const PortOptions& options, std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), options.device);
}

}  // namespace

Result<void> prepare_kernel_port(const PortOptions& options, ProbedDevice& p) {
  const KernelDevice device =
      examine_kernel_device(options.device, options.mtu, options.receive_queues, options.descriptors);
  p.kernel = device.driver;
  if (device.driver == KernelDriver::kNone) return {};
  if (!device.complaints.empty())
    return wrong(options, device.complaints.front().message + ": " + device.complaints.front().help);
  const InterfaceAdvice advice =
      advise(device, options.mtu, facts_of(device.interface), interfaces_present());
  if (!advice.error.empty()) return wrong(options, advice.error);
  for (const std::string& warning : advice.warnings)
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1, "port %s: %s\n", options.name.c_str(), warning.c_str());
  p.device = device.device;
  return {};
}

}  // namespace tally
