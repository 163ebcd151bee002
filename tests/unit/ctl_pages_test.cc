// Answers as people see them, also those of another version or of no tallyd at all.

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/long_answer.h"
#include "client/connection.h"
#include "control_api_plan_scene.h"
#include "ctl/pages.h"

namespace tally::ctl_test {
namespace {

using ctl::Json;
using ctl::Page;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kJob =
    R"({"name":"resnet","phase":"running","dialect":"native","alive":1,"workers":2,"window":256,
  "elements":352,"priority":100,"discipline":"pool","contributions":12345,"results":600,"repeats":1,"relays":0,"filling":256,
  "overflows":0,"reason":"","late_text":"rank 1 (10.0.0.12): silent for 4.0 s","dropped":{"stale":7},"ranks":[
  {"rank":0,"late":false,"joined":true,"left":false,"address":"10.0.0.11","udp_port":40001,"port":"w0","seen_ns_ago":300000000,
   "contributed_ns_ago":4000000000,"chunk":5256,"behind":0},
  {"rank":1,"late":true,"joined":true,"left":false,"address":"10.0.0.12","udp_port":40001,"port":"w1","seen_ns_ago":4000000000,
   "contributed_ns_ago":null,"chunk":5000,"behind":256}],"servers":[]})";

TEST(CtlPages, AJobSaysWhoIsLate) {
  const std::string page = ctl::page_text(Page::kJob, Json::parse(kJob));
  EXPECT_THAT(page, HasSubstr("late: rank 1 (10.0.0.12): silent for 4.0 s\n"));
  EXPECT_THAT(page, HasSubstr("1     LATE   10.0.0.12:40001  w1    4.0 s ago        never   5000     256\n"));
  EXPECT_THAT(page, HasSubstr("12,345 contributions"));
  EXPECT_THAT(page, HasSubstr("dropped: stale 7\n"));
  EXPECT_THAT(page, HasSubstr("window 256, "));
  Json waits = Json::parse(kJob);
  waits["wanted_window"] = 64;
  EXPECT_THAT(ctl::page_text(Page::kJob, waits), HasSubstr("window 256 (64 are wanted), "));
}

TEST(CtlPages, AJobOfRacksSaysWhatTheParentIsToIt) {
  Json job = Json::parse(kJob);
  job["racks"] = Json::parse(
      R"({"workers":[8,2],"world":10,"rack":1,"first":8,"parent":"10.0.9.1","state":"joining","heard_ns_ago":200000000,
      "missing_racks":[0],"told":""})");
  job["ranks"][0]["number"] = 8;
  job["ranks"][1]["number"] = 9;
  const std::string page = ctl::page_text(Page::kJob, job);
  EXPECT_THAT(
      page,
      HasSubstr("rack 1 of 2, ranks 8 to 9 of 10; parent 10.0.9.1: joining, heard 0.2 s ago; it waits for "
                "rack 0\n"));
  EXPECT_THAT(page, HasSubstr("\n9     LATE   10.0.0.12:40001"));
  EXPECT_THAT(page, Not(HasSubstr("in its place")));
  job["racks"]["told"] = "go away";
  EXPECT_THAT(ctl::page_text(Page::kJob, job), HasSubstr("somebody in its place says: go away\n"));
  job["racks"] = Json::parse(R"({"workers":[8,2],"world":10,"rack":null})");
  const std::string parent = ctl::page_text(Page::kJob, job);
  EXPECT_THAT(parent, HasSubstr("parent of 2 racks with 10 workers\n"));
  EXPECT_THAT(parent, HasSubstr("\nrack  state"));
  job["racks"] = Json::parse(R"({"workers":7,"rack":1})");  // of another version
  EXPECT_THAT(ctl::page_text(Page::kJob, job), HasSubstr("rack 1 of 0"));
}

