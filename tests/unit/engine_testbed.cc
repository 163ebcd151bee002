#include "engine_testbed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace tally::testbed {

engine::EngineOptions options_of(const JobShape& shape, std::uint16_t rank) {
  engine::EngineOptions o;
  o.job = "test";
  o.token = "secret";
  o.rank = Rank{rank};
  o.world = shape.world;
  o.elements = shape.elements;
  o.instance = Box::instance_of(rank);
  o.seed = 42U + rank;
  o.rto_floor = engine::kPollRtoFloor;
  return o;
}

std::vector<Out> drain(engine::WorkerEngine& engine, TimeNs now) {
  std::vector<Out> all;
  Bytes room(engine.max_datagram_bytes());
  std::uint16_t port = 0;
  while (const std::size_t n = engine.transmit(room, now, port)) {
    all.push_back({Bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(n)), port});
    if (all.size() > 100'000) {
      ADD_FAILURE() << "the engine never stops sending";
      break;
    }
  }
  EXPECT_GT(engine.deadline(), now);
  return all;
}

std::unique_ptr<engine::WorkerEngine> joined_engine(const Box& box, const engine::EngineOptions& options) {
  auto engine = std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()));
  JoinPayload p;
  std::memcpy(&p, drain(*engine, 0).at(0).bytes.data() + kHeaderBytes, sizeof p);
  engine->receive(box.joined(JoinStatus::kRunning, p.nonce.host(), raw(options.rank)), 0);
  EXPECT_EQ(engine->state(), engine::EngineState::kRunning);
  return engine;
}

Rig::Rig(const JobShape& shape) : box(shape), paused(shape.world, false) {
  for (std::uint16_t r = 0; r < shape.world; ++r)
    engines.push_back(
        std::move(*engine::WorkerEngine::create(options_of(shape, r), kernels::best_kernels())));
}

void Rig::send(const Flying& flying) {
  if (lose && lose(flying.to_box, flying.rank, header_of(flying.bytes))) return;
  for (unsigned n = copies ? copies() : 1; n != 0; --n)
    flying_.emplace(now + latency + (delay ? delay() : 0), flying);
}

void Rig::step() {
  for (std::uint16_t r = 0; r < box.shape.world; ++r) {
    if (paused[r]) continue;
    for (auto& out : drain(*engines[r], now)) send({true, r, out.port, std::move(out.bytes)});
    while (auto c = engines[r]->next_completion())
      completed.insert_or_assign(std::pair{std::size_t{r}, c->id}, std::move(c->result));
  }
}

bool Rig::run_until(const std::function<bool()>& done, TimeNs limit) {
  const TimeNs end = now + limit;
  for (step(); !done(); step()) {
    TimeNs next = flying_.empty() ? kNever : flying_.begin()->first;
    for (std::size_t r = 0; r < engines.size(); ++r)
      if (!paused[r]) next = std::min(next, engines[r]->deadline());
    if (next > end) {
      now = end;
      return false;
    }
    now = std::max(now, next);
    while (!flying_.empty() && flying_.begin()->first <= now) {
      const Flying f = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      if (f.to_box) {
        for (auto& s : box.receive(f.bytes, f.port)) send({false, s.rank, 0, std::move(s.bytes)});
      } else if (!paused[f.rank]) {
        engines[f.rank]->receive(f.bytes, now);
      }
    }
  }
  return true;
}

bool Rig::run_until_running() {
  return run_until([&] {
    return std::all_of(engines.begin(), engines.end(),
                       [](const auto& e) { return e->state() == engine::EngineState::kRunning; });
  });
}

std::vector<Result<OperationStats>> Rig::finish(engine::OperationId id) {
  std::vector<Result<OperationStats>> results;
  EXPECT_TRUE(run_until([&] {
    for (std::size_t r = 0; r < engines.size(); ++r)
      if (!completed.contains({r, id})) return false;
    return true;
  })) << "operation "
      << static_cast<std::uint64_t>(id) << " did not finish";
  for (std::size_t r = 0; r < engines.size(); ++r)
    if (const auto at = completed.find({r, id}); at != completed.end()) results.push_back(at->second);
  return results;
}

}  // namespace tally::testbed
