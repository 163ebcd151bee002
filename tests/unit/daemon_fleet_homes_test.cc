// Jobs of several boxes in a fleet: where their home is, when this box is it, and what becomes of those that are gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "daemon_fleet_bed.h"
#include "fake_store.h"

namespace tally::daemon_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

// It would be kept from somebody who plans, or who has the job.
TEST_F(DaemonFleet, ASeatThatIsNotItsOwnTheBoxDoesNotTake) {
  ASSERT_TRUE(
      server.apply(fleet::Put{"/site/job/resnet", fleet::text_of(fleet::JobRecord{.name = "resnet"})}));
  run(10 * kSecond);
  EXPECT_FALSE(server.pairs().contains("/site/planner"));
  EXPECT_FALSE(server.pairs().contains("/site/job/resnet/home"));
}

TEST_F(DaemonFleet, AJobOfSeveralBoxesIsDeclaredByItsHome) {
  give_job();
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(told, 0) << "it is as its configuration says";
  const auto record = fleet::read_job("vgg", server.pairs().at("/site/job/vgg").value);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->spec.dump(),
            R"({"workers":4,"servers":2,"boxes":["10.0.0.1","10.0.0.2"],"token_check":0})");
}

TEST_F(DaemonFleet, AJobGoesWhereItsSeatIsAndComesBack) {
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack2", lease);
  give_job();
  run(2 * kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
  EXPECT_EQ(told, 1);
  EXPECT_THAT(log, Contains("job 'vgg': box rack2 at 10.0.0.2 is its home now, this box was it"));
  run(20 * kSecond);
  EXPECT_EQ(told, 1) << "and it stays there";
  EXPECT_EQ(home_in_store(), "rack2");
  server.end_lease(lease);
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(jobs[0].boxes.home, 0);
  EXPECT_THAT(log, Contains("job 'vgg': this box is its home now, 10.0.0.2 was it"));
}

TEST_F(DaemonFleet, WithoutTheStoreAHomeStaysAndNobodyBecomesOne) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  store->faults.unreachable = true;
  // Its own lease ends meanwhile, and another box takes the seat: nobody can tell it.
  server.end_lease(own().lease);
  seat("rack2", lease);
  run(60 * kSecond);
  EXPECT_EQ(told, 0);
  EXPECT_EQ(jobs[0].boxes.home, 0);
  store->faults.unreachable = false;
  run(10 * kSecond);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(jobs[0].boxes.home, 1);
}

// Its workers need not wait for the end of its drain.
TEST_F(DaemonFleet, AHomeThatLeavesSendsItsJobsToWhoTakesThem) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  link->leave(now);
  run(kSecond);
  ASSERT_EQ(home_in_store(), "");
  seat("rack2", lease);
  run(kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
  EXPECT_EQ(home_in_store(), "rack2");
}

// Somebody's configuration is wrong. Nothing moves, and it is said once.
TEST_F(DaemonFleet, AHomeThatIsNoneOfItsBoxesMovesNothing) {
  const auto lease = add_box("rack9", "10.0.0.9");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack9", lease);
  give_job();
  run(10 * kSecond);
  EXPECT_EQ(told, 0);
  const std::string said = "job 'vgg': its home in the fleet is box rack9, which is none of its boxes here";
  EXPECT_EQ(std::count(log.begin(), log.end(), said), 1);
}

TEST_F(DaemonFleet, AJobThatItHasNoRoomForItLeavesAndSaysSoOnce) {
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  give_job();
  objection = "admission: 0 KiB are free";
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "");
  objection = "admission: 64 KiB are free";
  run(kSecond);
  const std::string said = "job 'vgg': it has no home, and this box does not take it: admission: ";
  EXPECT_EQ(std::ranges::count_if(log, [&](const std::string& line) { return line.starts_with(said); }), 1);
  ASSERT_EQ(link->status(now)->jobs.size(), 1U);
  EXPECT_EQ(link->status(now)->jobs[0].left, "admission: 64 KiB are free");
  objection.clear();
  run(2 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(link->status(now)->jobs[0].left, "");
}

