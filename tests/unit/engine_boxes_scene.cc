#include "engine_boxes_scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "box_says.h"
#include "engine/plan_pages.h"
#include "kernels/kernels.h"

namespace tally::testbed {
namespace {

std::span<const std::byte> payload_at(const Bytes& datagram) {
  return std::span(datagram).subspan(kHeaderBytes);
}

void expect_tag(const auth::Key& key, const Bytes& datagram) {
  const Header h = header_of(datagram);
  EXPECT_EQ(h.sum1.host(),
            kernels::best_kernels().crc32c(datagram.data() + kHeaderBytes, datagram.size() - kHeaderBytes));
  EXPECT_TRUE(auth::verify(key, h, payload_at(datagram))) << "type " << static_cast<int>(h.type);
}

Plan bare_plan(std::size_t boxes, std::uint16_t world) {
  Plan plan;
  for (std::size_t b = 0; b < boxes; ++b) plan.boxes.push_back(address_of_box(b));
  plan.server_count = 2;
  plan.tables.resize(world);
  for (std::uint16_t r = 0; r < world; ++r) plan.table_of.push_back(static_cast<std::uint8_t>(r));
  for (std::uint32_t g = 0; g < kPlanGroups; ++g) plan.servers[g] = static_cast<std::uint8_t>(g % 2);
  return plan;
}

}  // namespace

Ipv6 address_of_box(std::size_t box) { return mapped({10, 0, 1, static_cast<std::uint8_t>(box + 1)}); }

Plan random_plan(std::size_t boxes, std::uint16_t world, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Plan plan = bare_plan(boxes, world);
  for (RouteTable& table : plan.tables)
    for (Route& route : table) route = {static_cast<BoxIndex>(random() % boxes), random() % 8 == 0};
  return plan;
}

Plan even_plan(std::size_t boxes, std::uint16_t world) {
  Plan plan = bare_plan(boxes, world);
  for (RouteTable& table : plan.tables)
    for (std::uint32_t g = 0; g < kPlanGroups; ++g) table[g] = {static_cast<BoxIndex>(g % boxes), false};
  return plan;
}

JobShape planned_shape(std::uint16_t world, std::uint32_t window) {
  JobShape shape;
  shape.world = world;
  shape.window = shape.largest_window = shape.lookahead = window;
  shape.discipline = Discipline::kShared;
  shape.shared_slots = 4096;
  return shape;
}

BoxesScene::BoxesScene(const JobShape& shape, Plan of, std::size_t spare_boxes) : sum(shape) {
  sum.in_order = false;
  boxes.resize(of.boxes.size() + spare_boxes);
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    boxes[b].job = static_cast<std::uint16_t>(7 + 10 * b);
    boxes[b].shards = static_cast<std::uint8_t>(b % 3 + 1);
  }
  boxes[kHome].shards = shape.shards;
  set_plan(std::move(of));
  for (std::uint16_t r = 0; r < shape.world; ++r) {
    engine::EngineOptions options = options_of(shape, r);
    options.boxes = {address_of_box(kHome)};
    engines.push_back(std::move(*engine::WorkerEngine::create(options, kernels::best_kernels())));
  }
  values_.resize(shape.world);
}

void BoxesScene::set_plan(Plan to) {
  plan = std::move(to);
  plan_written = write_plan(plan);
  plan_name = auth::plan_id(plan_written);
}

void BoxesScene::change_plan(Plan to) {
  std::vector<Bytes> calls;
  for (std::uint16_t r = 0; r < sum.shape.world; ++r) calls.push_back(sum.call_back(r));
  sum.restart();
  set_plan(std::move(to));
  for (std::uint16_t r = 0; r < sum.shape.world; ++r) say(home, r, calls[r]);
}

bool BoxesScene::run_until(const std::function<bool()>& done, TimeNs limit) {
  const TimeNs end = now + limit;
  for (step(); !done(); step()) {
    TimeNs next = flying_.empty() ? kNever : flying_.begin()->first;
    for (const auto& engine : engines) next = std::min(next, engine->deadline());
    if (next > end) {
      now = end;
      return false;
    }
    now = std::max(now, next);
    while (!flying_.empty() && flying_.begin()->first <= now) {
      const Flying flying = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      arrive(flying);
    }
  }
  return true;
}

bool BoxesScene::run_until_running() {
  return run_until([&] {
    return std::all_of(engines.begin(), engines.end(),
                       [](const auto& e) { return e->state() == engine::EngineState::kRunning; });
  });
}

