// Records as they stand in the store: what is written is read, and whatever else stands there is refused with a reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "fleet/records.h"
#include "fleet/seats.h"
#include "fleet_bed.h"
#include "rng.h"

#ifndef TALLY_SEED_SHARE
#define TALLY_SEED_SHARE 1
#endif

namespace tally::fleet {
namespace {

using ::testing::HasSubstr;

TEST(FleetRecords, WhatIsWrittenIsRead) {
  BoxRecord box = box_record("rack1", 0xfedcba9876543210U);
  EXPECT_EQ(read_box(text_of(box)), box);
  box.set_rates = {{"box rack1", 0}, {"link rack1 to spine1", 1.0 / 3}};
  EXPECT_EQ(read_box(text_of(box)), box);
  box.set_rates["box rack1"] = -1;
  EXPECT_EQ(read_box(text_of(box)).error(), "set_rates have one that is no rate");
  const JobRecord job{.name = "resnet", .spec = Json{{"workers", 4}, {"elements", 256}}};
  EXPECT_EQ(read_job("resnet", text_of(job)), job);
  const SeatRecord seat{"rack1", 7};
  EXPECT_EQ(read_seat(text_of(seat)), seat);
}

// Word for word what boxes wrote before there were set rates, limits of boxes, generations and checks of tokens.
TEST(FleetRecords, RecordsOfTheVersionBeforeAreRead) {
  EXPECT_EQ(read_box(R"({"format":1,"name":"a","life":"fedcba9876543210","since":1700000000,)"
                     R"("addresses":["10.0.0.2"],"rate":100000000000,"cores":4,"free_slots":4096,)"
                     R"("free_bytes":67108864})"),
            box_record("a", 0xfedcba9876543210U));
  EXPECT_EQ(read_facts(R"({"format":1,"number":"1","ranks":["10.0.1.1","10.0.1.2"],"servers":["10.0.2.1"],)"
                       R"("boxes":["10.0.0.2","10.0.0.3"],"usable":"3"})"),
            facts_of());
  const auto job = read_job("j", R"({"format":1,"spec":{"workers":4,"servers":2,"boxes":["10.0.0.2"]}})");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->spec["workers"], 4);
  EXPECT_EQ(read_seat(R"({"format":1,"box":"a","life":"7"})"), (SeatRecord{"a", 7}));
}

// Boxes of a fleet are not all upgraded at once.
TEST(FleetRecords, WhatALaterVersionAddsIsPassedOver) {
  const auto later = [](std::string record) {
    return record.insert(record.size() - 1, R"(,"later":{"deep":[1,{"x":null}]},"also":"text")");
  };
  const BoxRecord box = box_record("a", 77);
  EXPECT_EQ(read_box(later(text_of(box))), box);
  EXPECT_EQ(read_seat(later(text_of(SeatRecord{"a", 7}))), (SeatRecord{"a", 7}));
  EXPECT_EQ(read_facts(later(text_of(facts_of(17)))), facts_of(17));
  EXPECT_EQ(read_plan({"j", 3}, later(text_of(plan_of("j", 3)))), plan_of("j", 3));
  // Of a job it stays, if it stands where it belongs, whoever writes the record again.
  const JobRecord job{.name = "j", .spec = Json{{"workers", 4}, {"later", {1, 2}}}};
  const auto read = read_job("j", later(text_of(job)));
  EXPECT_EQ(read, job);
  const OwnJob home{.record = {.name = "j", .spec = Json{{"workers", 5}}}};
  EXPECT_EQ(declared_anew(*read, home).spec, (Json{{"workers", 5}, {"later", {1, 2}}}));
  // What older versions would get wrong has another format, and is nothing to them.
  std::string other = later(text_of(box));
  other.replace(other.find(":1"), 2, ":2");
  EXPECT_EQ(read_box(other).error(), "it is of format 2, and this program reads format 1");
}

// As large as one can be: etcd takes 1.5 MiB.
TEST(FleetRecords, APlanOfEveryEntryIsReadAndFits) {
  Rng rng(5);
  PlanRecord plan{.job = "resnet", .facts = ~std::uint64_t{0}, .number = 4'000'000'000U};
  for (std::size_t i = 0; i < kMaxPlanBoxes; ++i)
    plan.plan.boxes.push_back(mapped({10, 0, 0, static_cast<std::uint8_t>(i)}));
  plan.plan.server_count = kMaxServers;
  for (std::uint8_t& server : plan.plan.servers) server = static_cast<std::uint8_t>(rng.below(kMaxServers));
  plan.plan.tables.resize(kMaxPlanTables);
  for (RouteTable& table : plan.plan.tables)
    for (Route& route : table) route = {static_cast<BoxIndex>(rng.below(kMaxPlanBoxes)), rng.chance(0.1)};
  for (std::size_t rank = 0; rank < kMaxRanks; ++rank)
    plan.plan.table_of.push_back(static_cast<std::uint8_t>(rank));
  EXPECT_EQ(objection_to(plan), "");
  const PlanKey key{"resnet", 4'000'000'000U};
  const std::string text = text_of(plan);
  EXPECT_LE(text.size(), 91'000U);
  EXPECT_EQ(read_plan(key, text), plan);
}

TEST(FleetRecords, APlanWhosePartsDoNotFitIsNone) {
  PlanRecord plan = plan_of("resnet", 1);
  EXPECT_EQ(objection_to(plan), "");
  plan.plan.tables[0][1023].box = 1;
  EXPECT_EQ(objection_to(plan), "its parts do not fit each other");
  EXPECT_EQ(read_plan({"resnet", 1}, text_of(plan)).error(), "plan is none");
  plan = plan_of("resnet", 1, 1, {"10.0.0.2", "10.0.0.2"});
  EXPECT_EQ(objection_to(plan), "its parts do not fit each other");
  plan = plan_of("resnet", 1, 0);
  EXPECT_EQ(objection_to(plan), "it is for no facts");
  EXPECT_EQ(read_plan({"resnet", 1}, text_of(plan)).error(), "facts is no hexadecimal number");
}

TEST(FleetRecords, FactsSayWhereEverybodyIs) {
  FactsRecord facts = facts_of(17);
  EXPECT_EQ(read_facts(text_of(facts)), facts);
  facts.usable = 0b100;
  EXPECT_EQ(read_facts(text_of(facts)).error(), "a box is usable that is not there");
  facts = facts_of(17);
  facts.limits = {{facts.boxes[1], 2.5}};
  EXPECT_EQ(read_facts(text_of(facts)), facts);
  facts.limits = {{"10.0.0.9", 2.5}};
  EXPECT_EQ(read_facts(text_of(facts)).error(), "a box has a limit that is not there");
  facts = facts_of(17);
  facts.ranks[1] = "10.0.1";
  EXPECT_EQ(read_facts(text_of(facts)).error(), "ranks have '10.0.1', which is no address");
  facts.ranks.clear();
  EXPECT_EQ(read_facts(text_of(facts)).error(), "ranks are not 1 to 64");
  facts = facts_of(17);
  facts.boxes.assign(kMostBoxes, "fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  facts.ranks.assign(kMaxRanks, facts.boxes[0]);
  facts.usable = ~std::uint64_t{0};
  EXPECT_EQ(read_facts(text_of(facts)), facts);
}

TEST(FleetRecords, KeysAreThoseOfTheFleetAlone) {
  const Keys keys("/site/tally");
  const auto box = keys.parse("/site/tally/box/rack-1.a");
  ASSERT_TRUE(box);
  EXPECT_EQ(std::get<BoxKey>(*box).id, "rack-1.a");
  EXPECT_EQ(std::get<JobKey>(*keys.parse(keys.job("j"))).job, "j");
  EXPECT_EQ(std::get<HomeKey>(*keys.parse(keys.home("j"))).job, "j");
  EXPECT_EQ(std::get<FactsKey>(*keys.parse(keys.facts("j"))).job, "j");
  EXPECT_EQ(std::get<PlanKey>(*keys.parse(keys.plan("j", 17))).number, 17U);
  EXPECT_EQ(keys.plan("j", 17), "/site/tally/plan/j/0000000017");
  EXPECT_TRUE(std::holds_alternative<PlannerKey>(*keys.parse(keys.planner())));
  for (const char* const other :
       {"/site/tally", "/site/tally/", "/tally/box/a", "/site/tally2/box/a", "/site/tally/box/",
        "/site/tally/box/a/b", "/site/tally/box/-a", "/site/tally/job/j/Home", "/site/tally/job/j/home/",
        "/site/tally/job//home", "/site/tally/plan/j", "/site/tally/plan/j/17",
        "/site/tally/plan/j/00000000017", "/site/tally/plan/j/0000000000", "/site/tally/plan/j/000000001x",
        "/site/tally/plan/j/9999999999", "/site/tally/planner/", "/site/tally/house/a"})
    EXPECT_FALSE(keys.parse(other)) << other;
  EXPECT_FALSE(keys.parse("/site/tally/box/" + std::string(64, 'a')));
}

TEST(FleetRecords, APrefixIsAPath) {
  for (const char* const good : {"/tally", "/site/rack-7", "/a.b/c_d/e"})
    EXPECT_EQ(objection_to_prefix(good), "") << good;
  for (const char* const bad : {"", "tally", "/", "/tally/", "//tally", "/tal ly", "/tally/../x"})
    EXPECT_NE(objection_to_prefix(bad), "") << bad;
}

TEST(FleetRecords, ABadRecordSaysWhatIsWrong) {
  const struct {
    const char* value;
    const char* why;
  } cases[] = {
      {"", "it is no JSON, from byte "},
      {"nonsense", "it is no JSON, from byte "},
      {"[]", "it is no JSON object"},
      {"{}", "format is missing"},
      {R"({"format":1})", "box is missing"},
      {R"({"format":2,"box":"a","life":"1"})", "it is of format 2, and this program reads format 1"},
      {R"({"format":"1","box":"a","life":"1"})", "format is no whole number from 1 to"},
      {R"({"format":1,"box":"a","life":"1","more":0,"more":1})", "the member 'more' stands twice in it"},
      {R"({"format":1,"box":"a","more":{"life":"1"}})", "life is missing"},
      {R"({"format":1,"box":"a","box":"b","life":"1"})", "the member 'box' stands twice in it"},
      {R"({"format":1,"box":"a b","life":"1"})", "box is no name"},
      {R"({"format":1,"box":7,"life":"1"})", "box is no text"},
      {R"({"format":1,"box":"","life":"1"})", "box is empty"},
      {R"({"format":1,"box":"a","life":"0"})", "life is no hexadecimal number"},
      {R"({"format":1,"box":"a","life":"01"})", "life is no hexadecimal number"},
      {R"({"format":1,"box":"a","life":"FF"})", "life is no hexadecimal number"},
      {R"({"format":1,"box":"a","life":"11112222333344445"})", "life has 17 bytes, at most 16 are allowed"},
      {R"({"format":1,"box":"a","life":"1"} x)", "it is no JSON, from byte "},
  };
  for (const auto& one : cases) {
    const auto read = read_seat(one.value);
    ASSERT_FALSE(read) << one.value;
    EXPECT_THAT(read.error(), HasSubstr(one.why)) << one.value;
  }
  const std::string deep =
      R"({"format":1,"spec":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_EQ(read_job("j", deep).error(), "it has 200020 bytes");
  const std::string less =
      R"({"format":1,"spec":)" + std::string(20'000, '[') + std::string(20'000, ']') + "}";
  EXPECT_EQ(read_job("j", less).error(), "it is nested more than 16 deep");
}

// Of each kind: changed bytes, cut, doubled pieces, other values. What is taken all the same is written as it was read.
TEST(FleetRecords, DamagedRecordsAreRefusedOrWhole) {
  Rng rng(20261127);
  const std::array<std::string, 5> whole{
      text_of(box_record("rack1", 77)),
      text_of(JobRecord{.name = "j", .spec = Json{{"workers", 4}, {"x", {1, 2, nullptr}}}}),
      text_of(SeatRecord{"rack1", 7}), text_of(plan_of("j", 3)), text_of(facts_of())};
  const std::array<const char*, 12> pieces{"\"", "{",    "}",  "[",   "]",       ",",
                                           ":",  "null", "-1", "1e9", "\\u0000", "\xff"};
  std::size_t taken = 0;
  constexpr int kRounds = 20'000 / TALLY_SEED_SHARE;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t kind = rng.below(whole.size());
    std::string value = whole[kind];
    for (std::uint64_t n = rng.between(1, 3); n > 0; --n) {
      const std::size_t at = rng.below(value.size());
      const std::size_t length = std::min<std::size_t>(rng.between(1, 12), value.size() - at);
      switch (rng.below(5)) {
        case 0:
          value[at] = static_cast<char>(rng.next());
          break;
        case 1:
          value.erase(at, length);
          break;
        case 2:
          value.insert(at, value.substr(rng.below(value.size()), length));
          break;
        case 3:
          value.insert(at, pieces[rng.below(pieces.size())]);
          break;
        default:
          value[at] = static_cast<char>('0' + rng.below(10));
          break;
      }
      if (value.empty()) value = "x";
    }
    const auto check = [&](const auto& read, auto again) {
      if (!read) {
        EXPECT_NE(read.error(), "");
        return;
      }
      ++taken;
      const auto twice = again(text_of(*read));
      ASSERT_TRUE(twice) << twice.error() << "\n" << value;
      EXPECT_EQ(*twice, *read);
    };
    if (kind == 0) check(read_box(value), [](const std::string& v) { return read_box(v); });
    if (kind == 1) check(read_job("j", value), [](const std::string& v) { return read_job("j", v); });
    if (kind == 2) check(read_seat(value), [](const std::string& v) { return read_seat(v); });
    if (kind == 3)
      check(read_plan({"j", 3}, value), [](const std::string& v) { return read_plan({"j", 3}, v); });
    if (kind == 4) check(read_facts(value), [](const std::string& v) { return read_facts(v); });
  }
  EXPECT_GT(taken, kRounds / 100U);  // some are only another value
  EXPECT_LT(taken, kRounds / 2U);
}

}  // namespace
}  // namespace tally::fleet