constexpr const char* kFleet =
    R"({"in_fleet":true,"id":"rack1","prefix":"/tally","endpoints":["http://10.0.0.1:2379"],"standing":"member","since_ns_ago":5000000000,
  "reason":null,"known":true,"planner":"rack2","planner_since_ns_ago":12000000000,"is_planner":false,"boxes":[
  {"id":"rack1","name":"rack1","here":true,"planner":false,"since":1,"age_s":83,"addresses":["10.0.0.11"],"rate":null,"cores":2,
   "free_slots":4096,"free_bytes":66800000},
  {"id":"rack2","name":"rack2","here":false,"planner":true,"since":1,"age_s":260000,"addresses":["10.0.0.12","fd00::12"],"rate":null,
   "cores":4,"free_slots":0,"free_bytes":0}],"jobs":[{"name":"resnet","home":null,"plan_epoch":3,"not_taken_because":"there is no room"}],
  "bad_records":[{"key":"/tally/x","why":"it is no key of a fleet"}],"bad_records_now":1,"bad_records_total":1,"leases_lost":0,
  "reads":1})";

TEST(CtlPages, AFleetSaysWhoIsThereAndWhoPlans) {
  const std::string page = ctl::page_text(Page::kFleet, Json::parse(kFleet));
  EXPECT_THAT(page, HasSubstr("box rack1 of fleet /tally: member\n"));
  EXPECT_THAT(
      page,
      HasSubstr("rack1  here           10.0.0.11                83 s      2       4,096      66.8 MB\n"));
  EXPECT_THAT(page, HasSubstr("rack2        yes      10.0.0.12, fd00::12  3.0 days      4           0"));
  EXPECT_THAT(page, HasSubstr("resnet  -        3\n"));
  EXPECT_THAT(page, HasSubstr("\njob resnet has no home, and this box does not take it: there is no room\n"));
  EXPECT_THAT(page, HasSubstr("are ignored: 1\n  /tally/x: it is no key of a fleet\n"));
  EXPECT_THAT(page, Not(HasSubstr("nobody plans")));
  EXPECT_THAT(page, HasSubstr("box rack2 plans, seen here first 12.0 s ago\n"));
}

TEST(CtlPages, AFleetSaysSinceWhenEtcdIsGone) {
  Json fleet = Json::parse(kFleet);
  fleet["standing"] = "away";
  fleet["reason"] = "no connection to http://10.0.0.1:2379";
  fleet["planner"] = nullptr;
  fleet["planner_since_ns_ago"] = nullptr;
  const std::string page = ctl::page_text(Page::kFleet, fleet);
  EXPECT_THAT(
      page, HasSubstr("box rack1 of fleet /tally: ETCD IS GONE: it answered last 5.0 s ago (no connection to "
                      "http://10.0.0.1:2379); jobs go on, nothing new is planned\nwhat was known then:\n"));
  EXPECT_THAT(page, HasSubstr("nobody plans\n"));
  fleet["known"] = false;
  EXPECT_THAT(
      ctl::page_text(Page::kFleet, fleet),
      HasSubstr("NO ETCD YET: none since the start, 5.0 s ago (no connection to http://10.0.0.1:2379)"));
  fleet["standing"] = "joining";
  fleet["reason"] = "the ID rack1 is taken until a lease is over: 'rack1' at 10.0.0.9";
  EXPECT_THAT(ctl::page_text(Page::kFleet, fleet), HasSubstr("/tally: joining: the ID rack1 is taken until"));
  fleet["reason"] = "no connection to http://10.0.0.1:2379";
  fleet["standing"] = "refused";
  EXPECT_THAT(ctl::page_text(Page::kFleet, fleet), HasSubstr("ETCD REFUSES IT: no connection"));
  fleet["standing"] = "taken";
  EXPECT_THAT(ctl::page_text(Page::kFleet, fleet), HasSubstr("NOT IN IT: no connection"));
  EXPECT_EQ(ctl::page_text(Page::kFleet, Json{{"in_fleet", false}}),
            "the box is in no fleet: its configuration has no fleet.endpoints\n");
}

