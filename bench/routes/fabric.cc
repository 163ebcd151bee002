#include "fabric.h"

#include <algorithm>

#include "packets.h"
#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::routes {

double wire_bits(const Bytes& frame) {
  const Header header = header_of(std::span{frame}.subspan(experiment::kOuterBytes));
  const std::size_t small = frame.size() + experiment::kFramingBytes;
  const bool full = !is_control(header.type) && frame.size() > experiment::kOuterBytes + kHeaderBytes;
  return 8 * static_cast<double>(full ? std::size_t{experiment::kFullPacketBytes} : small);
}

Fabric::Fabric(sim::Schedule& time, const planner::Topology& topology, planner::Ways& ways,
               const planner::Spread& spread, const Options& options)
    : time_(time),
      topology_(topology),
      ways_(ways),
      spread_(spread),
      options_(options),
      rates_(topology.rates()),
      free_(rates_.size()),
      uses_(rates_.size()) {}

std::uint32_t Fabric::take() {
  if (unused_.empty()) {
    packets_.emplace_back();
    return static_cast<std::uint32_t>(packets_.size() - 1);
  }
  const std::uint32_t packet = unused_.back();
  unused_.pop_back();
  return packet;
}

// back: the ways of from -> to are those on which packets of to -> from go, the other way round.
const planner::Way& Fabric::way_between(const End& from, const End& to, bool back) {
  const std::vector<planner::Way>& ways = ways_.between(from.at, to.at);
  TALLY_CHECK(!ways.empty(), "a way leads to everybody");
  if (ways.size() == 1) return ways.front();
  if (options_.spreading == Spreading::kByFlow) {
    const auto name = [](const End& end) {
      return std::uint64_t{end.number} << 2 | static_cast<std::uint64_t>(end.kind);
    };
    const std::uint64_t flow = name(from) << 32 | name(to);
    return ways[mix64(flow) % ways.size()];
  }
  const bool server = to.kind == End::Kind::kServer;
  const std::uint64_t ends = std::uint64_t{from.at} << 32 | std::uint64_t{server} << 31 | to.index;
  Turns& turns = turns_[{ends, back}];
  if (turns.shares.empty()) {
    const auto* const chosen =
        server ? spread_.to_server(from.at, to.index) : spread_.to_box(from.at, to.index);
    for (std::size_t w = 0; w < ways.size(); ++w)
      turns.shares.push_back(chosen != nullptr ? (*chosen)[w] : ways[w].share);
    turns.credits.resize(ways.size());
  }
  for (std::size_t w = 0; w < ways.size(); ++w) turns.credits[w] += turns.shares[w];
  const auto first = std::max_element(turns.credits.begin(), turns.credits.end());
  *first -= 1;
  return ways[static_cast<std::size_t>(first - turns.credits.begin())];
}

TimeNs Fabric::send(const End& from, const End& to, Bytes frame, bool sums) {
  const double bits = wire_bits(frame);
  // Towards servers go contributions, away from them results. Ways are planned for the former.
  const bool back = from.kind == End::Kind::kServer || to.kind == End::Kind::kWorker;
  const planner::Way& way = back ? way_between(to, from, true) : way_between(from, to, false);
  const std::uint32_t id = take();
  Packet& packet = packets_[id];
  packet.frame = std::move(frame);
  packet.way.clear();
  packet.next = 0;
  packet.bits = bits;
  packet.sums = sums;
  packet.from = &from;
  if (options_.spreading == Spreading::kInOrder) packet.sequence = orders_[{&from, &to}].sent++;
  packet.to = &to;
  if (back && options_.results == planner::Results::kIgnored) {
    time_.at(time_.now() + options_.hop * (way.links.size() + 2), *this, 0, id);
    return 0;
  }
  if (from.up != kNone) packet.way.push_back(topology_.link(from.up));
  if (back) {
    for (auto link = way.links.rbegin(); link != way.links.rend(); ++link)
      packet.way.push_back(topology_.link(topology_.links()[*link].reverse));
  } else {
    for (const Index link : way.links) packet.way.push_back(topology_.link(link));
  }
  if (to.down != kNone) packet.way.push_back(topology_.link(to.down));
  if (to.kind == End::Kind::kServer) packet.way.push_back(topology_.server(to.index));
  if (to.kind == End::Kind::kBox) packet.way.push_back(topology_.box(to.index));
  const bool has_card = from.up != kNone;
  go_on(id);
  return has_card ? static_cast<TimeNs>(free_[topology_.link(from.up)]) : 0;
}

void Fabric::go_on(std::uint32_t id) {
  Packet& packet = packets_[id];
  if (packet.next == packet.way.size()) {
    Bytes frame = std::move(packet.frame);
    const End& to = *packet.to;
    const End& from = *packet.from;
    const std::uint64_t sequence = packet.sequence;
    unused_.push_back(id);
    if (options_.spreading != Spreading::kInOrder) return arrive_(to, frame);
    return put_in_order(from, to, sequence, std::move(frame));
  }
  const planner::Resource at = packet.way[packet.next++];
  const auto now = static_cast<double>(time_.now());
  const double start = std::max(now, free_[at]);
  uses_[at].waited = std::max(uses_[at].waited, start - now);
  const bool free = packet.to->kind == End::Kind::kBox && packet.next == packet.way.size() && !packet.sums;
  const double bits = free ? 0 : packet.bits;
  uses_[at].bits += bits;
  free_[at] = start + bits / rates_[at];
  time_.at(static_cast<TimeNs>(free_[at]) + options_.hop, *this, 0, id);
}

void Fabric::put_in_order(const End& from, const End& to, std::uint64_t sequence, Bytes frame) {
  Order& order = orders_[{&from, &to}];
  order.early.emplace(sequence, std::move(frame));
  while (!order.early.empty() && order.early.begin()->first == order.arrived) {
    const Bytes next = std::move(order.early.begin()->second);
    order.early.erase(order.early.begin());
    ++order.arrived;
    arrive_(to, next);
  }
}

void Fabric::on_event(std::uint32_t /*what*/, std::uint32_t packet) { go_on(packet); }

}  // namespace tally::routes