bool BoxesScene::known_everywhere(std::uint16_t rank) const {
  const engine::WorkerEngine& engine = *engines[rank];
  for (std::size_t b = 1; b < engine.boxes().size(); ++b)
    if (!engine.guest(b).running()) return false;
  return true;
}

bool BoxesScene::run_until_enlisted() {
  return run_until_running() && run_until([&] {
           for (std::uint16_t r = 0; r < sum.shape.world; ++r)
             if (!known_everywhere(r)) return false;
           return true;
         });
}

engine::OperationId BoxesScene::submit(std::size_t rank, std::size_t chunks) {
  auto& mine = values_[rank].emplace_back(chunks * sum.shape.elements, static_cast<std::int32_t>(rank + 1));
  return *engines[rank]->allreduce(std::span<std::int32_t>(mine), now);
}

bool BoxesScene::reduce(std::size_t chunks, TimeNs limit) {
  engine::OperationId id{};
  for (std::size_t r = 0; r < engines.size(); ++r) id = submit(r, chunks);
  const bool done = run_until(
      [&] {
        for (std::size_t r = 0; r < engines.size(); ++r)
          if (!completed.contains({r, id})) return false;
        return true;
      },
      limit);
  if (!done) return false;
  for (std::size_t r = 0; r < engines.size(); ++r) {
    if (const auto& result = completed.at({r, id}); !result) {
      ADD_FAILURE() << result.error().what;
      return false;
    }
  }
  return sums_are_right();
}

bool BoxesScene::sums_are_right() const {
  const auto world = static_cast<std::int32_t>(sum.shape.world);
  return std::all_of(values_.begin(), values_.end(), [world](const auto& of_rank) {
    const auto& sums = of_rank.back();
    return std::all_of(sums.begin(), sums.end(),
                       [world](std::int32_t v) { return v == world * (world + 1) / 2; });
  });
}

void BoxesScene::send(const Flying& flying) {
  if (lose && lose(flying.to_box, flying.box, flying.rank, header_of(flying.bytes))) {
    lost_some_ = true;
    return;
  }
  for (unsigned n = copies ? copies() : 1; n != 0; --n)
    flying_.emplace(now + latency + (delay ? delay() : 0), flying);
}

void BoxesScene::say(std::size_t box, std::uint16_t rank, Bytes bytes) {
  if (!boxes[box].silent) send({false, box, rank, 0, std::move(bytes)});
}

void BoxesScene::deliver(std::size_t box, std::uint16_t rank, const Bytes& bytes) {
  const auto list = engines[rank]->boxes();
  const auto at = std::find(list.begin(), list.end(), address_of_box(box));
  if (at == list.end()) return;  // no transport hands it up
  engines[rank]->receive(bytes, now, static_cast<std::size_t>(at - list.begin()));
}

void BoxesScene::step() {
  for (std::uint16_t r = 0; r < sum.shape.world; ++r) {
    engine::WorkerEngine& engine = *engines[r];
    Bytes room;
    std::size_t sent = 0;
    for (;;) {
      room.resize(engine.max_datagram_bytes());
      engine::Destination to;
      const std::size_t n = engine.transmit(room, now, to);
      if (n == 0) break;
      ASSERT_LT(to.box, engine.boxes().size());
      const Ipv6 address = engine.boxes()[to.box];
      const std::size_t box = static_cast<std::size_t>(address.back()) - 1;
      ASSERT_LT(box, boxes.size());
      send({true, box, r, to.port, Bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(n))});
      ASSERT_LT(++sent, 100'000U) << "the engine never stops sending";
    }
    EXPECT_GT(engine.deadline(), now) << "rank " << r << " would be asked again at once";
    while (auto c = engine.next_completion())
      completed.insert_or_assign(std::pair{std::size_t{r}, c->id}, std::move(c->result));
  }
}

void BoxesScene::arrive(const Flying& flying) {
  if (!flying.to_box) return deliver(flying.box, flying.rank, flying.bytes);
  ScriptedBox& box = boxes[flying.box];
  const Header h = header_of(flying.bytes);
  if (watch) watch(flying.box, h, flying.bytes, now);
  if (box.silent) return;
  ++box.heard[h.type];
  EXPECT_EQ(h.rank.host(), flying.rank);
  if (!is_control(h.type)) return data(flying.box, flying.port, flying.bytes);
  EXPECT_EQ(flying.port, kBasePort) << "control is shard 0's";
  const bool at_home = flying.box == home;
  if (h.type == PacketType::kJoin || (at_home && h.type != PacketType::kEnlist))
    control_of_home(flying.box, flying.bytes);
  else
    control_of_guest(flying.box, flying.bytes);
}

