// What the reading methods say of a box, above all who is late.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/events.h"
#include "api/lateness.h"
#include "api/long_answer.h"
#include "api/results.h"
#include "control_api_scene.h"

namespace tally::control_api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Made = api::LongAnswer (*)(std::shared_ptr<const api::Snapshot>);

api::Json all_of(Made made, const api::Snapshot& box) {
  return api::Json::parse(made(std::make_shared<const api::Snapshot>(box)).all());
}

api::Json resnet_of(const api::Snapshot& box) { return api::job_show(box, box.jobs[0]); }

TEST(ControlResults, NobodyIsLateWhileAllMove) {
  const api::Json job = resnet_of(make_snapshot());
  EXPECT_THAT(job["late"], IsEmpty());
  EXPECT_EQ(job["late_text"], "");
  EXPECT_EQ(job["contributions"], 900);
  EXPECT_EQ(job["results"], 300);
  EXPECT_EQ(job["dropped"]["stale"], 12);
  EXPECT_EQ(job["ranks"][2]["address"], "10.0.0.13");
  EXPECT_EQ(job["ranks"][2]["port"], "w1");
  EXPECT_EQ(job["ranks"][2]["udp_port"], 40'001);
  EXPECT_EQ(job["ranks"][2]["chunk"], 5'000);
  EXPECT_EQ(job["ranks"][2]["behind"], nullptr) << "reports of ranks that move are of different moments";
}

TEST(ControlResults, OfTheBoxOfARackTheNumbersAndTheParentAreShown) {
  api::Snapshot box = make_snapshot();
  members::JobStatus& job = box.jobs[0].status;
  EXPECT_EQ(resnet_of(box)["racks"], nullptr);
  job.racks = members::RacksStatus{.workers = {8, 3},
                                   .rack = 1,
                                   .first = 8,
                                   .parent = mapped({10, 0, 9, 1}),
                                   .state = members::ParentState::kDoubted,
                                   .heard = kNow - 6 * kSecond,
                                   .missing_racks = 1};
  job.ranks[1].last_seen = kNow - 8 * kSecond;
  const api::Json shown = resnet_of(box);
  EXPECT_EQ(shown["racks"]["world"], 11);
  EXPECT_EQ(shown["racks"]["parent"], "10.0.9.1");
  EXPECT_EQ(shown["racks"]["state"], "in doubt");
  EXPECT_EQ(shown["racks"]["heard_ns_ago"], 6 * kSecond);
  EXPECT_THAT(shown["racks"]["missing_racks"], ElementsAre(0));
  EXPECT_EQ(shown["ranks"][1]["number"], 9);
  EXPECT_THAT(shown["late_text"].get<std::string>(), HasSubstr("rank 9 ("));
  EXPECT_THAT(api::health(box)["problems"].dump(),
              HasSubstr("the parent at 10.0.9.1 has not answered for 6.0 s"));
  job.racks->heard = kNow - kSecond;
  EXPECT_THAT(api::health(box)["problems"].dump(), Not(HasSubstr("parent")));
  job.racks = members::RacksStatus{.workers = {64, 2, 8}};
  const api::Json parent = resnet_of(box);
  EXPECT_EQ(parent["racks"]["rack"], nullptr);
  EXPECT_EQ(parent["ranks"][2]["workers"], 8);
  EXPECT_THAT(parent["late_text"].get<std::string>(), HasSubstr("rack 1 ("));
}

TEST(ControlResults, AStoppedRankIsLateAndTheOthersThatWaitForItAreNot) {
  api::Snapshot box = make_snapshot();
  members::JobStatus& job = box.jobs[0].status;
  for (std::size_t r = 0; r < 3; ++r) box.jobs[0].contributed[r] = kNow - 4 * kSecond;
  for (const std::size_t r : {0U, 2U}) job.ranks[r].next = Chunk{5'256};
  job.ranks[1].last_seen = kNow - 4 * kSecond;  // SIGSTOP: no heartbeat either
  const api::Json shown = resnet_of(box);
  EXPECT_THAT(shown["late"], ElementsAre(1));
  EXPECT_EQ(shown["ranks"][1]["behind"], 256);
  EXPECT_EQ(shown["ranks"][0]["behind"], 0);
  // Its last report was long before it stopped: it is within a window all the same.
  for (const std::size_t r : {0U, 2U}) job.ranks[r].next = Chunk{15'000};
  EXPECT_EQ(resnet_of(box)["ranks"][1]["behind"], 256);
  EXPECT_EQ(shown["late_text"], "rank 1 (10.0.0.12): silent for 4.0 s");
}

TEST(ControlResults, ARankWhoseProgramComputesIsLateBehindThoseThatWait) {
  api::Snapshot box = make_snapshot();
  for (std::size_t r = 0; r < 3; ++r) box.jobs[0].contributed[r] = kNow - 3 * kSecond;
  for (const std::size_t r : {0U, 2U}) box.jobs[0].status.ranks[r].next = Chunk{5'001};
  EXPECT_THAT(resnet_of(box)["late"], ElementsAre(1));
  EXPECT_EQ(resnet_of(box)["ranks"][1]["why"], "behind by 1 chunk, nothing new for 3.0 s");
}

TEST(ControlResults, AJobOverSeveralBoxesNamesThemAndItsPlan) {
  api::Snapshot box = make_snapshot();
  EXPECT_EQ(resnet_of(box)["boxes"], nullptr);
  members::BoxesStatus several{.here = 1, .home = 0};
  for (std::uint8_t i = 1; i <= 3; ++i)
    several.boxes.push_back({.address = mapped({10, 0, 0, i}), .planned = i != 3, .left_out = i == 3});
  box.jobs[0].status.boxes = several;
  EXPECT_EQ(resnet_of(box)["boxes"]["plan"], nullptr);
  several.plan = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x55};
  several.plan_bytes = 2'124;
  several.missing_pages = 2;
  box.jobs[0].status.boxes = several;
  const api::Json shown = resnet_of(box)["boxes"];
  EXPECT_EQ(shown["plan"], "0x123456789abcdef");
  EXPECT_EQ(shown["missing_pages"], 1);
  ASSERT_EQ(shown["boxes"].size(), 3U);
  EXPECT_EQ(shown["boxes"][0]["home"], true);
  EXPECT_EQ(shown["boxes"][1]["here"], true);
  EXPECT_EQ(shown["boxes"][2]["address"], "10.0.0.3");
  EXPECT_EQ(shown["boxes"][2]["left_out"], true);
}

TEST(ControlResults, NobodyIsLateWhenAllHaveDoneTheSameAndRest) {
  api::Snapshot box = make_snapshot();
  for (std::size_t r = 0; r < 3; ++r) box.jobs[0].contributed[r] = kNow - 300 * kSecond;
  EXPECT_THAT(resnet_of(box)["late"], IsEmpty());
}

TEST(ControlResults, ChunksWrapAroundAndARankThatLeftIsNotLate) {
  api::Snapshot box = make_snapshot();
  members::JobStatus& job = box.jobs[0].status;
  for (std::size_t r = 0; r < 3; ++r) box.jobs[0].contributed[r] = kNow - 3 * kSecond;
  job.ranks[0].next = Chunk{10};
  job.ranks[1].next = Chunk{0xFFFF'FFF6};
  job.ranks[2].next = Chunk{10};
  EXPECT_EQ(resnet_of(box)["ranks"][1]["behind"], 20);
  job.ranks[1].left = true;
  job.phase = members::JobPhase::kDraining;
  EXPECT_THAT(resnet_of(box)["late"], IsEmpty());
}

TEST(ControlResults, WhoHasNotJoinedIsLate) {
  const api::Snapshot box = make_snapshot();
  const api::Json job = api::job_show(box, box.jobs[1]);
  EXPECT_THAT(job["late"], ElementsAre(1));
  EXPECT_EQ(job["late_text"], "rank 1: has not joined");
  EXPECT_EQ(job["ranks"][1]["address"], nullptr);
  EXPECT_EQ(job["ranks"][1]["seen_ns_ago"], nullptr);
}

TEST(ControlResults, AMemberOfASessionIsLateWhenTheOthersWentOn) {
  api::Snapshot box = make_snapshot();
  members::JobStatus& job = box.jobs[0].status;
  job.session = members::SessionStatus{
      256, 2048, jobs::TsiRule::kPacket, 1, {}, members::SessionLacks::kNothing, "SwitchML"};
  EXPECT_THAT(resnet_of(box)["late"], IsEmpty());
  job.ranks[2].last_seen = kNow - 5 * kSecond;
  EXPECT_THAT(resnet_of(box)["late"], ElementsAre(2));
  EXPECT_EQ(resnet_of(box)["dialect"], "switchml");
  for (auto& rank : job.ranks) rank.last_seen = kNow - 5 * kSecond;
  EXPECT_THAT(resnet_of(box)["late"], IsEmpty()) << "all rest";
}

TEST(ControlResults, ManyLateOnesAreCounted) {
  api::JobCounts job;
  std::vector<api::RankProgress> progress(6);
  job.status.ranks.resize(6);
  for (auto& p : progress) p = {.late = true, .why = "w"};
  EXPECT_EQ(api::late_text(job, progress), "rank 0: w; rank 1: w; rank 2: w; and 3 others");
}

TEST(ControlResults, HealthNamesWhatIsNotWell) {
  api::Snapshot box = make_snapshot();
  box.jobs.pop_back();
  EXPECT_EQ(api::health(box)["state"], "good");
  box.ports[1].link_up = false;
  box.cores[1].silent = 2 * kSecond;
  box.jobs[0].status.phase = members::JobPhase::kAborted;
  box.jobs[0].status.reason = "rank 1 was silent";
  const api::Json health = api::health(box);
  EXPECT_EQ(health["state"], "degraded");
  ASSERT_EQ(health["problems"].size(), 3U);
  EXPECT_EQ(health["problems"][0]["name"], "w1");
  EXPECT_EQ(health["problems"][1]["text"], "no turn for 2.0 s");
  EXPECT_EQ(health["problems"][2]["text"], "aborted: rank 1 was silent");
  // A port of memif is down while no worker is there.
  auto config = *box.config;
  config.ports[1].device.kind = device::DeviceKind::kMemif;
  box.config = std::make_shared<const config::Config>(std::move(config));
  EXPECT_EQ(api::health(box)["problems"].size(), 2U);
}

// Who asks how the box is hears of what no packet shows: the next start would fail, and nobody plans.
TEST(ControlResults, HealthNamesARefusedFileAndAFleetThatIsAway) {
  api::Snapshot box = make_snapshot();
  box.jobs.pop_back();
  api::FleetStatus fleet{.id = "rack1", .standing = "member", .since = box.now - 5 * kSecond};
  const auto problems = [&] {
    box.fleet = std::make_shared<const api::FleetStatus>(fleet);
    return api::health(box)["problems"];
  };
  EXPECT_EQ(problems().size(), 0U);
  fleet.standing = "away";
  fleet.text = "no connection to http://10.0.0.1:2379";
  ASSERT_EQ(problems().size(), 1U);
  EXPECT_EQ(problems()[0]["text"],
            "etcd does not answer since 5.0 s: no connection to http://10.0.0.1:2379; "
            "jobs go on, nothing new is planned");
  EXPECT_EQ(api::box_problems(box).size(), 0U) << "it is ready all the same";
  fleet.standing = "taken";
  fleet.text = "another box has the ID rack1";
  EXPECT_EQ(problems()[0]["text"], "not in it: another box has the ID rack1");
  fleet.standing = "joining";
  fleet.text = "";
  EXPECT_EQ(problems().size(), 0U);
  box.reloads.last_good = false;
  EXPECT_EQ(problems()[0]["text"],
            "its file had errors when it was read last: no start from it would succeed");
}

TEST(ControlResults, HealthSaysWhetherTheBoxIsEnding) {
  api::Snapshot box = make_snapshot();
  box.jobs.pop_back();
  EXPECT_EQ(api::health(box)["ending"], false);
  box.ending = true;
  const api::Json health = api::health(box);
  EXPECT_EQ(health["ending"], true);
  EXPECT_EQ(health["state"], "degraded");
  EXPECT_EQ(health["problems"][0]["text"], "it is shutting down");
}

TEST(ControlResults, DropsHaveASentenceAndAnAdvice) {
  api::Snapshot box = make_snapshot();
  box.no_job.drops[static_cast<std::size_t>(Drop::kRunt)] = 3;
  box.l2.fates[static_cast<std::size_t>(l2::SwitchFate::kTooLong)] = 4;
  box.membership.drops[static_cast<std::size_t>(members::MembershipDrop::kToken)] = 5;
  const api::Json drops = all_of(api::LongAnswer::drop_list, box)["drops"];
  ASSERT_EQ(drops.size(), 4U);
  EXPECT_EQ(drops[0]["job"], "resnet");
  EXPECT_EQ(drops[1]["where"], "box");
  EXPECT_EQ(drops[2]["name"], "too_long");
  EXPECT_EQ(drops[3]["count"], 5);
  for (const api::Json& drop : drops) {
    EXPECT_NE(drop["sentence"], "");
    EXPECT_NE(drop["advice"], "");
  }
}

TEST(ControlResults, NoReasonLacksItsWords) {
  const auto check = [](std::span<const DropReason> reasons) {
    std::set<std::string_view> names;
    for (const DropReason& r : reasons) {
      EXPECT_TRUE(names.insert(r.name).second) << r.name;
      EXPECT_TRUE(r.sentence.ends_with('.')) << r.name << ": " << r.sentence;
      EXPECT_TRUE(r.advice.ends_with('.')) << r.name << ": " << r.advice;
    }
  };
  check(kDropReasons);
  check(members::kMembershipDropReasons);
  check(std::span(l2::kSwitchFates).subspan(l2::kFirstSwitchDrop));
}

TEST(ControlResults, ThePageOfDropsIsMadeOfThem) {
  const std::string made = api::drops_markdown();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(TALLY_DROPS_PAGE, std::ios::binary) << made;
  std::ostringstream page;
  page << std::ifstream(TALLY_DROPS_PAGE, std::ios::binary).rdbuf();
  EXPECT_EQ(page.str(), made) << "docs/drops.md; UPDATE_GOLDEN=1 rewrites it";
}

TEST(ControlResults, CoresPortsAndSlots) {
  const api::Snapshot box = make_snapshot();
  const api::Json cores = api::core_list(box)["cores"];
  EXPECT_EQ(cores[0]["frames_in"], 1'000);
  EXPECT_EQ(cores[0]["lost_no_mbuf"], 0);
  EXPECT_EQ(cores[0]["busy"], 0.25);
  EXPECT_EQ(cores[0]["cycles_per_frame"], 250);
  EXPECT_EQ(cores[1]["cpu"], 3);
  const api::Json port = api::port_list(box)["ports"][0];
  EXPECT_EQ(port["link"], "up");
  EXPECT_EQ(port["rx_bytes"], 64'000);
  EXPECT_EQ(port["device"], "net_ring0");
  EXPECT_EQ(port["impaired_in"], nullptr);
  const api::Json slots = all_of(api::LongAnswer::slot_show, box);
  EXPECT_EQ(slots["bytes"], 32U << 20U);
  EXPECT_EQ(slots["own_held"], 0);
}

TEST(ControlResults, StatsHaveEverything) {
  const api::Json all = all_of(api::LongAnswer::stats, make_snapshot());
  for (const char* const key : {"instance", "now_ns", "uptime_ns", "mbufs_in_use", "hosts", "switch",
                                "control", "health", "jobs", "ports", "cores", "drops", "slots"})
    EXPECT_TRUE(all.contains(key)) << key;
}

TEST(ControlResults, TheListOfJobsHasTheRanksOfEachAsItsPageHas) {
  const api::Snapshot box = make_snapshot();
  const api::Json jobs = all_of(api::LongAnswer::job_list, box)["jobs"];
  ASSERT_EQ(jobs.size(), box.jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(jobs[i]["ranks"], api::job_show(box, box.jobs[i])["ranks"]) << box.jobs[i].status.name;
  EXPECT_EQ(jobs[0]["ranks"].size(), box.jobs[0].status.ranks.size());
}

TEST(ControlResults, JobsOfManyRanksComeInPiecesOfFewJobs) {
  api::Snapshot box = make_snapshot();
  box.jobs[0].status.ranks.resize(64);
  const api::JobCounts job = box.jobs[0];
  box.jobs.assign(100, job);
  api::LongAnswer answer = api::LongAnswer::job_list(std::make_shared<const api::Snapshot>(std::move(box)));
  std::string text;
  std::size_t longest = 0;
  for (std::string piece = answer.next(); !piece.empty(); piece = answer.next()) {
    longest = std::max(longest, piece.size());
    text += piece;
  }
  EXPECT_LT(longest, 32'000U) << "the one row that is too much, and no more";
  EXPECT_EQ(api::Json::parse(text)["jobs"].size(), 100U);
}

// Also where a piece ends with the last row of a list, where there is no row at all, and where the rows of a
// whole piece add nothing.
TEST(ControlResults, LongAnswersComeInPiecesThatTogetherAreWhole) {
  for (const std::size_t jobs : {0U, 1U, 15U, 16U, 17U, 32U, 100U}) {
    for (const bool silent : {false, true}) {
      api::Snapshot box = make_snapshot();
      const api::JobCounts job = box.jobs[silent ? 1 : 0];  // without drops
      box.jobs.clear();
      for (std::size_t i = 0; i < jobs; ++i) {
        box.jobs.push_back(job);
        box.jobs.back().status.name = "job" + std::to_string(i);
        box.jobs.back().status.slots.count = silent ? 0 : 1;
      }
      for (const Made made : {api::LongAnswer::stats, api::LongAnswer::job_list, api::LongAnswer::drop_list,
                              api::LongAnswer::slot_show}) {
        api::LongAnswer answer = made(std::make_shared<const api::Snapshot>(box));
        std::string text;
        std::size_t longest = 0;
        for (std::string piece = answer.next(); !piece.empty(); piece = answer.next()) {
          longest = std::max(longest, piece.size());
          text += piece;
        }
        EXPECT_LT(longest, 20'000U);
        const api::Json whole = api::Json::parse(text);
        for (const char* const key : {"jobs", "drops"}) {
          if (!whole.contains(key)) continue;
          const bool of_all = !silent || (std::string(key) == "jobs" && made != api::LongAnswer::slot_show);
          ASSERT_EQ(whole[key].size(), of_all ? jobs : 0) << key;
          for (std::size_t i = 0; i < whole[key].size(); ++i) {
            const api::Json& row = whole[key][i];
            EXPECT_EQ(row.contains("job") ? row["job"] : row["name"], "job" + std::to_string(i));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tally::control_api_test
