#pragma once
// A fleet in virtual time: a store in memory and boxes around it, each with a way to the store of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_store.h"
#include "fleet/member.h"
#include "text/text.h"

namespace tally::fleet {

// Of a box, in all of its lives: that of box a is 10.0.0.2.
inline std::string address_of(const std::string& id) {
  return "10.0.0." + std::to_string(id.at(0) - 'a' + 2);
}

inline BoxRecord box_record(const std::string& name, std::uint64_t life) {
  return {.name = name,
          .life = life,
          .since = 1'700'000'000,
          .addresses = {address_of(name)},
          .rate = 100'000'000'000,
          .cores = 4,
          .free_slots = 4096,
          .free_bytes = 64U << 20U};
}

// A plan that puts all groups to the first box. facts: by which a test knows who wrote it.
inline PlanRecord plan_of(const std::string& job, std::uint32_t number, std::uint64_t facts = 1,
                          const std::vector<std::string>& boxes = {"10.0.0.2"}) {
  PlanRecord record{.job = job, .facts = facts, .number = number};
  for (const std::string& box : boxes) record.plan.boxes.push_back(text::ip_address(box).value());
  record.plan.server_count = 2;
  record.plan.tables.resize(1);
  record.plan.table_of = {0, 0};
  for (std::size_t i = 0; i < kPlanGroups; ++i) record.plan.servers[i] = static_cast<std::uint8_t>(i % 2);
  return record;
}

inline FactsRecord facts_of(std::uint64_t number = 1) {
  return {.number = number,
          .ranks = {"10.0.1.1", "10.0.1.2"},
          .servers = {"10.0.2.1"},
          .boxes = {"10.0.0.2", "10.0.0.3"},
          .usable = 0b11};
}

class Bed {
 public:
  struct Box {
    std::string id{};
    std::uint64_t life = 0;
    std::unique_ptr<FakeStore> store{};
    std::unique_ptr<Member> member{};
    bool stopped = false;  // as by SIGSTOP
    std::vector<Outcome> outcomes{};
    std::vector<std::string> notes{};
  };

  explicit Bed(std::uint64_t seed = 1) : seeds_(seed) {}

  FakeServer server{};
  std::vector<Box> boxes{};
  std::map<std::string, OwnJob>
      jobs{};  // that boxes have in their configuration, which are started from now on
  TimeNs now = kSecond;
  std::function<void()> after_each_turn{};

  Box& add(const std::string& id, MemberOptions options = {}) {
    Box& box = boxes.emplace_back();
    box.id = id;
    start(box, std::move(options));
    return box;
  }
  // Another process of that box; the one before it is killed.
  void start(Box& box, MemberOptions options = {}) {
    const FakeFaults faults = box.store ? box.store->faults : FakeFaults{};
    box.member.reset();
    box.store = std::make_unique<FakeStore>(server, seeds_.next());
    box.store->faults = faults;
    box.store->advance(now);
    box.life = ++lives_;
    options.id = box.id;
    box.member = std::make_unique<Member>(std::move(options), *box.store, box_record(box.id, box.life), now);
    box.member->set_jobs(jobs);
    box.stopped = false;
  }
  // All boxes have it from now on.
  void give(const std::string& job) {
    OwnJob& own = jobs[job];
    own.record = {.name = job, .spec = Json{{"workers", 2}}};
    own.addresses.clear();
    for (const Box& box : boxes) own.addresses.push_back(address_of(box.id));
    for (const Box& box : boxes)
      if (box.member) box.member->set_jobs(jobs);
  }
  static void kill(Box& box) { box.member.reset(); }

  void run(TimeNs span) {
    const TimeNs end = now + span;
    while (now < end) {
      now += Member::kTurn;
      server.advance(now);
      for (Box& box : boxes) {
        if (!box.member || box.stopped) continue;
        box.store->advance(now);
        box.member->tick(now);
        for (Outcome& outcome : box.member->take_outcomes()) box.outcomes.push_back(std::move(outcome));
        for (const Note& note : box.member->take_notes()) box.notes.push_back(note.text);
      }
      if (after_each_turn) after_each_turn();
    }
  }
  // Until it holds, for `patience` at most; whether it did.
  bool run_until(const std::function<bool()>& holds, TimeNs patience = 30 * kSecond) {
    for (const TimeNs end = now + patience; !holds(); run(Member::kTurn))
      if (now >= end) return false;
    return true;
  }

  // Of those that live and know it of themselves.
  std::vector<std::string> planners() {
    std::vector<std::string> ids;
    for (const Box& box : boxes)
      if (box.member && box.member->planner_since(now) != 0) ids.push_back(box.id);
    return ids;
  }
  std::vector<std::string> homes(const std::string& job) {
    std::vector<std::string> ids;
    for (const Box& box : boxes)
      if (box.member && box.member->is_home_of(job, now)) ids.push_back(box.id);
    return ids;
  }
  Box& box(const std::string& id) {
    for (Box& one : boxes)
      if (one.id == id) return one;
    throw std::out_of_range(id);
  }
  [[nodiscard]] bool there(const std::string& key) const { return server.pairs().contains(key); }
  void put(const std::string& key, const std::string& value, LeaseId lease = 0) {
    ASSERT_TRUE(server.apply(Put{key, value, lease}));
  }

 private:
  Rng seeds_;
  std::uint64_t lives_ = 0;
};

class FleetMember : public ::testing::Test {
 protected:
  // Boxes a, b, c that know one another.
  void start(std::size_t boxes = 3) {
    bed.boxes.reserve(8);
    for (std::size_t i = 0; i < boxes; ++i) bed.add(std::string(1, static_cast<char>('a' + i)));
    ASSERT_TRUE(bed.run_until([&] { return all_know(boxes) && bed.planners().size() == 1; }));
  }
  bool all_know(std::size_t boxes) {
    for (const Bed::Box& box : bed.boxes)
      if (box.member && !box.stopped &&
          (!box.member->knows_fleet() || box.member->view().boxes().size() != boxes))
        return false;
    return true;
  }
  Bed::Box& planner() { return bed.box(bed.planners().at(0)); }
  Bed::Box& another_than(const std::string& id) {
    for (Bed::Box& box : bed.boxes)
      if (box.id != id) return box;
    return bed.boxes[0];
  }
  void declare(Bed::Box& box, const std::string& job) {
    ASSERT_TRUE(box.member->declare({.name = job, .spec = Json{{"workers", 2}}}, bed.now));
    ASSERT_TRUE(bed.run_until([&] { return bed.homes(job).size() == 1 && knows(planner(), job); }));
    bed.give(job);
  }
  static bool knows(const Bed::Box& box, const std::string& job) {
    return box.member->view().jobs().contains(job) && box.member->view().jobs().at(job).record;
  }

  Bed bed;
};

}  // namespace tally::fleet
