#include "load_frames.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string>

#include "contributions.h"
#include "pipeline/reply.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::int8_t kOfZeros = -127;
constexpr int kLeastExponent = -96;
constexpr std::uint64_t kExponents = 126 + 96 + 1;

std::int8_t exponent_of(ImageIndex image) noexcept {
  if (image == 0) return kOfZeros;
  return static_cast<std::int8_t>(kLeastExponent + static_cast<int>(mix64(image) % kExponents));
}

}  // namespace

LoadImages::LoadImages(std::uint16_t words, Dtype dtype, const kernels::Kernels& kernels)
    : words_(words), dtype_(dtype), bytes_(std::size_t{kImages} * 4 * words) {
  write_values(bytes_.data(), std::size_t{kImages} * words, [this](std::size_t i) {
    const std::uint64_t bits = mix64(i + 1);
    if (!halves()) return static_cast<std::int32_t>(bits >> 39) - (1 << 24);
    const auto half = [](std::uint64_t from) { return static_cast<std::uint32_t>(from % 513) - 256; };
    return static_cast<std::int32_t>(half(bits >> 32) << 16 | (half(bits & 0xFFFF'FFFF) & 0xFFFF));
  });
  for (ImageIndex image = 0; image < kImages; ++image)
    facts_.push_back({.sums = sums_of(kernels, values(image).data()),
                      .internet = tally::internet_sum(values(image)),
                      .exponent = dtype != Dtype::kInt32 ? exponent_of(image) : kNoExponent});
}

kernels::Sums LoadImages::sums_of(const kernels::Kernels& kernels, const std::byte* values) const noexcept {
  return halves() ? kernels.halves.sums(values, elements()) : kernels.sums(values, elements());
}

namespace {

// The sender that the box's own header functions want.
jobs::Box box_of(const dpdk_transport::WorkerAddress& address) noexcept {
  jobs::Box box{.mac = address.mac, .ipv4 = {}, .ipv6 = {}};
  if (address.ipv4()) {
    std::copy_n(address.own.begin() + 12, box.ipv4.size(), box.ipv4.begin());
  } else {
    box.ipv6 = address.own;
  }
  return box;
}

jobs::Binding binding_of(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan, const Mac& mac,
                         std::uint16_t udp_port) noexcept {
  jobs::Binding to;
  to.address = address.box;
  to.mac = mac;
  to.vlan = vlan;
  to.udp_port = udp_port;
  return to;
}

}  // namespace

void encapsulate(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan, const Mac& to,
                 std::span<std::byte> head, std::span<const std::byte> datagram) noexcept {
  pipeline::write_encapsulation(head, binding_of(from, vlan, to, kBasePort), box_of(from), from.udp_port,
                                datagram);
}

std::size_t encapsulation_of(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan) noexcept {
  return pipeline::encapsulation_bytes(binding_of(from, vlan, {}, 0));
}

ContributionWriter::ContributionWriter(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan,
                                       const engine::Membership& membership, std::uint16_t rank,
                                       const LoadImages& images, const kernels::Kernels& kernels)
    : udp_port_(address.udp_port),
      membership_(membership),
      header_({.job = membership.job,
               .rank = Rank{rank},
               .epoch = membership.epoch,
               .cookie = membership.cookie,
               .key = membership.key,
               .slots = membership.slot_map(),
               .shards = membership.shards,
               .elements = images.elements(),
               .total = images.total(),
               .dtype = images.dtype(),
               .priority = membership.max_priority}),
      images_(images),
      kernels_(kernels) {
  for (std::uint32_t shard = 0; shard < membership.shards; ++shard) {
    const auto to = static_cast<std::uint16_t>(kBasePort + shard);
    heads_.emplace_back(binding_of(address, vlan, membership.box_mac, to), box_of(address));
  }
}

void ContributionWriter::write(std::span<std::byte> frame, Chunk chunk, ImageIndex image,
                               bool again) noexcept {
  const pipeline::HeaderTemplate& head = heads_[membership_.shard_of(chunk)];
  const std::span<std::byte> datagram = frame.subspan(head.bytes());
  header_.write(datagram, chunk, images_.sums(image), images_.exponent(image), again ? kFlagRetransmit : 0,
                kernels_);
  // Of the values it was made once: to read them all for each frame is slower than the box.
  const std::uint32_t sum =
      head.ipv6() ? internet_sum(datagram.first(kHeaderBytes)) + images_.internet_sum(image) : 0;
  head.write(frame.data(), udp_port_, static_cast<std::uint32_t>(datagram.size()), sum);
}

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
