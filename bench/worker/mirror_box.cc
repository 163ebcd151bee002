#include "mirror_box.h"

#include <cstring>

#include "engine/datagram.h"
#include "harness.h"
#include "tally/discipline.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kJob = 1;
constexpr std::uint32_t kEpoch = 0x5eed0001;
constexpr std::uint64_t kCookie = 0xa0a0a0a0a0a0a0a0;
constexpr std::uint64_t kResultCookie = 0x2222222222222222;
constexpr Generation kGeneration{0x0123456789abcdef};

}  // namespace

MirrorBox::MirrorBox(const Shape& shape, const kernels::Kernels& kernels)
    : shape_(shape), kernels_(kernels), own_key_(rank_key(kGeneration, Rank{0})), entry_(shape.elements) {
  for (std::uint16_t rank = 0; rank < kWorld; ++rank) all_keys_ += rank_key(kGeneration, Rank{rank});
}

Header MirrorBox::from_box(PacketType type) const noexcept {
  Header header;
  header.type = type;
  header.job = Be<std::uint16_t>{kJob};
  header.rank = Be<std::uint16_t>{raw(kSwitchRank)};
  header.epoch = Be<std::uint32_t>{kEpoch};
  header.cookie = Be<std::uint64_t>{kResultCookie};
  return header;
}

std::optional<std::vector<std::byte>> MirrorBox::control(std::span<const std::byte> datagram) const {
  Header header;
  std::memcpy(&header, datagram.data(), sizeof header);
  if (header.type == PacketType::kJoin) return joined(datagram);
  if (header.type != PacketType::kHeartbeat) return std::nullopt;
  std::vector<std::byte> echo(kHeaderBytes);
  Header out = from_box(PacketType::kHeartbeat);
  out.contributors = Be<std::uint64_t>{members_of(kWorld)};
  engine::seal_control(out, 0, echo, kernels_);
  return echo;
}

std::vector<std::byte> MirrorBox::joined(std::span<const std::byte> join) const {
  JoinPayload asked;
  std::memcpy(&asked, join.data() + kHeaderBytes, sizeof asked);
  JoinedPayload payload;
  payload.nonce = asked.nonce;
  payload.cookie = Be<std::uint64_t>{kCookie};
  payload.record.generation = Be<std::uint64_t>{raw(kGeneration)};
  payload.record.largest_window = Be<std::uint32_t>{shape_.window};
  payload.record.lookahead = Be<std::uint32_t>{shape_.window};
  payload.record.elements = Be<std::uint16_t>{shape_.elements};
  payload.world = Be<std::uint16_t>{kWorld};
  payload.window = Be<std::uint32_t>{shape_.window};
  payload.lease_ms = Be<std::uint32_t>{10'000};
  payload.status = JoinStatus::kRunning;
  payload.discipline = Discipline::kPool;
  payload.results = ResultsMode::kUnicast;
  payload.shards = 1;
  std::vector<std::byte> out(kHeaderBytes + sizeof payload);
  std::memcpy(out.data() + kHeaderBytes, &payload, sizeof payload);
  engine::seal_control(from_box(PacketType::kJoined), sizeof payload, out, kernels_);
  return out;
}

void MirrorBox::mirror(std::span<std::byte> datagram) noexcept {
  Header in;
  std::memcpy(&in, datagram.data(), sizeof in);
  std::byte* const values = datagram.data() + kHeaderBytes;
  const std::uint32_t n = in.elements.host();
  require(in.type == PacketType::kContribute && n <= shape_.elements, "that is not a contribution");
  const kernels::Sums sent = kernels_.sums(values, n);
  require(in.sum1.host() - keyed(own_key_, in.chunk_id()) == sent.sum1 && in.sum2.host() == sent.sum2,
          "a contribution's sums");
  kernels_.write(entry_.data(), values, n);  // x - x - x
  kernels_.subtract(entry_.data(), values, n);
  kernels_.subtract(entry_.data(), values, n);
  kernels_.read(entry_.data(), values, n);
  Header out = from_box(PacketType::kResult);
  out.chunk = in.chunk;
  out.slot = in.slot;
  out.elements = in.elements;
  out.dtype = in.dtype;
  out.exponent = in.exponent;
  out.total = in.total;
  out.contributors = Be<std::uint64_t>{members_of(kWorld)};
  out.sum1 = Be<std::uint32_t>{keyed(all_keys_, in.chunk_id()) - sent.sum1};
  out.sum2 = Be<std::uint32_t>{0 - sent.sum2};
  engine::seal(out, std::size_t{4} * n, datagram, kernels_);
}

}  // namespace tally::bench