// By what the home said of its generation, which is in the store when the home is not.
TEST_F(DaemonFleet, WhetherItCouldCarryTheGenerationItAsksItselfBefore) {
  give_job();
  jobs[0].needs = {352, 256};
  run(3 * kSecond);
  const std::string said = server.pairs().at("/site/job/vgg").value;
  EXPECT_THAT(said, HasSubstr(R"("generation":{"elements":352,"largest_window":256})"));
  jobs[0].needs = {};
  run(3 * kSecond);
  EXPECT_EQ(server.pairs().at("/site/job/vgg").value.find("generation"), std::string::npos);
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", said}));
  seat("rack2", lease);
  run(kSecond);
  ASSERT_EQ(jobs[0].boxes.home, 1);
  asked = {};
  objection = "admission: 0 KiB are free";
  server.end_lease(lease);
  run(10 * kSecond);
  EXPECT_EQ(asked, (members::HomeNeeds{352, 256}));
  EXPECT_EQ(home_in_store(), "");
  EXPECT_TRUE(news.nobody) << "members wait here";
  objection.clear();
  run(2 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  // What is none is nothing.
  server.end_lease(own().lease);
  ASSERT_TRUE(server.apply(fleet::Put{
      "/site/job/vgg",
      fleet::text_of(fleet::JobRecord{
          .name = "vgg", .spec = {{"generation", {{"elements", 70'000}, {"largest_window", 100}}}}})}));
  run(3 * kSecond);
  EXPECT_EQ(asked, members::HomeNeeds{});
}

TEST_F(DaemonFleet, AHomeWithoutRoomGivesItsSeatBackAndSaysSo) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  jobs[0].no_room = objection = "admission: 0 KiB are free";
  jobs[0].needs = {352, 256};
  run(kSecond);
  EXPECT_EQ(home_in_store(), "");
  EXPECT_THAT(server.pairs().at("/site/job/vgg").value, HasSubstr(R"("largest_window":256)"));
  EXPECT_THAT(log,
              Contains("job 'vgg': this box is its home, and gives that back: admission: 0 KiB are free"));
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "admission: 0 KiB are free");
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "") << "it stays free";
  seat("rack2", lease);
  run(kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
}

// A box that is cut off cannot know what became of its seat: by its own clock it is sure no longer than its lease is.
TEST_F(DaemonFleet, AHomeIsSureOfItselfNoLongerThanItsLease) {
  give_job();
  EXPECT_EQ(news.sure_until, kNever) << "nothing was said";
  run(50 * kMillisecond);
  EXPECT_EQ(news.sure_until, 0U) << "it has no seat yet";
  run(3 * kSecond);
  EXPECT_GT(news.sure_until, now);
  EXPECT_LE(news.sure_until, now + 5 * kSecond);
  store->faults.unreachable = true;
  const TimeNs cut = now;
  run(20 * kSecond);
  EXPECT_LE(news.sure_until, cut + 5 * kSecond);
  store->faults.unreachable = false;
  run(10 * kSecond);
  EXPECT_GT(news.sure_until, now);
  link->leave(now);
  run(kSecond);
  EXPECT_EQ(news.sure_until, 0U);
}

TEST_F(DaemonFleet, ThatNobodyIsTheHomeABoxSaysOnlyWhileItHearsTheFleet) {
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack2", lease);
  give_job();
  run(2 * kSecond);
  EXPECT_FALSE(news.nobody);
  objection = "admission: 0 KiB are free";
  ASSERT_TRUE(server.apply(fleet::Erase{{"/site/job/vgg/home", false}}));
  run(5 * kSecond);
  EXPECT_FALSE(news.nobody) << "the box that was it lives, and is asked";
  server.end_lease(lease);
  run(3 * kSecond);
  EXPECT_TRUE(news.nobody);
  store->faults.unreachable = true;
  run(20 * kSecond);
  EXPECT_FALSE(news.nobody);
}

TEST_F(DaemonFleet, AJobThatWasDeclaredAsAnotherItLeaves) {
  const fleet::Json boxes{"10.0.0.1", "10.0.0.2"};
  const auto declared = [&](int workers, int servers, const fleet::Json& at, std::optional<int> token = {}) {
    fleet::JobRecord record{.name = "vgg",
                            .spec = {{"workers", workers}, {"servers", servers}, {"boxes", at}}};
    if (token) record.spec["token_check"] = *token;
    ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(record)}));
    run(3 * kSecond);
  };
  declared(5, 2, boxes);
  give_job();
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "");
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with workers 5, this box with 4");
  declared(4, 1, boxes);
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with servers 1, this box with 2");
  declared(4, 2, {"10.0.0.1"});
  EXPECT_EQ(link->status(now)->jobs.at(0).left,
            R"(the fleet has it with boxes ["10.0.0.1"], this box with ["10.0.0.1","10.0.0.2"])");
  jobs[0].token_check = 17;
  declared(4, 2, boxes, 18);
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with another token than this box");
  EXPECT_EQ(home_in_store(), "");
  declared(4, 2, boxes, 17);
  EXPECT_EQ(home_in_store(), "rack1");
}

// A box of the version before says nothing of tokens.
TEST_F(DaemonFleet, ItsHomeSaysWhichTokenAJobHas) {
  const fleet::JobRecord record{
      .name = "vgg", .spec = {{"workers", 4}, {"servers", 2}, {"boxes", {"10.0.0.1", "10.0.0.2"}}}};
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(record)}));
  give_job();
  jobs[0].token_check = 17;
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  const auto said = [&] {
    return fleet::read_job("vgg", server.pairs().at("/site/job/vgg").value)->spec["token_check"];
  };
  run(3 * kSecond);
  EXPECT_EQ(said(), 17);
  jobs[0].token_check = 18;
  run(3 * kSecond);
  EXPECT_EQ(said(), 18);
}

TEST_F(DaemonFleet, AJobThatItsHomeHasNoMoreIsWithdrawn) {
  give_job();
  run(3 * kSecond);
  ASSERT_EQ(home_in_store(), "rack1");
  jobs.clear();
  run(kSecond);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg"));
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
  give_job();
  run(kSecond);
  EXPECT_EQ(home_in_store(), "rack1") << "and declared again";
}

// Nobody else could take the seat of a box that lives.
TEST_F(DaemonFleet, AJobThatWentWhileEtcdWasAwayIsWithdrawnWhenItIsBack) {
  give_job();
  run(3 * kSecond);
  ASSERT_EQ(home_in_store(), "rack1");
  const fleet::LeaseId lease = own().lease;
  store->faults.unreachable = true;
  // So long that by the box's clock its lease may have ended; etcd was down, and begins leases anew when it is back.
  const auto run_down = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      run(kSecond);
      ASSERT_TRUE(server.apply(fleet::KeepAlive{lease}));
    }
  };
  run_down(10);
  jobs.clear();
  run_down(2);
  store->faults.unreachable = false;
  run(30 * kSecond);
  EXPECT_EQ(own().lease, lease);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg"));
}

TEST_F(DaemonFleet, AJobThatWentWhileItsDeclarationWasOnItsWayIsWithdrawn) {
  run(3 * kSecond);
  give_job();
  store->faults.delay = 2 * kSecond;
  for (int turns = 0; turns < 1000 && home_in_store().empty(); ++turns) run(10 * kMillisecond);
  ASSERT_EQ(home_in_store(), "rack1");
  ASSERT_TRUE(link->status(now)->jobs.empty()) << "this box has not heard of it";
  jobs.clear();
  store->faults.delay = 0;
  const fleet::LeaseId lease = own().lease;
  run(30 * kSecond);
  EXPECT_EQ(own().lease, lease);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
}

}  // namespace
}  // namespace tally::daemon_test
