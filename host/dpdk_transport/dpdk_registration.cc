// What makes libtally_dpdk.so a transport: loading it is enough.

#include "api/transport.h"
#include "dpdk_transport/dpdk_transport.h"

namespace tally::dpdk_transport {
namespace {

Result<std::unique_ptr<Transport>> make_dpdk_transport(const TransportOptions& options) {
  auto opened = DpdkTransport::open(options);
  if (!opened) return tl::unexpected(opened.error());
  return std::unique_ptr<Transport>(std::move(*opened));
}

[[maybe_unused]] const bool kRegistered = [] {
  register_transport("dpdk", &make_dpdk_transport);
  return true;
}();

}  // namespace
}  // namespace tally::dpdk_transport
