#include "members_support.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

std::uint32_t crc(const Bytes& b) {
  return b.empty() ? 0 : kernels::best_kernels().crc32c(b.data(), b.size());
}

members::RandomWords words(std::uint64_t seed) {
  return [state = seed]() mutable { return mix64(state += 0x9e3779b97f4a7c15ULL); };
}

}  // namespace

JoinedPayload Sent::joined() const {
  JoinedPayload p;
  EXPECT_EQ(header.type, PacketType::kJoined);
  EXPECT_GE(payload.size(), sizeof p);
  if (payload.size() >= sizeof p) std::memcpy(&p, payload.data(), sizeof p);
  return p;
}

std::string Sent::text() const {
  const std::size_t skip =
      header.type == PacketType::kJoined ? sizeof(JoinedPayload) : sizeof(CountedPayload);
  return {reinterpret_cast<const char*>(payload.data()) + skip, payload.size() - skip - kTagBytes};
}

Bench::Bench(std::uint32_t slot_lines, std::uint8_t shards, std::uint64_t seed_in)
    : Bench({.box_mac = {2, 1, 2, 3, 4, 5}, .shards = shards, .slot_lines = slot_lines}, seed_in) {}

Bench::Bench(const members::MembershipOptions& options_in, std::uint64_t seed_in)
    : options(options_in), seed(seed_in) {
  forget_everything();
}

void Bench::forget_everything() {
  members.emplace(options, words(seed++));
  members->listen([this](JobId id, Rank rank) {
    const auto seen = last_seen.find({id, rank});
    return seen == last_seen.end() ? TimeNs{0} : seen->second;
  });
  challenges.clear();
  for (const auto& job : jobs) EXPECT_TRUE(members->declare(job));
  version = 0;
  table = nullptr;
}

JobId Bench::declare(const members::NativeConfig& config) {
  jobs.push_back(config);
  const auto id = members->declare(config);
  EXPECT_TRUE(id) << (id ? "" : id.error().text());
  return id.value_or(JobId{});
}

std::vector<Sent> Bench::answers() {
  std::vector<Sent> all;
  Bytes out(members::kMaxMembershipBytes);
  while (const auto outgoing = members->next(out)) {
    if (wire_at<Header>(out.data()).rank_id() != kSwitchRank) {
      const auto last = out.begin() + static_cast<std::ptrdiff_t>(outgoing->bytes);
      upwards.push_back({Bytes(out.begin(), last), outgoing->to, outgoing->everywhere});
      continue;
    }
    Sent s;
    s.to = outgoing->to;
    EXPECT_GE(outgoing->bytes, kHeaderBytes);
    std::memcpy(&s.header, out.data(), kHeaderBytes);
    const auto end = out.begin() + static_cast<std::ptrdiff_t>(outgoing->bytes);
    s.payload.assign(out.begin() + kHeaderBytes, end);
    EXPECT_TRUE(s.header.version == kWireVersion || s.header.type == PacketType::kJoined);
    EXPECT_EQ(s.header.rank_id(), kSwitchRank);
    EXPECT_EQ(s.header.sum1.host(), crc(s.payload));
    EXPECT_EQ(s.header.check.host(), kernels::best_kernels().crc32c(out.data(), kCheckedBytes));
    all.push_back(std::move(s));
  }
  return all;
}

std::vector<Sent> Bench::settle() {
  while (auto p = members->publication()) {
    EXPECT_GT(p->version, version);
    version = p->version;
    table = p->table;
    freed.insert(freed.end(), p->freed.begin(), p->freed.end());
    if (!cores_wait) members->quiesced(version, now);
  }
  return answers();
}

std::vector<Sent> Bench::send_bare(const Peer& from, const Bytes& datagram) {
  members->receive(datagram, from.binding, now);
  return settle();
}

Bytes with_challenge(const Peer& from, const Bytes& datagram,
                     const std::map<std::uint64_t, Tag>& challenges) {
  if (datagram.size() < kHeaderBytes + sizeof(JoinPayload) + kTagBytes) return datagram;
  const auto header = wire_at<Header>(datagram.data());
  const Bytes payload(datagram.begin() + kHeaderBytes, datagram.end());
  // What is wrong in other ways stays as it is.
  if (header.type != PacketType::kJoin || header.version != kWireVersion ||
      sealed(header, payload) != datagram)
    return datagram;
  const auto known = challenges.find(wire_at<JoinPayload>(payload.data()).instance.host());
  Bytes body(payload.begin(), payload.end() - kTagBytes);
  wire_put(body.data() + offsetof(JoinPayload, challenge), known == challenges.end() ? Tag{} : known->second);
  const bool honest = auth::verify(from.job_key(), header, payload);
  return tagged(header, body, honest ? from.job_key() : auth::Key{});
}

