#include "worker_places.h"

#include <arpa/inet.h>

#include <array>
#include <string>

namespace tally::bench {
namespace {

constexpr std::uint16_t kFirstEphemeral = 49152;
constexpr std::uint16_t kSpread = 8192;

std::string text_of(const Ipv6& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_mapped_ipv4(address)) {
    inet_ntop(AF_INET, address.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, address.data(), text.data(), text.size());
  }
  return text.data();
}

void step(Ipv6& address) noexcept {
  for (std::size_t i = address.size(); i-- > 0;)
    if (++address[i] != 0) return;
}

tl::unexpected<Error> named(Error error) {
  error.where = error.where == "TALLY_SWITCH" ? "--switch" : "--address";
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<std::vector<dpdk_transport::WorkerAddress>> worker_places(std::string_view box, std::string_view first,
                                                                 std::uint16_t workers, std::uint64_t seed) {
  auto place = dpdk_transport::make_worker_address(box, first, seed);
  if (!place) return named(place.error());
  const std::string length(first.substr(first.find('/')));
  std::vector<dpdk_transport::WorkerAddress> places;
  while (places.size() < workers) {
    const auto rank = static_cast<std::uint16_t>(places.size());
    place->mac[5] = static_cast<std::uint8_t>(rank);
    place->udp_port = static_cast<std::uint16_t>(kFirstEphemeral + seed % kSpread + rank);
    places.push_back(*place);
    Ipv6 next = place->own;
    step(next);
    if (next == place->box) step(next);
    if (places.size() == workers) break;
    place = dpdk_transport::make_worker_address(box, text_of(next) + length, seed);
    if (!place) {
      Error error = place.error();
      error.what = "the network of " + std::string(first) + " has no room for " + std::to_string(workers) +
                   " workers from there on: " + error.what;
      return named(std::move(error));
    }
  }
  return places;
}

}  // namespace tally::bench
