#include "round_plan.h"

#include <algorithm>

#include "hot_workers.h"
#include "kv/frame.h"
#include "kv/slicing.h"

namespace tally::rounds {
namespace {

constexpr std::uint32_t kSegmentBytes = 1'448;        // of a connection with timestamps, MTU 1500
constexpr std::uint32_t kAround = 14 + 20 + 32 + 24;  // Ethernet, IPv4, TCP; FCS, preamble and gap

}  // namespace

std::uint32_t Push::bytes(std::uint32_t width) const {
  return static_cast<std::uint32_t>(kv::kFrameHeaderBytes) + pairs * (8 + 4 * width);
}

Segments segments_of(std::uint32_t bytes) {
  const std::uint32_t count = std::max(1U, (bytes + kSegmentBytes - 1) / kSegmentBytes);
  return {count, static_cast<double>(bytes) / count + kAround};
}

float value_of(std::uint32_t worker, std::uint32_t id, std::uint32_t j) {
  return static_cast<float>(1 + ((id * 7 + worker * 13 + j) & 63));
}

RoundPlan::RoundPlan(const Conditions& conditions, const hot::KeySet& set)
    : conditions_(conditions),
      set_(set),
      costs_(serving(conditions.load.exponent, conditions.width)),
      batches_(conditions.load, conditions.seed) {}

std::size_t RoundPlan::server_of(hot::Key key) const {
  const std::uint64_t each = kv::kMaxKey / conditions_.servers;
  return std::min<std::size_t>(key / each, conditions_.servers - 1);
}

Round RoundPlan::next() {
  const std::uint32_t width = conditions_.width;
  Round round{.ranks = std::vector<std::uint8_t>(set_.size()),
              .sums = std::vector<float>(set_.size() * width)};
  for (std::uint32_t w = 0; w < conditions_.load.workers; ++w) {
    Share share{.cold = std::vector<Push>(conditions_.servers)};
    for (const std::uint32_t k : batches_.draw()) {
      const hot::Key key = bench::key_of(k);
      round.traffic.pushed += 1;
      if (const auto id = set_.id_of(key)) {
        share.ids.push_back(*id);
        continue;
      }
      Push& push = share.cold[server_of(key)];
      ++push.pairs;
      push.serve_ns += k < kFrequent ? costs_.near_ns : costs_.far_ns;
      round.traffic.cold += 1;
    }
    std::sort(share.ids.begin(), share.ids.end());
    for (const std::uint32_t id : share.ids) {
      ++round.ranks[id];
      for (std::uint32_t j = 0; j < width; ++j) round.sums[id * width + j] += value_of(w, id, j);
    }
    round.workers.push_back(std::move(share));
  }
  for (const std::uint8_t ranks : round.ranks) round.traffic.merged += ranks != 0 ? 1 : 0;
  if (conditions_.written_back) write_back(round);
  return round;
}

void RoundPlan::write_back(Round& round) const {
  for (Share& share : round.workers) share.back.resize(conditions_.servers);
  for (std::uint32_t id = 0; id < set_.size(); ++id) {
    if (round.ranks[id] == 0) continue;
    Push& push = round.workers[id % round.workers.size()].back[server_of(set_.keys()[id])];
    ++push.pairs;
    push.serve_ns += costs_.near_ns;
  }
}

}  // namespace tally::rounds