void BoxesScene::say_all(std::size_t box, const std::vector<Sent>& all) {
  for (const Sent& each : all) say(box, each.rank, planned(each.bytes));
}

// The ideal box knows no plan: what JOINED(running) has of it.
Bytes BoxesScene::planned(const Bytes& said) const {
  Header h = header_of(said);
  if (h.type != PacketType::kJoined) return said;
  auto fixed = wire_at<JoinedPayload>(said.data() + kHeaderBytes);
  if (fixed.status != JoinStatus::kRunning || plan.boxes.empty()) return said;
  PlannedText text{plan_name, Be{static_cast<std::uint32_t>(plan_written.size())}, PlannedText::kNoBox, {}};
  if (plan_index(home) < plan.boxes.size()) text.home = static_cast<std::uint8_t>(plan_index(home));
  fixed.text_bytes = Be{static_cast<std::uint16_t>(sizeof text)};
  fixed.shards = boxes[home].shards;
  Bytes body(sizeof fixed + sizeof text);
  wire_put(body.data(), fixed);
  wire_put(body.data() + sizeof fixed, text);
  h.flags |= kFlagPlanned;
  return box_says(h, body, Box::job_key());
}

std::size_t BoxesScene::plan_index(std::size_t box) const {
  return static_cast<std::size_t>(std::find(plan.boxes.begin(), plan.boxes.end(), address_of_box(box)) -
                                  plan.boxes.begin());
}

Bytes BoxesScene::refused(std::size_t box, std::uint16_t rank, std::uint64_t nonce, const Bytes& text,
                          JoinStatus status, bool proven) const {
  engine::Membership m = sum.epoch_of(rank);
  m.job = JobId{boxes[box].job};
  const Bytes right = box_joined(m, status, nonce, Box::job_key(), 0, text);
  if (proven) return right;
  Bytes payload = payload_of(right);
  std::fill(payload.end() - kTagBytes, payload.end(), std::byte{});
  return sealed(header_of(right), payload);
}

void BoxesScene::control_of_home(std::size_t at, const Bytes& bytes) {
  const Header h = header_of(bytes);
  const ScriptedBox& box = boxes[at];
  if (h.type == PacketType::kJoin) {
    const std::uint64_t nonce = wire_at<JoinPayload>(bytes.data() + kHeaderBytes).nonce.host();
    if (box.elsewhere) {
      const auto to = std::as_bytes(std::span(*box.elsewhere));
      return say(
          at, h.rank.host(),
          refused(at, h.rank.host(), nonce, Bytes(to.begin(), to.end()), JoinStatus::kElsewhere, true));
    }
    if (box.unknown || at != home)
      return say(
          at, h.rank.host(),
          refused(at, h.rank.host(), nonce, text_bytes("no job of that name"), JoinStatus::kRefused, false));
  }
  if (h.type == PacketType::kPlan) return give_page(bytes);
  if (h.type == PacketType::kLost) return take_lost(bytes);
  say_all(at, sum.receive(bytes, kBasePort));
}

void BoxesScene::give_page(const Bytes& bytes) {
  const Header h = header_of(bytes);
  expect_tag(Box::job_key(), bytes);
  const auto asked = wire_at<PlanPayload>(bytes.data() + kHeaderBytes);
  if (asked.plan != plan_name) return;  // of an epoch that is over
  EXPECT_EQ(asked.page_bytes.host(), 0);
  const std::size_t from = asked.page * kPlanPageBytes;
  ASSERT_LT(from, plan_written.size());
  const auto page =
      std::span(plan_written).subspan(from, std::min(kPlanPageBytes, plan_written.size() - from));
  PlanPayload said = asked;
  said.page_bytes = Be{static_cast<std::uint16_t>(page.size())};
  Bytes body(sizeof said);
  wire_put(body.data(), said);
  const Bytes name = text_bytes("test");
  body.insert(body.end(), name.begin(), name.end());
  body.insert(body.end(), page.begin(), page.end());
  Header header;
  header.type = PacketType::kPlan;
  header.rank = Be{raw(kSwitchRank)};
  say(home, h.rank.host(), box_says(header, body, Box::job_key()));
}

