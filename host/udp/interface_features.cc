#include "interface_features.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "udp_socket.h"

namespace tally {
namespace {

constexpr std::string_view kFeature = "tx-udp-segmentation";
constexpr std::size_t kBlockBits = 32;

// A request of ethtool: a fixed head, then what the kernel fills in.
class Request {
 public:
  Request(std::uint32_t command, std::size_t bytes) : words_(bytes / sizeof(std::uint32_t) + 1) {
    words_[0] = command;
  }
  [[nodiscard]] std::uint32_t& word(std::size_t offset) { return words_[offset / sizeof(std::uint32_t)]; }
  [[nodiscard]] const char* bytes(std::size_t offset) const {
    return reinterpret_cast<const char*>(words_.data()) + offset;
  }
  [[nodiscard]] bool ask(const UdpSocket& socket, const std::string& interface) {
    ifreq request{};
    if (interface.size() >= sizeof request.ifr_name) return false;
    std::memcpy(request.ifr_name, interface.data(), interface.size());
    request.ifr_data = reinterpret_cast<char*>(words_.data());
    return ioctl(socket.fd(), SIOCETHTOOL, &request) == 0;
  }

 private:
  std::vector<std::uint32_t> words_;  // all of ethtool's fields are aligned to them
};

std::optional<std::size_t> count_features(const UdpSocket& socket, const std::string& interface) {
  Request sets(ETHTOOL_GSSET_INFO, sizeof(ethtool_sset_info) + sizeof(std::uint32_t));
  const std::uint64_t mask = std::uint64_t{1} << ETH_SS_FEATURES;
  std::memcpy(&sets.word(offsetof(ethtool_sset_info, sset_mask)), &mask, sizeof mask);
  if (!sets.ask(socket, interface)) return std::nullopt;
  return sets.word(offsetof(ethtool_sset_info, data));
}

std::optional<std::size_t> find_feature(const UdpSocket& socket, const std::string& interface,
                                        std::size_t count) {
  Request names(ETHTOOL_GSTRINGS, sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN);
  names.word(offsetof(ethtool_gstrings, string_set)) = ETH_SS_FEATURES;
  names.word(offsetof(ethtool_gstrings, len)) = static_cast<std::uint32_t>(count);
  if (!names.ask(socket, interface)) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const char* const name = names.bytes(offsetof(ethtool_gstrings, data) + i * ETH_GSTRING_LEN);
    if (kFeature == std::string_view(name, strnlen(name, ETH_GSTRING_LEN))) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> takes_uncut_udp(const std::string& interface) {
  const auto socket = UdpSocket::open(AF_INET);
  if (!socket) return std::nullopt;
  const auto count = count_features(*socket, interface);
  if (!count) return std::nullopt;
  const auto index = find_feature(*socket, interface, *count);
  if (!index) return std::nullopt;
  const std::size_t blocks = (*count + kBlockBits - 1) / kBlockBits;
  Request features(ETHTOOL_GFEATURES,
                   sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block));
  features.word(offsetof(ethtool_gfeatures, size)) = static_cast<std::uint32_t>(blocks);
  if (!features.ask(*socket, interface)) return std::nullopt;
  const std::size_t block = offsetof(ethtool_gfeatures, features) +
                            *index / kBlockBits * sizeof(ethtool_get_features_block) +
                            offsetof(ethtool_get_features_block, active);
  return (features.word(block) >> (*index % kBlockBits) & 1U) != 0;
}

}  // namespace tally
