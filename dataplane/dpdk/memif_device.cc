#include "dpdk/memif_device.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

namespace tally::dpdk {
namespace {

constexpr std::string_view kKeys = "id role bsize rsize socket socket-abstract mac zero-copy secret";
constexpr unsigned kMostLog2 = 14;            // the driver's limit
constexpr std::uint32_t kUsualBuffer = 2048;  // the driver's default
constexpr std::string_view kUsualSocket = "/run/memif.sock";

bool known(std::string_view key) {
  for (std::string_view rest = kKeys; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == key) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

std::optional<std::uint32_t> number(std::string_view text, std::uint32_t least, std::uint32_t most) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < least || n > most) return std::nullopt;
  return n;
}

tl::unexpected<Error> wrong(std::string_view device, std::string_view argument, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, std::string(device) + ": " + std::string(argument));
}

struct Given {
  std::optional<std::uint32_t> log2{};
  std::optional<std::uint32_t> buffer{};
};

// One key=value.
Result<void> take(MemifDevice& memif, Given& given, std::string_view argument) {
  const std::size_t equals = argument.find('=');
  const std::string_view key = argument.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : argument.substr(equals + 1);
  if (!known(key) || value.empty())
    return wrong(memif.name, argument,
                 "net_memif takes key=value with one of these keys: " + std::string(kKeys));
  if (key == "role") {
    if (value != "server" && value != "client")
      return wrong(memif.name, argument, "role is server or client");
    memif.server = value == "server";
  } else if (key == "id") {
    const auto id = number(value, 0, UINT32_MAX);
    if (!id) return wrong(memif.name, argument, "id is a whole number");
    memif.id = *id;
  } else if (key == "socket") {
    memif.socket = value;
  } else if (key == "socket-abstract" || key == "zero-copy") {
    if (value != "yes" && value != "no") return wrong(memif.name, argument, "the value is yes or no");
    if (key == "socket-abstract") memif.abstract = value == "yes";
  } else if (key == "rsize") {
    given.log2 = number(value, 1, kMostLog2);
    if (!given.log2)
      return wrong(memif.name, argument,
                   "rsize is the base-2 logarithm of the ring size, 1..14 (10 = 1,024)");
  } else if (key == "bsize") {
    given.buffer = number(value, 1, UINT16_MAX);
    if (!given.buffer) return wrong(memif.name, argument, "bsize is a number of bytes, 1..65535");
  }
  return {};
}

std::string in_file(const std::string& path, const std::string& what) {
  return "the memif socket " + path + " " + what;
}

tl::unexpected<Error> system_error(std::string what, int code) {
  what += std::string(" (") + std::strerror(code) + ")";
  return tl::unexpected<Error>(Error{.code = ErrorCode::kSystem, .what = std::move(what), .sys_errno = code});
}

Result<void> check_directory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty())
    return fail(ErrorCode::kInvalidArgument, in_file(path, "must be named with its directory"));
  if (faccessat(AT_FDCWD, directory.c_str(), F_OK, AT_EACCESS) != 0)
    return system_error(in_file(path, "cannot be made: create its directory first: mkdir -p " + directory),
                        errno);
  if (faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0)
    return system_error(in_file(path, "cannot be made: this user may not write to " + directory), errno);
  return {};
}

// ECONNREFUSED: nobody. A datagram socket asks, which memif's (SOCK_SEQPACKET) does not even notice.
int why_not_connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const int code = connect(fd, name, sizeof address) == 0 ? 0 : errno;
  close(fd);
  return code;
}

Result<void> make_way(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return fail(ErrorCode::kInvalidArgument,
                in_file(path, "cannot be made: there is a file that is no socket"));
  const int code = why_not_connected(path);
  if (code == 0 || code == EPROTOTYPE)
    return fail(ErrorCode::kSystem,
                in_file(path, "is in use by another process: stop that, or name another socket"));
  if (code != ECONNREFUSED) return system_error(in_file(path, "exists and cannot be tried; remove it"), code);
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return system_error(in_file(path, "is left from a killed process and cannot be removed"), errno);
  return {};
}

}  // namespace

bool is_memif(std::string_view device) noexcept { return device.starts_with("net_memif"); }

Result<MemifDevice> parse_memif(std::string_view device, std::uint16_t descriptors,
                                std::uint32_t frame_bytes) {
  MemifDevice memif{.socket = std::string(kUsualSocket)};
  Given given;
  const std::size_t comma = std::min(device.find(','), device.size());
  memif.name = device.substr(0, comma);
  for (std::string_view rest = device.substr(comma); !rest.empty();) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (auto taken = take(memif, given, rest.substr(0, end)); !taken)
      return tl::unexpected<Error>(std::move(taken.error()));
    rest.remove_prefix(end);
  }
  if (given.buffer.value_or(frame_bytes) < frame_bytes)
    return wrong(memif.name, "bsize=" + std::to_string(*given.buffer),
                 "a buffer holds a whole frame, " + std::to_string(frame_bytes) + " bytes with this mtu");
  if (memif.socket.size() >= sizeof(sockaddr_un::sun_path))
    return wrong(memif.name, memif.socket, "a socket's name has at most 107 bytes");
  memif.device = device;
  if (!given.log2) {
    const unsigned wished = std::bit_width(std::max<unsigned>(descriptors, 2)) - 1U;
    given.log2 = std::min(wished, kMostLog2);
    memif.device += ",rsize=" + std::to_string(*given.log2);
  }
  memif.descriptors = static_cast<std::uint16_t>(1U << *given.log2);
  if (!given.buffer && frame_bytes > kUsualBuffer)
    memif.device += ",bsize=" + std::to_string((frame_bytes + 1023) / 1024 * 1024);
  return memif;
}

Result<void> make_way_for_memif(const MemifDevice& device) {
  if (device.abstract) return {};
  if (auto right = check_directory(device.socket); !right) return right;
  return make_way(device.socket);
}

}  // namespace tally::dpdk