void BoxesScene::take_lost(const Bytes& bytes) {
  const Header h = header_of(bytes);
  if (h.epoch.host() != sum.epoch || !sum.running()) return;
  const std::uint16_t rank = h.rank.host();
  expect_tag(sum.epoch_of(rank).session, bytes);
  EXPECT_EQ(bytes.size(), kHeaderBytes + sizeof(LostPayload) + kTagBytes);
  EXPECT_EQ(h.job.host(), sum.job);
  EXPECT_EQ(h.cookie.host(), sum.cookie_of(rank));
  const auto said = wire_at<LostPayload>(bytes.data() + kHeaderBytes);
  sum.counters[rank] = std::max(sum.counters[rank], said.counter.host());
  lost[rank] = said;
  ++losts;
}

void BoxesScene::control_of_guest(std::size_t at, const Bytes& bytes) {
  ScriptedBox& box = boxes[at];
  const Header h = header_of(bytes);
  const std::uint16_t rank = h.rank.host();
  if (h.type == PacketType::kEnlist) return enlist(at, bytes);
  if (h.type == PacketType::kPlan) return take_page(at, bytes);
  if (h.epoch.host() != sum.epoch || box.epoch != sum.epoch) return;
  EXPECT_TRUE(box.enlisted.contains(rank)) << "who is not known here says " << static_cast<int>(h.type);
  EXPECT_EQ(h.job.host(), box.job);
  EXPECT_EQ(h.cookie.host(), sum.cookie_of(rank));
  const bool beats = h.type == PacketType::kHeartbeat;
  EXPECT_TRUE(beats || h.type == PacketType::kLeave) << static_cast<int>(h.type);
  expect_tag(beats ? Box::job_key() : session_of(at, rank), bytes);
  const std::uint64_t counter = wire_at<CountedPayload>(bytes.data() + kHeaderBytes).counter.host();
  if (counter <= box.counters[rank]) return;
  box.counters[rank] = counter;
  if (!beats) {
    box.left.insert(rank);
    return;
  }
  EXPECT_EQ(h.contributors.host(), Box::instance_of(rank));
  say(at, rank, from_box(at, PacketType::kHeartbeat, rank));
}

void BoxesScene::enlist(std::size_t at, const Bytes& bytes) {
  ScriptedBox& box = boxes[at];
  const Header h = header_of(bytes);
  const std::uint16_t rank = h.rank.host();
  expect_tag(Box::job_key(), bytes);
  const auto said = wire_at<EnlistPayload>(bytes.data() + kHeaderBytes);
  EXPECT_EQ(bytes.size(), kHeaderBytes + sizeof said + said.name_bytes + kTagBytes);
  EXPECT_EQ(h.job.host(), 0);
  EXPECT_EQ(said.instance.host(), Box::instance_of(rank));
  if (box.unknown)
    return say(
        at, rank,
        refused(at, rank, said.nonce.host(), text_bytes("no job of that name"), JoinStatus::kRefused, false));
  if (said.challenge == Tag{}) return say(at, rank, Box::challenge(said.nonce.host()));
  if (h.epoch.host() != sum.epoch || !sum.running()) return;  // of a former epoch, on its way
  if (box.attempts.contains(rank) && said.attempt.host() <= box.attempts[rank]) return;
  box.attempts[rank] = said.attempt.host();
  EXPECT_EQ(h.cookie.host(), sum.cookie_of(rank));
  EXPECT_EQ(said.result_cookie.host(), sum.result_cookie());
  EXPECT_EQ(said.record, sum.epoch_of(rank).record());
  EXPECT_EQ(said.world.host(), sum.shape.world);
  EXPECT_EQ(said.window.host(), sum.shape.window);
  EXPECT_EQ(said.lease_ms.host(), sum.shape.lease_ms);
  EXPECT_EQ(said.plan, plan_name);
  EXPECT_EQ(said.plan_bytes.host(), plan_written.size());
  EXPECT_EQ(said.box, plan_index(at));
  if (box.epoch != sum.epoch) {
    box.epoch = sum.epoch;
    box.enlisted.clear();
    box.pages.clear();
  }
  box.enlists[rank] = said;
  box.nonces[rank] = said.nonce.host();
  if (box.refuses)
    return say(at, rank,
               refused(at, rank, said.nonce.host(), text_bytes("no room"), JoinStatus::kRefused, true));
  std::uint64_t missing = engine::pages_of(plan_written.size());
  for (const auto& [page, content] : box.pages) missing &= ~(std::uint64_t{1} << page);
  if (missing != 0 || box.holds)
    return say(at, rank, joined_by_guest(at, rank, JoinStatus::kForming, missing));
  box.enlisted.insert(rank);
  say(at, rank, joined_by_guest(at, rank, JoinStatus::kRunning, 0));
}

