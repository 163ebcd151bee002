// Arbitrary and almost right datagrams, times and doings of the data cores into membership with three
// declared jobs: one running, one partly joined, one of two workers and two external servers of which three
// are there; and two sessions of SwitchML's clients that come and go, of which one often finds no room and
// sometimes has a member of the other. Every datagram changes one counter; a dropped one changes no job's
// status; next() comes to an end; JOINED(running) only tells what the cores have in force, and each secret
// only to its rank; rows never overlap, and lines are zeroed before they change hands.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "control_scene.h"
#include "fuzz_input.h"
#include "jobs/layout.h"
#include "tally/check.h"
#include "tally/mix64.h"

namespace tally {
namespace {

constexpr std::uint32_t kLines = 400;  // not enough for both jobs at their widest
constexpr std::uint32_t kJobs = 3;
constexpr std::array<const char*, kJobs> kNames{"one", "two", "served"};
constexpr std::array<std::uint16_t, kJobs> kWorkers{2, 3, 2};
constexpr std::uint8_t kServers = 2;  // of the last job
constexpr std::uint16_t kElements = 64;
constexpr std::uint16_t kWish = 32;  // of its members
constexpr const char* kToken = "t";
constexpr std::array<const char*, 2> kSessions{"legacy", "older"};
constexpr int kMostOperations = 200;
constexpr std::size_t kMostKept = 64;

std::uint64_t sum(const members::MembershipCounters& c) {
  return std::accumulate(c.drops.begin(), c.drops.end(), std::uint64_t{0}) +
         std::accumulate(c.accepted.begin(), c.accepted.end(), std::uint64_t{0});
}

// Drops that may follow from what the same JOIN did change: it shows that its process gave up its place.
bool may_change(const members::MembershipCounters& before, const members::MembershipCounters& after) {
  for (const auto d :
       {members::MembershipDrop::kAborted, members::MembershipDrop::kEnded, members::MembershipDrop::kWait}) {
    if (before.of(d) != after.of(d)) return true;
  }
  return false;
}

// Who was given a contribution cookie.
struct Told {
  Rank rank{};
  std::vector<jobs::Binding> at;
};

// Of a member whose packet was accepted.
const members::RankStatus& place_in(const members::JobStatus& job, Rank rank) {
  const std::uint32_t server = server_index(rank);
  return server < kMaxServers ? job.servers.at(server) : job.ranks.at(raw(rank));
}

// The worker or server that has this contribution cookie and sits there.
std::optional<Rank> owner_of(const jobs::NativeJob& row, Cookie cookie, const jobs::Binding& at) {
  for (std::uint16_t r = 0; r < row.world; ++r) {
    if (row.ranks.at(r).cookie == cookie && row.ranks.at(r).binding == at) return Rank{r};
  }
  for (std::uint32_t s = 0; s < row.servers; ++s) {
    const jobs::Member& m = row.server_ranks.at(s);
    if (m.cookie == cookie && m.binding == at) return server_rank(s);
  }
  return std::nullopt;
}

void check_apart(jobs::LineRange a, jobs::LineRange b) {
  TALLY_CHECK(a.count == 0 || b.count == 0 || a.first + a.count <= b.first || b.first + b.count <= a.first,
              "ranges do not overlap");
}

class Run {
 public:
  explicit Run(FuzzInput in);
  void run();

 private:
  static members::MembershipEngine make();
  void declare(std::uint32_t job);
  void declare_session(std::uint32_t session, std::uint8_t how);
  void operate();
  Bytes honest(Peer& p);
  void mutate(Bytes& datagram, const Peer* by = nullptr);
  void receive(const Bytes& datagram, const jobs::Binding& source);
  void check_accepted(std::span<const std::byte> datagram, const jobs::Binding& source,
                      const std::vector<members::JobStatus>& jobs) const;
  void cores(std::uint32_t how);
  void drain();
  void check_sent(const Header& h, std::span<const std::byte> payload, const jobs::Binding& to);
  void take(const Header& h, const JoinedPayload& p, const jobs::Binding& to);
  void take_challenge(std::span<const std::byte> payload, const jobs::Binding& to);
  void check_status();
  Peer& peer() { return peers_[in_.below(static_cast<std::uint32_t>(peers_.size()))]; }

