// What makes libtally_dpdk.so a transport: loading it is enough.

#include "api/transport.h"
#include "dpdk_transport/dpdk_transport.h"

namespace tally::dpdk_transport {
namespace {

[[maybe_unused]] const bool kRegistered = [] {
  register_transport("dpdk", &open_transport<DpdkTransport>);
  return true;
}();

}  // namespace
}  // namespace tally::dpdk_transport
