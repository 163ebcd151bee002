#include "session_model.h"

#include <algorithm>
#include <utility>

#include "pipeline/decision.h"
#include "pipeline/session_pool.h"
#include "tally/check.h"

namespace tally::models {
namespace {

constexpr std::uint32_t kEpoch = 0x1000'0001;
constexpr std::uint8_t kBits = 8;

}  // namespace

SessionModel::SessionModel(SessionCase c) : case_(std::move(c)) {
  TALLY_CHECK(case_.members <= kMembers && case_.window <= kSlots && case_.operations.size() <= kOperations,
              "the model's state has room for it");
  std::uint8_t first = 0;
  for (const auto& operation : case_.operations) {
    first_.push_back(first);
    first = static_cast<std::uint8_t>(first + operation.packets);
  }
  job_.world = case_.members;
  job_.members = all(case_.members);
  job_.tsi = case_.tsi;
}

const char* SessionModel::broken(const State& s) const {
  return s.wrong != 0 ? "a member takes a wrong sum" : nullptr;
}

bool SessionModel::reached(const State& s) const {
  for (std::size_t r = 0; r < case_.members; ++r)
    if (s.clients[r].operation < case_.operations.size()) return false;
  return true;
}

SessionModel::Place SessionModel::place_of(const Packet& packet) const {
  const unsigned use = (first_[packet.operation] + packet.place_of) % (2U * case_.window);
  return {use % case_.window, use / case_.window};
}

std::uint8_t SessionModel::value_of(const State& s, std::uint8_t operation, std::uint8_t tsi) {
  return static_cast<std::uint8_t>(1 + s.life * 64 + operation * 12 + tsi);
}

bool SessionModel::may_send(const Client& client, std::uint8_t packet) const {
  const auto& operation = case_.operations[client.operation];
  if (packet >= operation.packets || has(client.answered, packet)) return false;
  return packet < operation.batch || has(client.answered, packet - operation.batch);
}

bool SessionModel::fills(const State& s, const Packet& packet) const {
  const Place at = place_of(packet);
  const Slot& slot = s.slots[at.slot];
  const std::uint8_t in = slot.contributors[at.set];
  const bool complete = case_.tsi == jobs::TsiRule::kOpaque ? has(slot.chunk[0], static_cast<int>(at.set))
                                                            : in == all(case_.members);
  return has(in, packet.rank) && !complete;
}

// One packet through the product's rules.
SessionModel::Outcome SessionModel::take(State& s, const Packet& packet) const {
  const Place at = place_of(packet);
  Slot& slot = s.slots[at.slot];
  jobs::SessionJob job = job_;
  job.epoch = Epoch{kEpoch + s.epoch};
  const auto number = static_cast<std::uint8_t>(case_.first_number + packet.operation);
  pipeline::SessionRun run;
  if (s.newest != 0) static_cast<void>(run.operation(job.epoch, static_cast<std::uint8_t>(s.newest)));
  if (s.vouched != 0) run.complete(s.newest);
  const std::uint32_t operation = run.operation(job.epoch, number);
  if (s.newest == 0) s.newest = static_cast<std::uint16_t>(operation);
  pipeline::Contribution p{.chunk = Chunk{packet.tsi}, .epoch = job.epoch, .bit = bit(packet.rank)};
  const pipeline::SessionPacket header{
      .set = static_cast<std::uint32_t>(at.set), .operation = operation, .job_number = number};

  pipeline::Decision decision;
  if (case_.tsi == jobs::TsiRule::kPacket) {
    const std::uint32_t tag = (kEpoch + slot.epoch[at.set]) << kBits;
    pipeline::Head head{slot.used[at.set] != 0 ? tag : 0, slot.chunk[at.set], slot.contributors[at.set]};
    std::uint32_t its = slot.operation[at.set];
    decision = pipeline::PacketSession::decide(head, its, p, header, run, job);
    slot.used[at.set] = head.tag != 0 ? 1 : 0;
    slot.epoch[at.set] = static_cast<std::uint8_t>((head.tag >> kBits) - (kEpoch & 0xFF'FFFF));
    if (head.tag == 0) slot.epoch[at.set] = 0;
    slot.chunk[at.set] = static_cast<std::uint8_t>(head.chunk);
    slot.contributors[at.set] = static_cast<std::uint8_t>(head.contributors);
    slot.operation[at.set] = static_cast<std::uint16_t>(its);
  } else {
    const std::uint64_t both = slot.contributors[0] | std::uint64_t{slot.contributors[1]} << 32;
    const std::uint32_t tag = (kEpoch + slot.epoch[0]) << 2U;
    pipeline::Head head{0, slot.used[0] != 0 ? tag | slot.chunk[0] : 0, both};
    decision = pipeline::OpaqueSession::decide(head, p, header, job);
    slot.used[0] = 1;
    slot.epoch[0] = s.epoch;
    slot.chunk[0] = static_cast<std::uint8_t>(head.chunk & 3U);
    slot.contributors = {static_cast<std::uint8_t>(head.contributors),
                         static_cast<std::uint8_t>(head.contributors >> 32)};
  }
  auto& values = slot.values[at.set];
  if (decision.op == pipeline::Op::kWrite) values = {};
  if (decision.op == pipeline::Op::kWrite || decision.op == pipeline::Op::kAdd ||
      decision.op == pipeline::Op::kAddEmit) {
    std::uint8_t& value = values[packet.rank];
    value = value != 0 ? kTwice : value_of(s, packet.operation, packet.tsi);
  }
  const bool complete = decision.op == pipeline::Op::kAddEmit;
  if (complete) {
    run.complete(operation);
    s.newest = static_cast<std::uint16_t>(std::max<std::uint32_t>(s.newest, operation));
    if (s.vouched == 0) s.newest = static_cast<std::uint16_t>(operation);
    s.vouched = 1;
  }
  return {complete, decision.op == pipeline::Op::kRead};
}

void SessionModel::receive(State& s, std::uint8_t rank, std::uint8_t packet) const {
  Client& c = s.clients[rank];
  c.answered |= bit(packet);
  c.coming &= static_cast<std::uint8_t>(~bit(packet));
  if (c.answered != all(case_.operations[c.operation].packets)) return;
  c = {.operation = static_cast<std::uint8_t>(c.operation + 1)};
}

// The result that the request's place has now, under the request's name.
void SessionModel::send_result(State& s, const Packet& request, std::uint8_t to, bool at_once) const {
  const Client& c = s.clients[to];
  const bool wanted = c.operation == request.operation &&
                      request.tsi < case_.operations[request.operation].packets &&
                      !has(c.answered, request.tsi);
  if (!wanted) return;
  const Place at = place_of(request);
  for (std::uint8_t r = 0; r < case_.members; ++r)
    if (s.slots[at.slot].values[at.set][r] != value_of(s, request.operation, request.tsi)) s.wrong = 1;
  if (at_once) return receive(s, to, request.tsi);
  s.clients[to].coming |= bit(request.tsi);
}

void SessionModel::arrive(State& s, const Packet& packet, bool at_once) const {
  const Outcome outcome = take(s, packet);
  if (!outcome.complete && !outcome.repeat) return;
  if (case_.loses) {
    if (packet.tsi < case_.operations[packet.operation].packets)
      s.results[packet.operation] |= bit(packet.tsi);
    // Those of the others are lost, or come late (list_member).
    for (std::uint8_t to = 0; to < case_.members; ++to) {
      State seen = s;
      send_result(seen, packet, to, true);
      s.wrong |= seen.wrong;
    }
    if (at_once) send_result(s, packet, packet.rank, true);
    return;
  }
  for (std::uint8_t to = 0; to < case_.members; ++to)
    if (outcome.complete || to == packet.rank) send_result(s, packet, to, false);
}

void SessionModel::list_member(const State& s, std::uint8_t rank, std::vector<Next>& all) const {
  const Client& c = s.clients[rank];
  for (std::uint8_t packet = 0; packet < case_.operations[c.operation].packets; ++packet) {
    const bool before_it = packet > 0 && packet < case_.operations[c.operation].batch;
    const bool in_order = !before_it || has(c.sent, packet - 1);
    if (may_send(c, packet) && in_order && (case_.loses || !has(c.sent, packet))) {
      Next next{s, true};
      next.state.clients[rank].sent |= bit(packet);
      arrive(next.state, {rank, c.operation, packet, packet}, true);
      all.push_back(next);
      if (case_.loses) {
        all.push_back({s, false});  // lost on its way
        all.back().state.clients[rank].sent |= bit(packet);
        all.push_back({s, false});  // the reply is lost
        all.back().state.clients[rank].sent |= bit(packet);
        arrive(all.back().state, {rank, c.operation, packet, packet}, false);
      }
    }
    const bool late =
        case_.loses && has(s.results[c.operation], packet) && !has(c.answered, packet) && has(c.sent, packet);
    if (has(c.coming, packet) || late) {
      all.push_back({s, !case_.loses});
      receive(all.back().state, rank, packet);
    }
  }
}

void SessionModel::list_published_timers(const State& s, std::uint8_t rank, std::vector<Next>& all) const {
  const Client& c = s.clients[rank];
  const std::size_t last = std::min<std::size_t>(c.operation, case_.operations.size() - 1);
  for (std::size_t o = case_.old_timers ? 0 : last; o <= last; ++o) {
    const auto operation = static_cast<std::uint8_t>(o);
    for (std::uint8_t packet = 0; packet < case_.operations[o].batch; ++packet) {
      const bool old = operation < c.operation;
      if (!old && !has(c.sent, packet)) continue;
      const Packet timer{rank, operation, static_cast<std::uint8_t>(packet + 1), packet};
      if (!case_.timers_behind_the_result && !fills(s, timer)) continue;
      all.push_back({s, false});
      arrive(all.back().state, timer, false);
    }
  }
}

void SessionModel::list_replays(const State& s, std::uint8_t rank, std::vector<Next>& all) const {
  const Client& c = s.clients[rank];
  for (std::uint8_t operation = 0; operation <= c.operation && operation < case_.operations.size();
       ++operation) {
    for (std::uint8_t packet = 0; packet < case_.operations[operation].packets; ++packet) {
      if (operation == c.operation && !has(c.sent, packet)) continue;
      all.push_back({s, false});
      arrive(all.back().state, {rank, operation, packet, packet}, false);
    }
  }
}

void SessionModel::list(const State& s, std::vector<Next>& all) const {
  for (std::uint8_t rank = 0; rank < case_.members; ++rank) {
    if (s.clients[rank].operation < case_.operations.size()) list_member(s, rank, all);
    if (case_.timers_one_too_high) list_published_timers(s, rank, all);
    if (case_.replays) list_replays(s, rank, all);
  }
  if (s.life == case_.starts_again) return;
  State again = s;
  ++again.life;
  again.clients = {};
  again.results = {};
  if (case_.reset) {
    ++again.epoch;
    again.newest = 0;
    again.vouched = 0;
  }
  all.push_back({again, false});
}

}  // namespace tally::models