  FuzzInput in_;
  members::MembershipEngine members_ = make();
  std::map<std::pair<JobId, Rank>, TimeNs> last_seen_;
  Cores cores_{kLines};
  std::vector<Peer> peers_;
  std::vector<std::pair<Bytes, jobs::Binding>> captured_;
  std::map<std::tuple<std::uint16_t, std::uint32_t, std::uint64_t>, Told> told_;  // by job, epoch, cookie
  std::set<std::pair<std::uint16_t, Tag>> challenges_;  // given, with the port of the other
  TimeNs now_ = 100 * kSecond;
};

members::MembershipEngine Run::make() {
  constexpr std::uint32_t kShared = 4;
  const members::MembershipOptions options{
      .box_mac = {2, 0, 0, 0, 0, 0xb0},
      .shards = 1,
      .slot_lines = kLines + static_cast<std::uint32_t>(jobs::shared_lines(kShared, kElements)),
      .shared_entries = kShared,
      .shared_elements = kElements};
  return {options, [state = std::uint64_t{9}]() mutable { return mix64(state += 0x9e3779b97f4a7c15ULL); }};
}

void Run::declare(std::uint32_t job) {
  members::NativeConfig config;
  config.name = kNames.at(job);
  config.token = kToken;
  config.workers = kWorkers.at(job);
  config.elements = kElements;
  config.window = 32;
  config.lease = 5 * kSecond;
  config.first_chunk = Chunk{0xFFFFFFFD};
  if (job + 1 == kJobs) {
    config.discipline = Discipline::kShared;
    config.server = ServerKind::kExternal;
    config.servers = kServers;
  }
  (void)members_.declare(config);  // fails when it is declared already
}

// how: bit 0: tsi opaque; bit 1: with the other's member, which is refused while that is declared; bit 2:
// more slots than there is room for beside the jobs.
void Run::declare_session(std::uint32_t session, std::uint8_t how) {
  members::SessionConfig config;
  config.name = kSessions.at(session);
  config.payload = 128;
  config.slots = (how & 4) != 0 ? 40U : 8U;
  config.tsi = (how & 1) != 0 ? jobs::TsiRule::kOpaque : jobs::TsiRule::kPacket;
  const auto host = static_cast<std::uint8_t>((how & 2) != 0 ? 1 : 1 + 2 * session);
  for (std::uint8_t r = 0; r < 2; ++r) {
    const auto address = static_cast<std::uint8_t>(host + r);
    config.members.push_back({r, {2, 0, 0, 0, 9, address}, {10, 0, 9, address}});
  }
  (void)members_.declare(config);
}

Run::Run(FuzzInput in) : in_(in) {
  members_.listen([this](JobId id, Rank rank) {
    const auto seen = last_seen_.find({id, rank});
    return seen == last_seen_.end() ? TimeNs{0} : seen->second;
  });
  for (std::uint32_t job = 0; job < kJobs; ++job) {
    declare(job);
    const std::uint16_t workers = kWorkers.at(job);
    const std::uint16_t servers = job + 1 == kJobs ? kServers : 0;
    for (std::uint16_t r = 0; r < workers + servers; ++r) {
      Peer p = r < workers ? Peer(r, workers) : Peer::server(r - workers);
      p.job = kNames.at(job);
      p.token = kToken;
      p.elements = kWish;
      p.instance = 1000U * (job + 1) + r;
      p.binding.address = mapped({10, 0, static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(r + 1)});
      p.binding.mac = {2, 0, 0, 0, static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(r)};
      p.binding.udp_port = 40'000;
      p.binding.port = PortIndex{r};
      peers_.push_back(p);
    }
  }
  declare_session(0, 0);
  Peer stranger(0);  // takes the session for a native job
  stranger.job = kSessions[0];
  stranger.token = kToken;
  stranger.elements = kWish;
  stranger.instance = 5'000;
  stranger.binding.address = mapped({10, 0, 9, 1});
  stranger.binding.udp_port = 40'000;
  peers_.push_back(stranger);
  for (const std::size_t i : {0U, 1U, 2U, 5U, 6U, 7U}) {
    receive(peers_[i].join(), peers_[i].binding);  // is challenged
    drain();
    const Bytes join = peers_[i].join();
    receive(join, peers_[i].binding);
    captured_.emplace_back(join, peers_[i].binding);
  }
  cores(0);
}

void Run::run() {
  for (int i = 0; i < kMostOperations && !in_.empty(); ++i) {
    operate();
    drain();
    check_status();
  }
}

void Run::operate() {
  const std::uint32_t what = in_.below(32);
  if (what < 18) {
    Peer& p = peer();
    Bytes datagram = honest(p);
    jobs::Binding source = p.binding;
    if (captured_.size() < kMostKept) captured_.emplace_back(datagram, source);
    if (what < 7) mutate(datagram, &p);
    if (what == 7) source.udp_port = static_cast<std::uint16_t>(source.udp_port + 1 + in_.byte());
    if (what == 8) source = peer().binding;
    return receive(datagram, source);
  }
  if (what < 20) {  // a replay, perhaps from elsewhere
    if (captured_.empty()) return;
    auto [datagram, source] = captured_[in_.half() % captured_.size()];
    if (what == 18) mutate(datagram);
    return receive(datagram, source);
  }
  if (what < 22) {
    const auto bytes = in_.take(in_.half() % 800);
    return receive({bytes.begin(), bytes.end()}, peer().binding);
  }
  if (what < 25) return cores(in_.byte());
  if (what < 28) {
    now_ += TimeNs{in_.half()} * (what == 27 ? kMillisecond : 20 * kMicrosecond);
    members_.tick(now_);
    TALLY_CHECK(members_.deadline() > now_, "deadline after tick");
    return;
  }
  if (what == 28) {
    Peer& p = peer();
    const std::uint8_t how = in_.byte();
    if ((how & 1) != 0) p.restart();
    if ((how & 2) != 0) p.binding.udp_port = static_cast<std::uint16_t>(40'000 + how);
    if ((how & 4) != 0) p.elements = (how & 0x40) != 0 ? 0 : static_cast<std::uint16_t>(16 + (how & 0x30));
    if ((how & 8) != 0) p.lowest = p.next += std::uint32_t{in_.half()} << 15;
    return;
  }
  if (what == 29) {
    const Peer& p = peer();
    if (in_.flip()) {
      const std::pair rank{JobId{in_.byte()}, Rank{in_.byte()}};
      TimeNs& seen = last_seen_[rank];
      seen = std::max(seen, now_ - in_.half());
      return;
    }
    const std::uint16_t elements = in_.half();
    return members_.report_mismatch(JobId{p.job_id}, Epoch{p.epoch}, Rank{p.rank}, in_.byte(), elements, 16,
                                    in_.byte(), 5, now_);
  }
  if (what == 30) {
    cores_.forget();
    return members_.restart_data_plane(now_);
  }
  const std::uint32_t job = in_.below(kJobs + kSessions.size());
  if (job >= kJobs) {
    if (in_.flip()) (void)members_.withdraw(kSessions.at(job - kJobs));
    return declare_session(job - kJobs, in_.byte());
  }
  if (in_.flip()) (void)members_.withdraw(kNames.at(job));
  declare(job);
}

Bytes Run::honest(Peer& p) {
  const auto text = [this] {
    const auto bytes = in_.take(in_.byte());
    return Bytes(bytes.begin(), bytes.end());
  };
  switch (in_.below(8)) {
    case 0:
      return p.packet(PacketType::kLeave);
    case 1:
      return p.packet(PacketType::kAbort, text());
    case 2:
      return p.packet(PacketType::kProbe, text());
    case 3:
    case 4:
      return p.heartbeat();
    default:
      return p.join();
  }
}

// by: who knows the token might do it, too.
void Run::mutate(Bytes& datagram, const Peer* by) {
  const std::uint8_t how = in_.byte();
  if ((how & 0x80) != 0) datagram.resize(datagram.size() + in_.byte() % 64);
  if ((how & 0x40) != 0)
    datagram.resize(datagram.size() - std::min<std::size_t>(datagram.size(), in_.byte()));
  for (std::uint32_t i = 0; i < (how & 3U) && !datagram.empty(); ++i) {
    const std::size_t at = in_.byte();
    datagram[at % datagram.size()] = std::byte{in_.byte()};
  }
  if ((how & 4) == 0) reseal(datagram);
  if ((how & 8) == 0 || by == nullptr || datagram.size() < kHeaderBytes) return;
  const PacketType type = header_of(datagram).type;
  const bool of_job = type == PacketType::kJoin || type == PacketType::kHeartbeat;
  retag(datagram, of_job ? by->job_key() : by->session_key());
}

void Run::receive(const Bytes& datagram, const jobs::Binding& source) {
  members_.tick(now_);  // what time does is done before the datagram comes
  drain();
  const members::MembershipCounters before = members_.counters();
  const auto jobs = members_.status(now_);
  // On the heap in its exact size.
  const auto copy = std::make_unique<std::byte[]>(datagram.size());
  if (!datagram.empty()) std::memcpy(copy.get(), datagram.data(), datagram.size());
  members_.receive({copy.get(), datagram.size()}, source, now_);
  const members::MembershipCounters& after = members_.counters();
  TALLY_CHECK(sum(after) == sum(before) + 1, "one counter");
  if (after.accepted == before.accepted && !may_change(before, after)) {
    TALLY_CHECK(members_.status(now_) == jobs, "a dropped packet changes no job");
  }
  if (after.accepted != before.accepted) check_accepted({copy.get(), datagram.size()}, source, jobs);
}

// Only who knows a token or was told a cookie is obeyed, and with a cookie only from where its rank is.
void Run::check_accepted(std::span<const std::byte> datagram, const jobs::Binding& source,
                         const std::vector<members::JobStatus>& jobs) const {
  const Header h = header_of(datagram);
  if (h.type == PacketType::kProbe) return;
  if (h.type == PacketType::kJoin) {
    JoinPayload p;
    std::memcpy(&p, datagram.data() + kHeaderBytes, sizeof p);
    TALLY_CHECK(datagram.size() == kHeaderBytes + sizeof p + p.name_bytes + kTagBytes, "a JOIN's length");
    const auto* const texts = reinterpret_cast<const char*>(datagram.data() + kHeaderBytes + sizeof p);
    const std::string_view name(texts, p.name_bytes);
    TALLY_CHECK(auth::verify(auth::job_key(name, kToken), h, datagram.subspan(kHeaderBytes)),
                "a JOIN's token");
    const bool gives_up = p.elements.host() == 0;
    TALLY_CHECK(gives_up || challenges_.contains({source.udp_port, p.challenge}),
                "a challenge that was given there");
    const auto job =
        std::find_if(jobs.begin(), jobs.end(), [&](const members::JobStatus& s) { return s.name == name; });
    TALLY_CHECK(job != jobs.end(), "a JOIN's job");
    const bool worker = job->world == p.world.host() && h.rank.host() < job->world;
    const bool server = p.world.host() == 0 && server_index(h.rank_id()) < job->servers.size();
    TALLY_CHECK(worker || server, "a JOIN's rank");
    return;
  }
  const auto told = told_.find({h.job.host(), h.epoch.host(), h.cookie.host()});
  TALLY_CHECK(told != told_.end() && told->second.rank == h.rank_id(), "the cookie of its rank");
  const auto& at = told->second.at;
  const auto job =
      std::find_if(jobs.begin(), jobs.end(), [&](const members::JobStatus& s) { return s.id == h.job_id(); });
  TALLY_CHECK(
      std::find(at.begin(), at.end(), source) != at.end() || place_in(*job, h.rank_id()).binding == source,
      "from where its rank is");
}

// The data cores take up what there is, or are slow about it.
void Run::cores(std::uint32_t how) {
  if (const auto publication = members_.publication()) cores_.load(*publication);
  if ((how & 1) == 0) TALLY_CHECK(!members_.publication(), "one publication says all");
  if (cores_.loading().empty() || (how & 6) == 6) return;
  const auto version = cores_.loading()[(how >> 3) % cores_.loading().size()];
  cores_.reached(version);
  members_.quiesced(version, now_);
  drain();
}

void Run::drain() {
  // No more than an ABORT and an answer per member of every job, whatever came.
  constexpr std::size_t kMost = 32;
  const auto out = std::make_unique<std::byte[]>(members::kMaxMembershipBytes);
  std::size_t count = 0;
  while (const auto sent = members_.next({out.get(), members::kMaxMembershipBytes})) {
    TALLY_CHECK(++count <= kMost, "next comes to an end");
    TALLY_CHECK(sent->bytes >= kHeaderBytes && sent->bytes <= members::kMaxMembershipBytes, "a datagram");
    const std::span<const std::byte> bytes(out.get(), sent->bytes);
    const Header h = header_of(bytes);
    Bytes right(bytes.begin(), bytes.end());
    reseal(right);
    TALLY_CHECK(std::equal(right.begin(), right.end(), bytes.begin()), "sealed");
    TALLY_CHECK(h.rank_id() == kSwitchRank, "in the name of the box");
    check_sent(h, bytes.subspan(kHeaderBytes), sent->to);
  }
}

void Run::check_sent(const Header& h, std::span<const std::byte> payload, const jobs::Binding& to) {
  if (h.type != PacketType::kJoined) {
    TALLY_CHECK(h.type == PacketType::kAbort || h.type == PacketType::kLeave ||
                    h.type == PacketType::kProbe || h.type == PacketType::kHeartbeat ||
                    h.type == PacketType::kReject || h.type == PacketType::kChallenge,
                "a type the box sends");
    if (h.type == PacketType::kChallenge) return take_challenge(payload, to);
    const bool answers = h.slot.host() == static_cast<std::uint32_t>(RejectReason::kJob);
    TALLY_CHECK(h.type != PacketType::kReject || !answers || h.cookie.host() == 0,
                "who is not known is told no secret");
    TALLY_CHECK(
        h.type != PacketType::kAbort || payload.size() <= sizeof(CountedPayload) + kMaxTextBytes + kTagBytes,
        "an ABORT's text");
    return;
  }
  JoinedPayload p;
  TALLY_CHECK(payload.size() >= sizeof p, "JOINED");
  std::memcpy(&p, payload.data(), sizeof p);
  TALLY_CHECK(payload.size() == sizeof p + p.text_bytes.host() + (h.version == kWireVersion ? kTagBytes : 0),
              "JOINED's text");
  if (p.status != JoinStatus::kRunning) {
    TALLY_CHECK(h.cookie.host() == 0 && p.cookie.host() == 0, "only JOINED(running) carries secrets");
    return;
  }
  const jobs::Row in_force = cores_.in_force(h.job_id());
  const auto* const row = jobs::row_as<jobs::NativeJob>(in_force);
  TALLY_CHECK(row != nullptr && row->epoch == h.epoch_id(), "the members are told what is in force");
  TALLY_CHECK(raw(row->result_cookie) == h.cookie.host(), "the result cookie in force");
  TALLY_CHECK(raw(row->generation) == p.record.generation.host() &&
                  row->elements == p.record.elements.host() && row->window == p.window.host() &&
                  row->world == p.world.host(),
              "the row in force");
  const auto rank = owner_of(*row, Cookie{p.cookie.host()}, to);
  TALLY_CHECK(rank.has_value(), "a secret for its rank");
  Told& told = told_[{h.job.host(), h.epoch.host(), p.cookie.host()}];
  told.rank = *rank;
  told.at.push_back(to);
  take(h, p, to);
}

void Run::take(const Header& h, const JoinedPayload& p, const jobs::Binding& to) {
  for (Peer& peer : peers_) {
    if (peer.binding != to || peer.nonce != p.nonce.host()) continue;
    peer.job_id = h.job.host();
    peer.epoch = h.epoch.host();
    peer.cookie = p.cookie.host();
    peer.result_cookie = h.cookie.host();
    if (peer.last != p.record && peer.world != 0) peer.lowest = peer.next = p.record.first_chunk.host();
    peer.last = p.record;
  }
}

void Run::take_challenge(std::span<const std::byte> payload, const jobs::Binding& to) {
  TALLY_CHECK(payload.size() == sizeof(ChallengePayload), "CHALLENGE");
  const auto said = wire_at<ChallengePayload>(payload.data());
  challenges_.insert({to.udp_port, said.challenge});
  for (Peer& peer : peers_) {
    if (peer.binding == to && peer.nonce == said.nonce.host()) peer.challenge = said.challenge;
  }
}

void Run::check_status() {
  const auto jobs = members_.status(now_);
  TALLY_CHECK(jobs.size() <= kJobs + kSessions.size(), "no more jobs than were declared");
  for (const members::JobStatus& s : jobs) {
    const std::uint64_t everyone = members_of(s.world);
    TALLY_CHECK(s.ranks.size() == s.world, "one status per rank");
    TALLY_CHECK((s.missing & ~everyone) == 0 && (s.live & ~everyone) == 0, "ranks of the job");
    TALLY_CHECK(s.servers.size() == (s.name == kNames.back() ? kServers : 0), "one status per server");
    TALLY_CHECK((s.missing_servers >> s.servers.size()) == 0, "servers of the job");
    TALLY_CHECK((s.missing == 0 && s.missing_servers == 0) || s.phase == members::JobPhase::kForming,
                "nobody is missing unless forming");
    TALLY_CHECK((s.missing & s.live) == 0, "missing ranks are not live");
    TALLY_CHECK(s.slots.first + s.slots.count <= kLines, "lines exist");
    if (s.session && s.phase == members::JobPhase::kRunning) {
      const jobs::Row row = cores_.in_force(s.id);
      const auto* const session = jobs::row_as<jobs::SessionJob>(row);
      TALLY_CHECK(session != nullptr && session->epoch == s.epoch, "a session that runs is in force");
    }
    const auto copy = members_.status(s.id, now_);
    TALLY_CHECK(copy && *copy == s, "the status of one job");
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) check_apart(jobs[i].slots, jobs[k].slots);
  }
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::Run(tally::FuzzInput(data, size)).run();
  return 0;
}
