#include "traffic.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tally/mix64.h"
#include "tally/net.h"

namespace tally::bench {
namespace {

constexpr std::size_t kDatagram = Traffic::kHeaders - kHeaderBytes;

Header header_at(const std::byte* datagram) noexcept {
  Header h;
  std::memcpy(&h, datagram, sizeof h);
  return h;
}

}  // namespace

Traffic::Traffic(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels,
                 std::size_t ports, bool lossy, ChunkShard shard)
    : job_(job),
      kernels_(kernels),
      lossy_(lossy),
      shard_(shard),
      frame_bytes_(static_cast<std::uint32_t>(kHeaders + 4U * job.elements)),
      receivers_(job.results == ResultsMode::kMulticast
                     ? members_of(static_cast<std::uint8_t>(shard.bits == 0 ? ports : 1))
                     : job.members),
      senders_(ports),
      expected_(kUnderWay, {.contributed = job.members, .delivered = receivers_}),
      samples_(kUnderWay / kSampleEvery * job.elements) {
  for (std::uint16_t r = 0; r < job.world; ++r) {
    senders_[r % ports].ranks.push_back(r);
    frames_.emplace_back(job, r, box);
  }
}

void Traffic::hold(std::uint64_t frames) {
  const std::uint64_t chunks = frames / job_.world + std::uint64_t{kSkewChunks} * job_.world + 1;
  const std::size_t under_way = std::bit_ceil(std::max<std::uint64_t>(chunks, kUnderWay));
  expected_.assign(under_way, {.contributed = job_.members, .delivered = receivers_});
  samples_.assign(under_way / kSampleEvery * job_.elements, 0);
}

void Traffic::paint(std::byte* frame, std::uint64_t seed) const noexcept {
  if (header_at(frame + kDatagram).type == PacketType::kProbe) return;  // painted and not used since
  std::byte* const values = frame + kHeaders;
  write_values(values, job_.elements, [seed](std::size_t k) {
    return static_cast<std::int32_t>(mix64(seed * kMaxElements + k) & 0xFF) - 128;
  });
  write_sums(frame + kDatagram, kernels_.sums(values, job_.elements));
}

void Traffic::next_headers(std::size_t port, const std::byte* frame,
                           std::span<std::byte, kHeaders> out) noexcept {
  Sender& sender = senders_[port];
  std::uint16_t rank = 0;
  std::int64_t at = -1;
  while (at < 0) {  // at the start the last members still wait
    rank = sender.ranks[sender.next];
    at = std::int64_t{sender.step} - std::int64_t{kSkewChunks} * rank;
    if (++sender.next == sender.ranks.size()) {
      sender.next = 0;
      ++sender.step;
    }
  }
  const Chunk chunk{static_cast<std::uint32_t>(at) << shard_.bits | shard_.index};
  const kernels::Sums plain = plain_sums(job_, header_at(frame + kDatagram));
  expect(raw(chunk), rank, plain.sum1, plain.sum2, frame + kHeaders);
  frames_[rank].write(out, chunk, plain, kernels_);
}

void Traffic::expect(std::uint32_t chunk, std::uint16_t rank, std::uint32_t sum1, std::uint32_t sum2,
                     const std::byte* values) noexcept {
  Expected& e = expected(chunk);
  if (e.contributed == job_.members) {  // of an earlier chunk
    if (e.delivered != receivers_ && !lossy_) fail("a chunk's result did not reach every receiver");
    e = {.chunk = chunk};
  }
  if (e.chunk != chunk) fail("the benchmark runs ahead of itself");
  e.sum1 += sum1;
  e.sum2 += sum2;
  if (sampled(chunk)) {
    const std::span<std::uint32_t> sums = sample(chunk);
    if (e.contributed == 0) std::ranges::fill(sums, 0);
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += value_at(values, k);
  }
  e.contributed |= bit_of(Rank{rank});
  ++contributions_;
  if (e.contributed == job_.members) ++chunks_;
}

void Traffic::check(std::size_t port, const std::byte* encapsulation, const std::byte* datagram) noexcept {
  EthernetHeader ethernet;
  std::memcpy(&ethernet, encapsulation, sizeof ethernet);
  const Header h = header_at(datagram);
  const bool multicast = job_.results == ResultsMode::kMulticast;
  const std::size_t receiver = multicast ? port : ethernet.destination[5];
  if (!multicast && shard_.bits == 0 && receiver % senders_.size() != port)
    return fail("a result left through another port");
  const std::uint32_t chunk = raw(h.chunk_id());
  Expected& e = expected(chunk);
  if (h.type != PacketType::kResult || h.contributors.host() != job_.members || e.chunk != chunk ||
      e.contributed != job_.members)
    return fail("a frame that left is not the result of a finished chunk");
  if (h.sum1.host() != e.sum1 + keyed(job_.key_sum, h.chunk_id()) || h.sum2.host() != e.sum2)
    return fail("a result has other sums than its contributions");
  const std::uint64_t bit = std::uint64_t{1} << receiver % 64;
  if ((e.delivered & bit) != 0) return fail("a receiver got a result twice");
  e.delivered |= bit;
  if (e.delivered == receivers_) ++delivered_;
  if (!sampled(chunk)) return;
  ++compared_;
  const std::span<const std::uint32_t> sums = sample(chunk);
  std::uint32_t difference = 0;
  for (std::size_t k = 0; k < sums.size(); ++k) difference |= sums[k] ^ value_at(datagram + kHeaderBytes, k);
  if (difference != 0) fail("a value of a result is not the sum of its contributions");
}

}  // namespace tally::bench
