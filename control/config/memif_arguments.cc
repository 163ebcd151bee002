#include "memif_arguments.h"

#include <sys/un.h>

#include "cidr.h"
#include "units.h"

namespace tally {
namespace {

class MemifCheck {
 public:
  MemifCheck(const PortDevice& device, std::vector<Complaint>& complaints)
      : device_(device), complaints_(complaints) {}

  void number(std::string_view key, std::uint64_t lowest, std::uint64_t highest) {
    const DeviceArgument* const a = device_.find(key);
    if (a == nullptr) return;
    const auto value = parse_unsigned(a->value);
    if (value && *value >= lowest && *value <= highest) return;
    add(a, std::string(key) + " is " + shown(a->value),
        "write a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }

  void yes_or_no(std::string_view key) {
    const DeviceArgument* const a = device_.find(key);
    if (a == nullptr || a->value == "yes" || a->value == "no") return;
    add(a, std::string(key) + " is " + shown(a->value), "write yes or no");
  }

  // A client would connect once, when the port starts, and never again.
  void role() {
    const DeviceArgument* const a = device_.find("role");
    if (a != nullptr && a->value == "server") return;
    add(a, a == nullptr ? "role is missing, and memif takes client then" : "role is " + shown(a->value),
        "the box is the server, its workers are the clients: write role=server");
  }

  void socket() {
    const DeviceArgument* const a = device_.find("socket");
    if (a == nullptr) return;
    // A path ends in a NUL byte; an abstract name begins with one too.
    const std::size_t longest = sizeof(sockaddr_un::sun_path) - (is_abstract() ? 2 : 1);
    if (!is_abstract() && !a->value.starts_with('/')) {
      add(a, "socket " + shown(a->value) + " is not an absolute path",
          "begin it with /, such as /run/tally/rack1.sock");
    } else if (a->value.size() > longest) {
      add(a, "the socket has " + std::to_string(a->value.size()) + " bytes",
          "a Unix socket's name has at most " + std::to_string(longest) + "; choose a shorter one");
    }
  }

  void secret() {
    const DeviceArgument* const a = device_.find("secret");
    if (a != nullptr && a->value.size() > 23) add(a, "secret is too long", "memif takes at most 23 bytes");
  }

  void mac() {
    const DeviceArgument* const a = device_.find("mac");
    if (a == nullptr) return;
    if (const auto parsed = parse_mac(a->value); !parsed) add(a, parsed.error().message, parsed.error().help);
  }

  void zero_copy() {
    const DeviceArgument* const a = device_.find("zero-copy");
    if (a == nullptr || a->value != "yes") return;
    add(a, "zero-copy=yes does nothing with role=server", "remove it");
  }

 private:
  [[nodiscard]] bool is_abstract() const { return device_.value_or("socket-abstract", "yes") == "yes"; }

  void add(const DeviceArgument* argument, std::string message, std::string help) {
    complaints_.push_back({std::move(message), std::move(help), argument == nullptr ? 0 : argument->offset});
  }

  const PortDevice& device_;
  std::vector<Complaint>& complaints_;
};

}  // namespace

void check_memif(const PortDevice& device, std::vector<Complaint>& complaints) {
  MemifCheck check(device, complaints);
  check.role();
  check.number("id", 0, 0xFFFFFFFF);
  check.number("bsize", 1, 65'535);
  check.number("rsize", 1, 14);
  check.yes_or_no("socket-abstract");
  check.yes_or_no("zero-copy");
  check.socket();
  check.secret();
  check.mac();
  check.zero_copy();
}

}  // namespace tally