void Bench::challenge(Peer& of) {
  challenges.erase(of.instance);
  members->receive(of.join(), of.binding, now);
  challenges[of.instance] =
      wire_at<ChallengePayload>(only(answers(), PacketType::kChallenge, of).payload.data()).challenge;
}

std::vector<Sent> Bench::send(const Peer& from, const Bytes& datagram) {
  auto sent = send_bare(from, with_challenge(from, datagram));
  for (const Sent& s : sent) {
    if (s.type() != PacketType::kChallenge || s.to != from.binding) continue;
    const auto join = wire_at<JoinPayload>(datagram.data() + kHeaderBytes);
    challenges[join.instance.host()] = wire_at<ChallengePayload>(s.payload.data()).challenge;
    return send_bare(from, with_challenge(from, datagram));
  }
  return sent;
}

std::vector<Sent> Bench::advance(TimeNs by) {
  std::vector<Sent> all;
  const TimeNs end = now + by;
  while (true) {
    now = std::min(end, std::max(now, members->deadline()));
    members->tick(now);
    EXPECT_GT(members->deadline(), now);
    const auto some = settle();
    all.insert(all.end(), some.begin(), some.end());
    if (now == end) return all;
  }
}

void Bench::take(Peer& peer, const std::vector<Sent>& sent) {
  for (const auto& s : sent) {
    if (s.type() != PacketType::kJoined || s.to != peer.binding) continue;
    const JoinedPayload p = s.joined();
    if (p.status != JoinStatus::kRunning || p.nonce.host() != peer.nonce) continue;
    peer.job_id = s.header.job.host();
    peer.epoch = s.header.epoch.host();
    peer.result_cookie = s.header.cookie.host();
    peer.cookie = p.cookie.host();
    const bool server = server_index(Rank{peer.rank}) < kMaxServers;
    if (peer.last != p.record && !server) peer.lowest = peer.next = p.record.first_chunk.host();
    peer.last = p.record;
  }
}

bool Bench::form(const std::vector<Peer*>& peers) {
  std::vector<Sent> all;
  for (Peer* p : peers) {
    const auto some = send(*p, p->join());
    all.insert(all.end(), some.begin(), some.end());
  }
  bool running = true;
  for (Peer* p : peers) {
    const std::uint32_t before = p->epoch;
    take(*p, all);
    running = running && p->epoch != before;
  }
  return running;
}

bool Bench::form(std::vector<Peer>& peers) {
  std::vector<Peer*> all;
  all.reserve(peers.size());
  for (auto& p : peers) all.push_back(&p);
  return form(all);
}

members::NativeConfig config_of(std::uint16_t workers, const std::string& name) {
  members::NativeConfig c;
  c.name = name;
  c.token = "secret";
  c.workers = workers;
  c.priority = members::kMaxPriority;
  return c;
}

members::NativeConfig sharer_of(std::uint16_t workers, Discipline discipline, const std::string& name) {
  members::NativeConfig c = config_of(workers, name);
  c.discipline = discipline;
  c.server = ServerKind::kEmbedded;
  return c;
}

members::NativeConfig served_of(std::uint16_t workers, std::uint8_t servers, const std::string& name) {
  members::NativeConfig c = sharer_of(workers, Discipline::kShared, name);
  c.server = ServerKind::kExternal;
  c.servers = servers;
  return c;
}

members::MembershipOptions shared_box(std::uint32_t own_lines, std::uint32_t entries, std::uint8_t shards,
                                      std::uint16_t elements) {
  const auto shared = static_cast<std::uint32_t>(jobs::shared_lines(entries, elements));
  return {.box_mac = {2, 1, 2, 3, 4, 5},
          .shards = shards,
          .slot_lines = own_lines + shared,
          .shared_entries = entries,
          .shared_elements = elements};
}

std::size_t count_of(const std::vector<Sent>& sent, PacketType type, const Peer& to) {
  std::size_t n = 0;
  for (const auto& s : sent) n += s.type() == type && s.to == to.binding ? 1 : 0;
  return n;
}

Sent only(const std::vector<Sent>& sent, PacketType type, const Peer& to) {
  EXPECT_EQ(count_of(sent, type, to), 1U) << "packets of type " << int(type) << " to rank " << to.rank;
  for (const auto& s : sent) {
    if (s.type() == type && s.to == to.binding) return s;
  }
  return {};
}

}  // namespace tally::members_test
