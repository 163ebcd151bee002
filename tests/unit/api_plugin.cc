// Stands for libtally_dpdk.so.0 in api_plugin_test.cc: registers 'dpdk' when it is loaded.
#include "api/transport.h"

namespace tally {
namespace {

Result<std::unique_ptr<Transport>> refuse(const TransportOptions& options) {
  return fail(ErrorCode::kSystem, "the plugin was asked for " + std::string(options.device) + " at " +
                                      std::string(options.address) + " towards " + std::string(options.box));
}

[[maybe_unused]] const bool kRegistered = [] {
  register_transport("dpdk", &refuse);
  return true;
}();

}  // namespace
}  // namespace tally