std::string plan_page_of(const api::Snapshot& box) {
  const auto taken = std::make_shared<const api::Snapshot>(box);
  return ctl::page_text(Page::kPlan, Json::parse(api::LongAnswer::plan_show(taken, false).all()));
}

TEST(CtlPages, APlanIsAsTallyPlanShowsItAndSaysWhenAndWhy) {
  const std::string page = plan_page_of(control_api_test::make_planned_snapshot());
  for (const char* const words :
       {"planned here, for the cluster of /etc/tally/cluster.yaml\n",
        "job bert: 2 workers, no server\n  no plan: rank 1 at 10.9.0.4 is in no rack of the cluster\n",
        "job resnet: 8 workers in 2 racks, 2 servers\n  home     rack1, this box\n"
        "  planned  12.0 s ago, for: lost box rack2, any box, effort full, epoch 7, the job paused for\n     "
        "      1.2 ms\n"
        "  boxes    rack1 75.0 %, directly to servers 25.0 %\n  servers  ps1 50.0 %, ps2 50.0 %\n"
        "  rate     12.50 Gbit/s from every worker\n  full     box rack1, and 1 more as full\n"
        "  at most  25.00 Gbit/s by any plan: this is 50.0 % of it\n",
        "  no aggregation                                      6.25       50.0 %\n",
        "  A ring would be faster, and needs no box: 12.90 against 12.50 Gbit/s.\n",
        "  box rack1              100.00  100.00  100.0 %\n", "  ... and 1 more: --all\n",
        "\nboxes that are lost, and plans do without: rack2\n"})
    EXPECT_THAT(page, HasSubstr(words));
}

TEST(CtlPages, WithoutAPlannerItSaysWhichKeyMakesOne) {
  const std::string page = plan_page_of(control_api_test::make_snapshot());
  EXPECT_THAT(page, HasSubstr("no planner: "));
  EXPECT_THAT(page, HasSubstr("planner.cluster"));
  EXPECT_THAT(page, HasSubstr("job resnet: 3 workers, no server\n  no plan: this box alone sums it\n"));
}

TEST(CtlPages, APlannerOfAFleetIsNamedAndSoIsWhatKeepsIt) {
  api::Snapshot box = control_api_test::make_planned_snapshot();
  api::PlanStatus plans = *box.plans;
  plans.planner = "rack7";
  plans.is_planner = false;
  plans.trouble = "etcd is gone";
  box.plans = std::make_shared<const api::PlanStatus>(plans);
  EXPECT_THAT(plan_page_of(box), HasSubstr("planned by box rack7 of the fleet, for the cluster of /etc/tally/"
                                           "cluster.yaml\nNOT PLANNED ANEW: etcd is gone\n"));
  plans.is_planner = true;
  box.plans = std::make_shared<const api::PlanStatus>(plans);
  EXPECT_THAT(plan_page_of(box),
              HasSubstr("planned here for all boxes of the fleet, for the cluster of /etc"));
}

TEST(CtlPages, ARateThatWasSetSaysWhatHoldsNow) {
  const auto page = [](const char* answer) { return ctl::page_text(Page::kPlanRate, Json::parse(answer)); };
  EXPECT_EQ(page(R"({"resource":"box a","rate_gbps":12.5})"), "box a has 12.500 Gbit/s from now on\n");
  EXPECT_EQ(page(R"({"resource":"box a","rate_gbps":0})"), "box a is down from now on\n");
  EXPECT_EQ(page(R"({"resource":"box a","rate_gbps":null})"), "box a has what the cluster's file says\n");
}

TEST(CtlPages, AJobSaysItsQuotasOfRate) {
  Json job = Json::parse(kJob);
  EXPECT_THAT(ctl::page_text(Page::kJob, job), Not(HasSubstr("in a second")));
  job["packet_rate"] = nullptr;
  job["bad_packet_rate"] = 10'000U;
  EXPECT_THAT(ctl::page_text(Page::kJob, job),
              HasSubstr("overflows\nat most, in a second: 10,000 bad packets of each rank\ndropped"));
  job["packet_rate"] = 2'000'000U;
  EXPECT_THAT(ctl::page_text(Page::kJob, job),
              HasSubstr("at most, in a second: 2,000,000 packets, 10,000 bad packets of each rank\n"));
}

