#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>

#include "api/transport.h"
#include "udp/udp_transport.h"

namespace tally {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, TransportFactory, std::less<>> factories;
};

// Made on first use: libraries register from static constructors.
Registry& registry() {
  static Registry only;
  return only;
}

TransportFactory find_factory(std::string_view scheme) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.factories.find(scheme); found != all.factories.end()) return found->second;
  return scheme == "udp" ? &open_transport<udp::UdpTransport> : nullptr;
}

constexpr const char* kDpdkLibrary = "libtally_dpdk.so.0";

// The folder of this library, with a slash; empty if the loader does not say.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&registry), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// Loads the library for good: DPDK cannot be taken out of a process again.
Result<void> load_dpdk() {
  const std::string folder = own_folder();
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL;
  std::string why;
  for (const std::string& name : {folder + kDpdkLibrary, std::string(kDpdkLibrary)}) {
    if (dlopen(name.c_str(), kHow) != nullptr) return {};
    const char* const said = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(said == nullptr ? "unknown error" : said);
  }
  return fail(ErrorCode::kSystem,
              std::string("transport dpdk needs ") + kDpdkLibrary + ", which cannot be loaded from " +
                  (folder.empty() ? std::string("beside libtally") : folder) +
                  " nor from the loader's path. Build Tally with libdpdk-dev installed (make deps, make "
                  "build) or install it (make install), and run ldconfig if it is in another folder. "
                  "The loader said: " +
                  why,
              "TALLY_TRANSPORT");
}

}  // namespace

void register_transport(std::string_view scheme, TransportFactory factory) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.factories[std::string(scheme)] = factory;
}

Result<std::unique_ptr<Transport>> make_transport(std::string_view transport, TransportOptions options) {
  const std::size_t colon = transport.find(':');
  const std::string_view scheme = transport.substr(0, colon);
  TransportFactory factory = find_factory(scheme);
  if (factory == nullptr && scheme == "dpdk") {
    if (auto loaded = load_dpdk(); !loaded) return tl::unexpected(std::move(loaded.error()));
    factory = find_factory(scheme);
    if (factory == nullptr)
      return fail(
          ErrorCode::kSystem,
          std::string(kDpdkLibrary) + " was loaded but offers no transport; is it of another version?",
          "TALLY_TRANSPORT");
  }
  if (factory == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "there is no transport '" + std::string(scheme) +
                    "' in this version; write udp, or dpdk:DEVICE, for example "
                    "dpdk:net_memif0,role=client,id=0,socket=PATH",
                "TALLY_TRANSPORT");
  options.device = colon == std::string_view::npos ? std::string_view() : transport.substr(colon + 1);
  return factory(options);
}

}  // namespace tally