void BoxesScene::take_page(std::size_t at, const Bytes& bytes) {
  ScriptedBox& box = boxes[at];
  expect_tag(Box::job_key(), bytes);
  const auto said = wire_at<PlanPayload>(bytes.data() + kHeaderBytes);
  if (said.plan != plan_name) return;
  EXPECT_EQ(said.bytes.host(), plan_written.size());
  const auto content = auth::body_of(payload_at(bytes)).subspan(sizeof said + said.name_bytes);
  EXPECT_EQ(content.size(), said.page_bytes.host());
  const auto right = std::span(plan_written).subspan(said.page * kPlanPageBytes);
  EXPECT_TRUE(content.size() <= right.size() && std::equal(content.begin(), content.end(), right.begin()));
  box.pages[said.page] = Bytes(content.begin(), content.end());
}

Bytes BoxesScene::joined_by_guest(std::size_t at, std::uint16_t rank, JoinStatus status,
                                  std::uint64_t missing) const {
  engine::Membership m = sum.epoch_of(rank);
  m.job = JobId{boxes[at].job};
  m.shards = boxes[at].shards;
  m.box_mac = {2, 0, 0, 0, 1, static_cast<std::uint8_t>(at)};
  return box_joined(m, status, boxes[at].nonces.at(rank), Box::job_key(), missing);
}

auth::Key BoxesScene::session_of(std::size_t box, std::uint16_t rank) const {
  return auth::box_session_key(sum.epoch_of(rank).session, static_cast<BoxIndex>(plan_index(box)));
}

Bytes BoxesScene::from_box(std::size_t box, PacketType type, std::uint16_t rank) const {
  engine::Membership m = sum.epoch_of(rank);
  m.job = JobId{boxes[box].job};
  m.session = session_of(box, rank);
  return box_tells(m, box_header(m, type));
}

Bytes BoxesScene::forgets(std::size_t box, std::uint16_t rank) const {
  engine::Membership m = sum.epoch_of(rank);
  m.job = JobId{boxes[box].job};
  m.session = session_of(box, rank);
  Header h = box_header(m, PacketType::kReject);
  h.slot = Be{static_cast<std::uint32_t>(RejectReason::kEpoch)};
  return box_tells(m, h);
}

std::size_t BoxesScene::route_of(std::uint16_t rank, std::uint32_t chunk) const {
  const Ipv6 address = plan.boxes[plan.route(Rank{rank}, Chunk{chunk}).box];
  return static_cast<std::size_t>(address.back()) - 1;
}

// Its own box, job id, port and sequence; then all boxes are one.
void BoxesScene::data(std::size_t at, std::uint16_t port, const Bytes& bytes) {
  ScriptedBox& box = boxes[at];
  Header h = header_of(bytes);
  const std::uint16_t rank = h.rank.host();
  if (h.epoch.host() != sum.epoch || !sum.running()) return;
  EXPECT_TRUE(at == home || (box.epoch == sum.epoch && box.enlisted.contains(rank)))
      << "it does not know this rank yet";
  EXPECT_EQ(h.job.host(), box.job) << "as this box names the job";
  const std::uint32_t shard = sum.slot_of(h.chunk.host()) % box.shards;
  EXPECT_EQ(port, kBasePort + shard);
  if (h.type != PacketType::kAnswer) {
    EXPECT_EQ(at, route_of(rank, h.chunk.host())) << "the plan says which box";
  }
  if (h.type == PacketType::kContribute && !copies) {
    auto& seen = box.sequences[{h.epoch.host(), rank, shard}];
    EXPECT_TRUE(seen.insert(h.sequence()).second) << "counted for each box and shard";
    if (!lost_some_ && !delay) {
      EXPECT_EQ(h.sequence(), seen.size()) << "without gaps";
    }
  }
  h.job = Be{sum.job};
  const std::uint32_t ideal = sum.slot_of(h.chunk.host()) % sum.shape.shards;
  Bytes as_ideal = bytes;
  std::memcpy(as_ideal.data(), &h, sizeof h);
  for (const Sent& each : sum.receive(resealed(as_ideal), static_cast<std::uint16_t>(kBasePort + ideal))) {
    Header out = header_of(each.bytes);
    // A QUERY goes on through the box it came to, and its ANSWER back; all else is the receiver's box's.
    const std::size_t from = out.type == PacketType::kQuery ? at : route_of(each.rank, out.chunk.host());
    if (from != home && !boxes[from].enlisted.contains(each.rank)) continue;
    out.job = Be{boxes[from].job};
    Bytes said = each.bytes;
    std::memcpy(said.data(), &out, sizeof out);
    say(from, each.rank, resealed(said));
  }
}

}  // namespace tally::testbed
