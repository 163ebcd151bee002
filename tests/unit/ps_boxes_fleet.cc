#include "ps_boxes_fleet.h"

#include <algorithm>
#include <cstring>

#include "box_says.h"

namespace tally::psbed {
namespace {

// A control packet with another header, under the same key.
Bytes said_again(const Header& header, const Bytes& datagram, const auth::Key& key) {
  const auto payload = std::span(datagram).subspan(kHeaderBytes);
  return box_says(header, payload.first(payload.size() - kTagBytes), key);
}

template <class Payload>
Payload payload_as(const Bytes& datagram) {
  Payload p;
  std::memcpy(&p, datagram.data() + kHeaderBytes, sizeof p);
  return p;
}

std::string text_at(const Bytes& datagram, std::size_t payload, std::size_t bytes) {
  return {reinterpret_cast<const char*>(datagram.data() + kHeaderBytes + payload), bytes};
}

}  // namespace

Bytes PlannedJob::joined(std::uint64_t nonce) const {
  PlannedText text;
  text.plan = auth::plan_id(bytes());
  text.bytes = Be{static_cast<std::uint32_t>(bytes().size())};
  text.home = home;
  const Bytes plain = box_joined(at_home_box().membership(), JoinStatus::kRunning, nonce, job.job_key(), 0,
                                 std::as_bytes(std::span(&text, 1)));
  Header header = header_of(plain);
  header.flags |= kFlagPlanned;
  return said_again(header, plain, job.job_key());
}

Bytes PlannedJob::elsewhere(std::uint64_t nonce) const {
  const Ipv6 home_is = at_home();
  return box_joined(job.membership(), JoinStatus::kElsewhere, nonce, job.job_key(), 0,
                    std::as_bytes(std::span(home_is)));
}

Bytes PlannedJob::page(std::uint8_t number) const {
  const auto all = bytes();
  const std::size_t first = number * kPlanPageBytes;
  const auto content = std::span(all).subspan(first, std::min(kPlanPageBytes, all.size() - first));
  PlanPayload said;
  said.plan = auth::plan_id(all);
  said.bytes = Be{static_cast<std::uint32_t>(all.size())};
  said.page = number;
  said.name_bytes = static_cast<std::uint8_t>(job.name.size());
  said.page_bytes = Be{static_cast<std::uint16_t>(content.size())};
  std::vector<std::byte> body(sizeof said);
  wire_put(body.data(), said);
  std::ranges::copy(std::as_bytes(std::span(job.name)), std::back_inserter(body));
  std::ranges::copy(content, std::back_inserter(body));
  Header header;
  header.type = PacketType::kPlan;
  header.rank = Be{raw(kSwitchRank)};
  return box_says(header, body, job.job_key());
}

engine::Membership PlannedJob::guest_session(BoxIndex box) const {
  engine::Membership m = at(box).membership();
  m.session = auth::box_session_key(job.membership().session, box);
  return m;
}

Bytes PlannedJob::enlisted(BoxIndex box, std::uint64_t nonce) const {
  return box_joined(at(box).membership(), JoinStatus::kRunning, nonce, job.job_key());
}

Bytes PlannedJob::lacks(BoxIndex box, std::uint64_t nonce, std::uint64_t pages) const {
  return box_joined(at(box).membership(), JoinStatus::kForming, nonce, job.job_key(), pages);
}

Bytes PlannedJob::refuses(BoxIndex box, std::uint64_t nonce, const std::string& why) const {
  return box_joined(at(box).membership(), JoinStatus::kRefused, nonce, job.job_key(), 0,
                    testbed::text_bytes(why));
}

Bytes PlannedJob::echo(BoxIndex box) const {
  return box_tells(guest_session(box), at(box).from_box(PacketType::kHeartbeat));
}

Bytes PlannedJob::forgot(BoxIndex box, std::uint64_t counter) const {
  Header header = at(box).from_box(PacketType::kReject);
  header.slot = Be{static_cast<std::uint32_t>(RejectReason::kJob)};
  header.cookie = {};
  std::vector<std::byte> body(sizeof(CountedPayload));
  wire_put(body.data(), CountedPayload{Be{counter}});
  return box_says(header, body, job.job_key());
}

Bytes PlannedJob::ends(BoxIndex box, const std::string& why) const {
  return box_tells(guest_session(box), at(box).from_box(PacketType::kAbort), testbed::text_bytes(why));
}

EnlistPayload enlist_payload(const Bytes& enlist) {
  EXPECT_EQ(header_of(enlist).type, PacketType::kEnlist);
  const auto p = payload_as<EnlistPayload>(enlist);
  EXPECT_EQ(enlist.size(), kHeaderBytes + sizeof p + p.name_bytes + kTagBytes);
  return p;
}

LostPayload lost_payload(const Bytes& lost) {
  EXPECT_EQ(header_of(lost).type, PacketType::kLost);
  EXPECT_EQ(lost.size(), kHeaderBytes + sizeof(LostPayload) + kTagBytes);
  return payload_as<LostPayload>(lost);
}

std::string job_of_enlist(const Bytes& enlist) {
  return text_at(enlist, sizeof(EnlistPayload), enlist_payload(enlist).name_bytes);
}

std::uint64_t counter_of(const Bytes& counted) { return payload_as<CountedPayload>(counted).counter.host(); }

Fleet::Fleet(std::vector<PlannedJob> all, std::vector<Ipv6> boxes, std::size_t states)
    : jobs(std::move(all)) {
  std::vector<BoxJob> plain;
  for (const PlannedJob& job : jobs) plain.push_back(job.job);
  ps::PsOptions options = options_of(plain, states, 32);
  options.boxes = boxes.empty() ? std::vector{jobs[0].at_home()} : std::move(boxes);
  server = std::move(*ps::PsEngine::create(options, kernels::best_kernels()));
}

std::vector<FleetOut> Fleet::drain() {
  std::vector<FleetOut> all;
  for (;;) {
    FleetOut out;
    out.bytes.resize(server->max_datagram_bytes());
    ps::PsDestination to;
    const std::size_t bytes = server->transmit(out.bytes, now, to);
    if (bytes == 0) break;
    out.bytes.resize(bytes);
    out.box = to.box;
    out.port = to.port;
    EXPECT_TRUE(!is_control(out.type()) || out.port == kBasePort);
    all.push_back(std::move(out));
  }
  EXPECT_GT(server->deadline(), now);
  return all;
}

std::vector<FleetOut> Fleet::quiet() {
  auto all = drain();
  std::erase_if(all, [](const FleetOut& out) { return out.type() == PacketType::kHeartbeat; });
  return all;
}

void Fleet::answer(const FleetOut& out) {
  if (silent.count(out.box) != 0) return;
  const Header h = out.header();
  if (h.type == PacketType::kEnlist) return answer_enlist(out);
  for (const PlannedJob& job : jobs) {
    const bool home = out.box == job.at_home();
    if (h.type == PacketType::kJoin) {
      const JoinPayload p = join_payload(out.bytes);
      if (text_at(out.bytes, sizeof p, p.name_bytes) != job.job.name) continue;
      return hear(out.box, home ? job.joined(p.nonce.host()) : job.elsewhere(p.nonce.host()));
    }
    if (h.type == PacketType::kPlan && home) {
      const auto p = payload_as<PlanPayload>(out.bytes);
      if (p.page_bytes.host() != 0 || text_at(out.bytes, sizeof p, p.name_bytes) != job.job.name) continue;
      return hear(out.box, job.page(p.page));
    }
    if (h.type != PacketType::kHeartbeat || h.epoch.host() != job.job.epoch) continue;
    for (BoxIndex box = 0; box < job.plan.boxes.size(); ++box) {
      if (job.plan.boxes[box] != out.box || h.job.host() != job.at(box).id) continue;
      return hear(out.box, box == job.home ? job.at(box).echo() : job.echo(box));
    }
    if (home && h.job.host() == job.job.id) return hear(out.box, job.job.echo());
  }
}

void Fleet::answer_enlist(const FleetOut& out) {
  for (const PlannedJob& job : jobs) {
    const EnlistPayload p = enlist_payload(out.bytes);
    if (job_of_enlist(out.bytes) != job.job.name || out.header().epoch.host() != job.job.epoch) continue;
    ASSERT_LT(p.box, job.plan.boxes.size());
    EXPECT_EQ(job.plan.boxes[p.box], out.box) << "each box is told which it is";
    return hear(out.box, job.enlisted(p.box, p.nonce.host()));
  }
}

std::vector<FleetOut> Fleet::settle() {
  std::vector<FleetOut> all;
  for (int turn = 0; turn < 1'000; ++turn) {
    const auto said = drain();
    if (said.empty()) return all;
    for (const FleetOut& out : said) answer(out);
    all.insert(all.end(), said.begin(), said.end());
  }
  ADD_FAILURE() << "they never end";
  return all;
}

std::vector<FleetOut> Fleet::live(TimeNs time) {
  std::vector<FleetOut> all;
  const TimeNs end = now + time;
  while (server->deadline() < end) {
    now = std::max(now, server->deadline());
    for (FleetOut& out : settle()) all.push_back(std::move(out));
  }
  now = end;
  return all;
}

void Fleet::expect_refused(const Ipv6& from, const Bytes& datagram, Refused why) {
  ps::PsRefused before = server->refused();
  hear(from, datagram);
  ++before[static_cast<std::size_t>(why)];
  EXPECT_EQ(server->refused(), before) << name_of(why);
}

std::vector<std::string> Fleet::events() {
  std::vector<std::string> all;
  while (auto event = server->next_event()) all.push_back(event->text);
  return all;
}

}  // namespace tally::psbed