TEST(CtlPages, WhatIsMissingOrOfAnotherTypeIsADash) {
  for (const Page page :
       {Page::kJobs, Page::kJob, Page::kPorts, Page::kCores, Page::kSlots, Page::kDrops, Page::kStats,
        Page::kConfig, Page::kCheck, Page::kReload, Page::kLog, Page::kHealth, Page::kVersion,
        Page::kTraceState, Page::kDoctor, Page::kFleet, Page::kPlan, Page::kPlanRate}) {
    for (const char* const answer :
         {"null", "{}", "[]", "7", R"({"jobs":7,"ports":{},"ranks":"x","drops":[null,1],"problems":[[]]})",
          R"({"diagnostics":[{"line":1e300,"caret":-1},{"line":1,"caret":1e300}]})",
          R"({"jobs":[{"late":["x",-1]}],"dropped":[1],"session":1,"changed":[1]})"}) {
      EXPECT_FALSE(ctl::page_text(page, Json::parse(answer)).empty())
          << static_cast<int>(page) << " of " << answer;
    }
  }
}

TEST(CtlPages, NothingOfTheDaemonReachesTheTerminalRaw) {
  const Json answer = Json::parse(R"({"jobs":[{"name":"a\u001b[31mb\n"}]})");
  EXPECT_THAT(ctl::page_text(Page::kJobs, answer), Not(HasSubstr("\x1b")));
  EXPECT_EQ(ctl::names_text(answer), "a [31mb \n");
}

TEST(CtlPages, AReloadSaysWhatItDid) {
  EXPECT_EQ(ctl::page_text(Page::kReload, Json::parse(R"({"changed":[],"failed":[],"restart":[]})")),
            "nothing differs from what runs\n");
  EXPECT_EQ(ctl::page_text(Page::kReload,
                           Json::parse(R"({"changed":["a"],"failed":["b"],"restart":["box.ipv4"]})")),
            "a\nnot done: b\nrestart tallyd to apply: box.ipv4\n");
}

TEST(CtlAnswers, ErrorsBecomeSentencesAndExitCodes) {
  const auto of = [](const std::string& error) {
    return client::read_answer(R"({"jsonrpc":"2.0","id":1,"error":)" + error + "}", 1).error();
  };
  EXPECT_EQ(of(R"({"code":-32010,"message":"there is no job 'x'","data":{"jobs":["a","b"]}})").text,
            "there is no job 'x'; there are a, b");
  EXPECT_EQ(of(R"({"code":-32010,"message":"m","data":{}})").fault, client::Fault::kRefused);
  EXPECT_EQ(of(R"({"code":-32001,"message":"m","data":{"want":"root"}})").fault,
            client::Fault::kNotPermitted);
  EXPECT_EQ(of(R"({"code":-32001,"message":"m","data":{"want":"root"}})").text, "m (wanted: root)");
  EXPECT_EQ(of(R"({"code":-32602,"message":"x, want 1 or 2","data":{"want":"1 or 2"}})").text,
            "x, want 1 or 2");
  EXPECT_EQ(of(R"({"code":-32012,"message":"m"})").fault, client::Fault::kErrors);
}

TEST(CtlAnswers, WhatIsNoAnswerIsNoTallyd) {
  for (const char* const line :
       {"", "HTTP/1.1 400", "[]", "{}", R"({"id":2,"result":{}})", R"({"id":"1","result":{}})"}) {
    const auto answer = client::read_answer(line, 1);
    ASSERT_FALSE(answer.has_value()) << line;
    EXPECT_EQ(answer.error().fault, client::Fault::kUnreachable) << line;
  }
  EXPECT_EQ(client::read_answer(R"({"id":1,"result":{"a":1}})", 1)->dump(), R"({"a":1})");
}

}  // namespace
}  // namespace tally::ctl_test
