#include "worker_device.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "in_quotes.h"
#include "memif_device.h"
#include "tally/ids.h"

namespace tally {
namespace {

constexpr std::string_view kExample =
    "for example dpdk:net_memif0,role=client,id=0,socket=/run/tally/memif.sock,socket-abstract=no";
constexpr std::uint16_t kAnyRing = 1024;  // rsize= is checked where the port is opened

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "TALLY_TRANSPORT");
}
bool is_pci(std::string_view name) {
  return name.find(':') != std::string_view::npos && name.find('.') != std::string_view::npos &&
         name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

Result<std::uint32_t> number(std::string_view key, std::string_view value, std::uint32_t least,
                             std::uint32_t most) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error == std::errc{} && end == value.data() + value.size() && n >= least && n <= most) return n;
  return bad(std::string(key) + "=" + std::string(value) + ": must be a number from " +
             std::to_string(least) + " to " + std::to_string(most));
}

// Those that are not the driver's business, or not as they are. `taken`: not passed on.
Result<void> take(std::string_view key, std::string_view value, WorkerDevice& device, bool& taken) {
  if (key == "queues") {
    const auto n = number(key, value, 1, kMaxShards);
    if (!n) return tl::unexpected(n.error());
    device.queues = static_cast<std::uint16_t>(*n);
    taken = true;
    return {};
  }
  if (!device.memif) return {};
  if (key == "role" && value == "server")
    return bad("role=server: the box is the server, a worker is role=client");
  if (key == "zero-copy" && value == "yes") return bad("zero-copy=yes: not in this version; leave it out");
  if (key == "id") {
    // The driver reads a word as 0.
    if (const auto n = number(key, value, 0, UINT32_MAX); !n) return tl::unexpected(n.error());
  }
  // MemifRelay stands in for the daemon.
  taken = key == "role" || key == "socket" || key == "socket-abstract";
  return {};
}

// `words`: all arguments but ours, as they were given.
Result<void> check_memif(const std::string& words, std::uint32_t frame_bytes, WorkerDevice& device) {
  auto memif = parse_memif(device.name + words, kAnyRing, frame_bytes);
  if (!memif) return tl::unexpected(memif.error());
  device.socket = memif->socket;
  device.abstract_socket = memif->abstract;
  if (device.abstract_socket) return {};
  const auto directory = std::filesystem::path(device.socket).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return {};
  return bad("socket=" + device.socket + ": there is no directory " + in_quotes(directory.string()) +
             "; name the same file as the port in the daemon's configuration, with its whole path");
}

}  // namespace

std::string WorkerDevice::driver_string(std::string_view private_socket) const {
  if (!memif) return name + arguments;
  return name + ",role=client,socket-abstract=yes,socket=" + std::string(private_socket) + arguments;
}

Result<WorkerDevice> parse_worker_device(std::string_view text, std::uint32_t frame_bytes) {
  WorkerDevice device;
  const std::size_t comma = std::min(text.find(','), text.size());
  device.name = text.substr(0, comma);
  device.pci = is_pci(device.name);
  device.memif = is_memif(device.name);
  if (!device.pci && !device.name.starts_with("net_")) {
    return bad(in_quotes(device.name) + " is no device: it is a PCI address such as 0000:3b:00.0, or a " +
               "virtual device, " + std::string(kExample));
  }
  std::string all;
  for (std::string_view rest = text.substr(comma); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return bad(in_quotes(word) + " is not KEY=VALUE");
    const std::string_view key = word.substr(0, equals);
    bool taken = false;
    if (auto done = take(key, word.substr(equals + 1), device, taken); !done)
      return tl::unexpected(done.error());
    if (key != "queues") all.append(",").append(word);
    if (!taken) device.arguments.append(",").append(word);
  }
  if (!device.memif) return device;
  if (auto checked = check_memif(all, frame_bytes, device); !checked) return tl::unexpected(checked.error());
  return device;
}

}  // namespace tally
