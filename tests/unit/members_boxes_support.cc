#include "members_boxes_support.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tally/mix64.h"

namespace tally::members_test {
namespace {

template <class Fixed>
Bytes body_of(const Fixed& fixed, const std::string& name, std::span<const std::byte> rest = {}) {
  Bytes body(sizeof fixed);
  std::memcpy(body.data(), &fixed, sizeof fixed);
  const Bytes text = bytes_of(name);
  body.insert(body.end(), text.begin(), text.end());
  body.insert(body.end(), rest.begin(), rest.end());
  return body;
}

}  // namespace

Ipv6 box_address(std::size_t box) { return mapped({10, 9, 0, static_cast<std::uint8_t>(box + 1)}); }

BoxIndex Member::index_of(std::size_t box) const {
  const auto at = std::find(plan->boxes.begin(), plan->boxes.end(), box_address(box));
  return at == plan->boxes.end() ? PlannedText::kNoBox : static_cast<BoxIndex>(at - plan->boxes.begin());
}

EnlistPayload Member::enlist_payload(std::size_t box) const {
  const Seat& seat = seats.at(box);
  EnlistPayload p;
  p.instance = Be<std::uint64_t>(instance);
  p.nonce = Be<std::uint64_t>(seat.nonce);
  p.attempt = Be<std::uint32_t>(seat.attempt);
  p.window = Be<std::uint32_t>(window);
  p.result_cookie = Be<std::uint64_t>(result_cookie);
  p.record = last;
  p.world = Be<std::uint16_t>(static_cast<std::uint16_t>(plan->world()));
  p.lease_ms = Be<std::uint32_t>(lease_ms);
  p.plan = planned.plan;
  p.plan_bytes = planned.bytes;
  p.box = index_of(box);
  p.max_priority = priority;
  p.name_bytes = static_cast<std::uint8_t>(job.size());
  p.challenge = seat.challenge;
  return p;
}

Bytes Member::enlist(std::size_t box) {
  Seat& seat = seats[box];
  ++seat.attempt;
  seat.nonce = mix64(instance + 1'000 * box + seat.attempt);
  return enlist_again(box);
}

Bytes Member::enlist_again(std::size_t box) const { return enlist_as(enlist_payload(box)); }

Bytes Member::enlist_as(const EnlistPayload& payload) const {
  Header h;
  h.type = PacketType::kEnlist;
  h.rank = Be<std::uint16_t>(rank);
  h.epoch = Be<std::uint32_t>(epoch);
  h.cookie = Be<std::uint64_t>(cookie);
  return tagged(h, body_of(payload, job), job_key());
}

Bytes Member::page_as(const PlanPayload& fixed, std::span<const std::byte> page) const {
  Header h;
  h.type = PacketType::kPlan;
  h.rank = Be<std::uint16_t>(rank);
  return tagged(h, body_of(fixed, job, page), job_key());
}

Bytes Member::wish(std::uint32_t page) const {
  return page_as({.plan = planned.plan,
                  .bytes = planned.bytes,
                  .page = static_cast<std::uint8_t>(page),
                  .name_bytes = static_cast<std::uint8_t>(job.size())},
                 {});
}

Bytes Member::page(std::uint32_t page) const {
  const auto first = page * kPlanPageBytes;
  const auto content =
      std::span(plan_bytes).subspan(first, std::min(kPlanPageBytes, plan_bytes.size() - first));
  PlanPayload fixed{.plan = planned.plan,
                    .bytes = planned.bytes,
                    .page = static_cast<std::uint8_t>(page),
                    .name_bytes = static_cast<std::uint8_t>(job.size())};
  fixed.page_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(content.size()));
  return page_as(fixed, content);
}

Bytes Member::said_to(std::size_t box, PacketType type) {
  Header h;
  h.type = type;
  h.job = Be<std::uint16_t>(seats[box].job_id);
  h.rank = Be<std::uint16_t>(rank);
  h.epoch = Be<std::uint32_t>(epoch);
  h.cookie = Be<std::uint64_t>(cookie);
  const bool beats = type == PacketType::kHeartbeat;
  if (beats) h.contributors = Be{instance};
  return tagged(h, body_of(CountedPayload{Be{++seats[box].sent}}, beats ? job : std::string()),
                beats ? job_key() : key_of(box));
}

Bytes Member::beat(std::size_t box) { return said_to(box, PacketType::kHeartbeat); }
Bytes Member::leave_box(std::size_t box) { return said_to(box, PacketType::kLeave); }

Bytes Member::lost(std::uint64_t gone, std::uint64_t forgot) const {
  Header h;
  h.type = PacketType::kLost;
  h.job = Be<std::uint16_t>(job_id);
  h.rank = Be<std::uint16_t>(rank);
  h.epoch = Be<std::uint32_t>(epoch);
  h.cookie = Be<std::uint64_t>(cookie);
  LostPayload said;
  said.counter = Be<std::uint64_t>(++counter);
  said.gone = Be<std::uint64_t>(gone);
  said.forgot = Be<std::uint64_t>(forgot);
  return tagged(h, body_of(said, {}), session_key());
}

void Member::take_home(const std::vector<Sent>& sent) {
  const std::uint32_t before = epoch;
  Bench::take(*this, sent);
  for (const Sent& s : sent) {
    if (s.type() != PacketType::kJoined || s.to != binding) continue;
    const JoinedPayload p = s.joined();
    if (p.status != JoinStatus::kRunning || p.nonce.host() != nonce) continue;
    window = p.window.host();
    lease_ms = p.lease_ms.host();
    priority = s.header.priority;
    if ((s.header.flags & kFlagPlanned) != 0) planned = wire_at<PlannedText>(s.payload.data() + sizeof p);
  }
  if (epoch == before) return;
  plan.reset();
  plan_bytes.clear();
  for (auto& [box, seat] : seats) seat.running = false;
}

bool Member::take_box(std::size_t box, const std::vector<Sent>& sent) {
  Seat& seat = seats[box];
  for (const Sent& s : sent) {
    if (s.to != binding) continue;
    if (s.type() == PacketType::kChallenge) {
      const auto said = wire_at<ChallengePayload>(s.payload.data());
      if (said.nonce.host() == seat.nonce) seat.challenge = said.challenge;
      continue;
    }
    if (s.type() != PacketType::kJoined || !auth::verify(job_key(), s.header, s.payload)) continue;
    const JoinedPayload p = s.joined();
    if (p.nonce.host() != seat.nonce) continue;
    if (p.status == JoinStatus::kForming) seat.missing = p.missing.host();
    if (p.status != JoinStatus::kRunning || s.header.epoch.host() != epoch) continue;
    seat.job_id = s.header.job.host();
    seat.running = true;
    seat.missing = 0;
  }
  return seat.running;
}

Boxes::Boxes(std::size_t count, std::uint16_t workers_in, std::uint8_t servers_in,
             const members::MembershipOptions& others)
    : workers(workers_in), servers(servers_in) {
  for (std::size_t box = 0; box < count; ++box) {
    members::MembershipOptions options = box == 0 ? shared_box(65'536, 100) : others;
    options.plans = [this](const members::PlanRequest& request) {
      asked.push_back(request);
      return source(request);
    };
    boxes.emplace_back(options, 1 + 100 * box);
  }
  for (std::size_t box = 0; box < count; ++box) {
    // Ids that are not the same everywhere, as those of real boxes are not.
    for (std::size_t other = 0; other < box; ++other) {
      boxes[box].declare(config_of(1, "other" + std::to_string(other)));
    }
    ids.push_back(boxes[box].declare(config(box)));
  }
  for (std::uint16_t r = 0; r < workers; ++r) all.emplace_back(Peer(r, workers));
  for (std::uint32_t s = 0; s < servers; ++s) all.emplace_back(Peer::server(s));
}

members::NativeConfig Boxes::config(std::size_t here, std::size_t home) const {
  members::NativeConfig c = served_of(workers, servers);
  c.boxes.emplace();
  for (std::size_t box = 0; box < boxes.size(); ++box) c.boxes->addresses.push_back(box_address(box));
  c.boxes->here = static_cast<BoxIndex>(here);
  c.boxes->home = static_cast<BoxIndex>(home);
  return c;
}

bool Boxes::fetch(Member& member) {
  member.plan_bytes.clear();
  for (std::uint32_t page = 0; page < plan_pages(member.planned.bytes.host()); ++page) {
    for (const Sent& s : home().send_bare(member, member.wish(page))) {
      if (s.type() != PacketType::kPlan || s.to != member.binding) continue;
      EXPECT_TRUE(auth::verify(member.job_key(), s.header, s.payload));
      const auto fixed = wire_at<PlanPayload>(s.payload.data());
      EXPECT_EQ(fixed.page, page);
      const auto content =
          std::span(s.payload).subspan(sizeof fixed + fixed.name_bytes, fixed.page_bytes.host());
      EXPECT_EQ(s.payload.size(), sizeof fixed + fixed.name_bytes + content.size() + kTagBytes);
      member.plan_bytes.insert(member.plan_bytes.end(), content.begin(), content.end());
    }
  }
  if (auth::plan_id(member.plan_bytes) != member.planned.plan) return false;
  member.plan = read_plan(member.plan_bytes);
  return member.plan.has_value();
}

bool Boxes::form() {
  std::vector<Sent> sent;
  for (Member& m : all) {
    const auto some = home().send(m, m.join());
    sent.insert(sent.end(), some.begin(), some.end());
  }
  bool good = true;
  for (Member& m : all) {
    const std::uint32_t before = m.epoch;
    m.take_home(sent);
    good = good && m.epoch != before && fetch(m);
  }
  return good;
}

std::vector<Sent> Boxes::enlist(Member& member, std::size_t box) {
  auto sent = boxes[box].send_bare(member, member.enlist(box));
  if (count_of(sent, PacketType::kChallenge, member) != 0) {
    member.take_box(box, sent);
    sent = boxes[box].send_bare(member, member.enlist(box));
  }
  member.take_box(box, sent);
  return sent;
}

std::vector<Sent> Boxes::bring_pages(Member& member, std::size_t box) {
  std::vector<Sent> sent;
  for (std::uint64_t missing = member.seats[box].missing; missing != 0; missing &= missing - 1) {
    const auto page = static_cast<std::uint32_t>(std::countr_zero(missing));
    const auto some = boxes[box].send_bare(member, member.page(page));
    sent.insert(sent.end(), some.begin(), some.end());
  }
  for (Member& m : all) m.take_box(box, sent);
  return sent;
}

bool Boxes::enlist_all(std::size_t box) {
  const auto take = [&](const std::vector<Sent>& sent) {
    for (Member& m : all) m.take_box(box, sent);
  };
  for (auto m = all.rbegin(); m != all.rend(); ++m) {
    take(enlist(*m, box));
    take(bring_pages(*m, box));
  }
  return std::all_of(all.begin(), all.end(), [&](Member& m) { return m.seats[box].running; });
}

std::vector<Sent> Boxes::pass(TimeNs time, const Member* silent, std::optional<std::size_t> silent_at) {
  std::vector<Sent> sent;
  const auto keep = [&sent](const std::vector<Sent>& some) {
    sent.insert(sent.end(), some.begin(), some.end());
  };
  for (TimeNs passed = 0; passed < time; passed += kSecond) {
    for (std::size_t box = 0; box < boxes.size(); ++box) {
      for (Member& m : all) {
        const bool quiet = &m == silent && silent_at.value_or(box) == box;
        if (quiet || m.epoch == 0) continue;
        if (box == home_) keep(home().send_bare(m, m.heartbeat()));
        if (box != home_ && m.seats[box].running) keep(boxes[box].send_bare(m, m.beat(box)));
      }
    }
    for (Bench& bench : boxes) keep(bench.advance(std::min(kSecond, time - passed)));
  }
  return sent;
}

}  // namespace tally::members_test
