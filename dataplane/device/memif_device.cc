#include "device/memif_device.h"

#include <sys/un.h>
#include <algorithm>
#include <bit>
#include <cctype>

namespace tally::device {
namespace {

constexpr std::uint32_t kUsualBuffer = 2048;
constexpr std::uint32_t kMostLog2 = 14;
constexpr std::uint32_t kUsualLog2 = 10;
constexpr std::size_t kMostSecret = 23;

void check_role(const PortDevice& device, MemifEnd end, MemifDevice& memif) {
  const DeviceArgument* const role = device.find("role");
  memif.server = role != nullptr && role->value == "server";
  const bool client = role == nullptr || role->value == "client";
  const std::string seen =
      role == nullptr ? "role is missing, and memif takes client then" : "role is '" + role->value + "'";
  if (end == MemifEnd::kBox ? !memif.server : end == MemifEnd::kWorker ? !client : !memif.server && !client)
    device.complain(memif.complaints, "role", seen,
                    end == MemifEnd::kAny
                        ? "write server or client"
                        : std::string("the box is the server, its workers are the clients: write role=") +
                              (end == MemifEnd::kBox ? "server" : "client"));
}

// `otherwise` when it is absent.
bool yes_or_no(const PortDevice& device, std::string_view key, bool otherwise, DeviceComplaints& complaints) {
  const DeviceArgument* const a = device.find(key);
  if (a == nullptr) return otherwise;
  if (a->value != "yes" && a->value != "no")
    device.complain(complaints, key, a->key + " is '" + a->value + "'", "write yes or no");
  return a->value == "yes";
}

void check_socket(const PortDevice& device, MemifEnd end, MemifDevice& memif) {
  const DeviceArgument* const a = device.find("socket");
  if (a == nullptr) return;
  memif.socket = a->value;
  // A path ends in a NUL byte; an abstract name begins with one too.
  const std::size_t longest = sizeof(sockaddr_un::sun_path) - (memif.abstract ? 2 : 1);
  if (end == MemifEnd::kBox && !memif.abstract && !a->value.starts_with('/')) {
    device.complain(memif.complaints, "socket", "socket '" + a->value + "' is not an absolute path",
                    "begin it with /, such as /run/tally/rack1.sock");
  } else if (a->value.size() > longest) {
    device.complain(memif.complaints, "socket",
                    "the socket has " + std::to_string(a->value.size()) + " bytes",
                    "a Unix socket's name has at most " + std::to_string(longest) + "; choose a shorter one");
  }
}

// aa:bb:cc:dd:ee:ff of one station.
bool is_station(std::string_view mac) {
  constexpr std::string_view kShape = "hh:hh:hh:hh:hh:hh";
  const auto good = [](char c, char shape) {
    return shape == 'h' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == shape;
  };
  return mac.size() == kShape.size() && std::equal(mac.begin(), mac.end(), kShape.begin(), good) &&
         mac.find_first_not_of("0:") != std::string_view::npos &&
         std::string_view("02468aceACE").find(mac[1]) != std::string_view::npos;
}

void check_rest(const PortDevice& device, DeviceComplaints& complaints) {
  if (const DeviceArgument* const secret = device.find("secret");
      secret != nullptr && secret->value.size() > kMostSecret)
    device.complain(complaints, "secret", "secret is too long", "memif takes at most 23 bytes");
  if (const DeviceArgument* const mac = device.find("mac"); mac != nullptr && !is_station(mac->value))
    device.complain(complaints, "mac", "'" + mac->value + "' is not the MAC address of one station",
                    "write six pairs of hexadecimal digits, such as 02:00:00:00:00:01");
}

void check_buffers(PortDevice& device, MemifEnd end, std::uint32_t mtu, DeviceComplaints& complaints) {
  const bool given = device.has("bsize");
  const auto buffer = device.number("bsize", 1, 65'535, kUsualBuffer, complaints);
  const std::uint32_t frame = mtu + kEthernetBytes;
  if (!buffer || mtu == 0 || *buffer >= frame) return;
  if (given || end == MemifEnd::kBox) {
    device.complain(complaints, "bsize",
                    "bsize is " + std::to_string(*buffer) + ", but a frame of mtu " + std::to_string(mtu) +
                        " has " + std::to_string(frame) + " bytes",
                    frame <= kUsualBuffer ? "write bsize=2048" : "write bsize=9216");
    return;
  }
  device.add("bsize", std::to_string((frame + 1023) / 1024 * 1024));
}

}  // namespace

MemifDevice examine_memif_device(std::string_view text, MemifEnd end, std::uint32_t mtu,
                                 std::uint32_t descriptors) {
  MemifDevice memif;
  auto& wrong = memif.complaints;
  PortDevice device = parse_device(text, wrong);
  memif.name = device.name;
  check_role(device, end, memif);
  memif.id = device.number("id", 0, UINT32_MAX, 0, wrong).value_or(0);
  const std::uint32_t wished =
      std::min<std::uint32_t>(std::bit_width(std::max<std::uint32_t>(descriptors, 2)) - 1U, kMostLog2);
  const std::uint32_t log2 = device.number("rsize", 1, kMostLog2, wished, wrong).value_or(kUsualLog2);
  memif.descriptors = static_cast<std::uint16_t>(1U << log2);
  if (!device.has("rsize")) device.add("rsize", std::to_string(log2));
  check_buffers(device, end, mtu, wrong);
  memif.abstract = yes_or_no(device, "socket-abstract", true, wrong);
  if (yes_or_no(device, "zero-copy", false, wrong) && end != MemifEnd::kAny)
    device.complain(wrong, "zero-copy",
                    end == MemifEnd::kBox ? "zero-copy=yes does nothing with role=server"
                                          : "zero-copy=yes is not in this version",
                    "remove it");
  check_socket(device, end, memif);
  check_rest(device, wrong);
  memif.device = device.for_driver();
  return memif;
}

}  // namespace tally::device
