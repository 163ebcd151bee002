#include "reply_judge.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tally::stock {
namespace {

constexpr std::size_t kKept = 2;  // chunks of a pool_index

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t i) noexcept {
  Be<std::uint32_t> word;
  std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
  return word.host();
}

std::string named(const StockHeader& h) {
  char text[96];
  std::snprintf(text, sizeof text, "job_number %u, tsi %u, slot %u of set %u", h.job, tsi_of(h),
                h.pool_index.host() & kSlotMask, h.pool_index.host() >> 15);
  return text;
}

std::string first_difference(std::span<const std::byte> got, std::span<const std::byte> expected) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(got, expected).in1 - got.begin());
  char text[96];
  std::snprintf(text, sizeof text, "byte %zu of %zu is 0x%02x and should be 0x%02x", at, expected.size(),
                std::to_integer<unsigned>(got[at]), std::to_integer<unsigned>(expected[at]));
  return text;
}

}  // namespace

ReplyJudge::ReplyJudge(std::vector<StockAddresses> members, std::uint16_t payload)
    : members_(std::move(members)), payload_(payload), expected_(kHeads + payload) {}

ReplyJudge::Chunk* ReplyJudge::chunk_of(const StockHeader& h, bool make) {
  History& history = chunks_[h.pool_index.host()];
  const std::uint32_t tsi = tsi_of(h);
  for (Chunk& chunk : history)
    if (chunk.job == h.job && chunk.tsi == tsi) return &chunk;
  if (!make) return nullptr;
  if (!history.empty()) {
    const Chunk& newest = history.back();
    const auto ahead = static_cast<std::int8_t>(h.job - newest.job);
    if (ahead < 0 || (ahead == 0 && tsi < newest.tsi)) return nullptr;
  }
  history.push_back({.job = h.job, .tsi = tsi});
  history.back().sums.resize(payload_ / sizeof(std::uint32_t));
  history.back().ports.resize(members_.size());
  if (history.size() > kKept) history.pop_front();
  return &history.back();
}

void ReplyJudge::sent(std::size_t rank, std::span<const std::byte> frame) {
  const FrameHeads h = heads_of(frame);
  Chunk* const chunk = chunk_of(h.switchml, true);
  if (chunk == nullptr || (chunk->ranks >> rank & 1) != 0) return;
  chunk->ranks |= std::uint64_t{1} << rank;
  chunk->e0 = std::max(chunk->e0, h.switchml.e0);
  chunk->e1 = std::max(chunk->e1, h.switchml.e1);
  chunk->ports[rank] = h.udp.source.host();
  for (std::size_t i = 0; i < chunk->sums.size(); ++i) chunk->sums[i] += word_at(frame.subspan(kHeads), i);
}

void ReplyJudge::expect(std::size_t rank, const Chunk& chunk, std::uint16_t pool_index,
                        std::span<std::byte> out) const {
  const StockAddresses& member = members_[rank];
  FrameHeads h;
  h.ethernet = {member.mac, member.switch_mac, Be{kEtherIpv4}};
  h.ip.total_length = Be{static_cast<std::uint16_t>(out.size() - sizeof h.ethernet)};
  h.ip.source = member.switch_ipv4;
  h.ip.destination = member.ipv4;
  h.ip.checksum = Be{ipv4_checksum(h.ip)};
  h.udp.source = Be{kSwitchPort};
  h.udp.destination = Be{chunk.ports[rank]};
  h.udp.length = Be{static_cast<std::uint16_t>(out.size() - sizeof h.ethernet - sizeof h.ip)};
  h.switchml.type_size = static_cast<std::uint8_t>(kMessage | size_code(payload_));
  h.switchml.job = chunk.job;
  set_tsi(h.switchml, chunk.tsi);
  h.switchml.pool_index = Be{pool_index};
  h.switchml.e0 = chunk.e0;
  h.switchml.e1 = chunk.e1;
  set_heads(out, h);
  for (std::size_t i = 0; i < chunk.sums.size(); ++i) {
    const Be word{chunk.sums[i]};
    std::memcpy(out.data() + kHeads + i * sizeof word, &word, sizeof word);
  }
}

std::string ReplyJudge::judge(std::size_t rank, std::span<const std::byte> frame) {
  if (frame.size() != kHeads + payload_)
    return "a reply of " + std::to_string(frame.size()) + " bytes, not " + std::to_string(kHeads + payload_);
  const StockHeader h = heads_of(frame).switchml;
  const Chunk* const chunk = chunk_of(h, false);
  if (chunk == nullptr) return "a reply to " + named(h) + ", which nobody has sent lately";
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - members_.size());
  if (chunk->ranks != all) {
    const std::uint64_t missing = all & ~chunk->ranks;
    return "a reply to " + named(h) + ", which rank " + std::to_string(__builtin_ctzll(missing)) +
           " has not sent";
  }
  expect(rank, *chunk, h.pool_index.host(), expected_);
  if (std::ranges::equal(frame, expected_)) return {};
  return "the reply to " + named(h) + " for rank " + std::to_string(rank) + ": " +
         first_difference(frame, expected_);
}

}  // namespace tally::stock
