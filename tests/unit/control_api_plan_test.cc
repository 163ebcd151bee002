// What the control interface says of plans, and of jobs that have none.

#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/long_answer.h"
#include "api/results.h"
#include "control_api_plan_scene.h"
#include "plan_report/report_json.h"

namespace tally::control_api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

api::Json shown(const api::Snapshot& box, bool every_load = false) {
  return api::Json::parse(
      api::LongAnswer::plan_show(std::make_shared<const api::Snapshot>(box), every_load).all());
}

const api::Json& job_of(const api::Json& answer, const std::string& name) {
  static const api::Json nothing;
  for (const api::Json& job : answer["jobs"])
    if (job["name"] == name) return job;
  return nothing;
}

TEST(ControlPlans, APlanSaysItsRateWhatIsFullAndWhy) {
  const api::Json answer = shown(make_planned_snapshot());
  EXPECT_EQ(answer["planning"], true);
  EXPECT_EQ(answer["changes"].dump(), R"({"first":1,"lost":2})");
  EXPECT_EQ(answer["revision"], 7);
  const api::Json& job = job_of(answer, "resnet");
  EXPECT_EQ(job["rate_gbps"], 12.5);
  EXPECT_EQ(job["full"], "box rack1");
  EXPECT_EQ(job["why"], "lost box rack2");
  EXPECT_EQ(job["planned_ns_ago"], 12 * kSecond);
  EXPECT_EQ(job["pause_ns"], 1'200'000);
  EXPECT_EQ(job["without_gbps"]["equal_split"], nullptr) << "it could not be reckoned";
  EXPECT_EQ(job["ring_is_faster"], true);
  EXPECT_EQ(job["box_parts"][0]["share"], 0.75);
}

TEST(ControlPlans, OfHostsLinksTheFullestAloneUnlessAllAreAsked) {
  const api::Snapshot box = make_planned_snapshot();
  EXPECT_THAT(job_of(shown(box), "resnet")["loads"], SizeIs(4));
  EXPECT_EQ(job_of(shown(box), "resnet")["more_loads"], 1);
  EXPECT_THAT(job_of(shown(box, true), "resnet")["loads"], SizeIs(5));
  EXPECT_EQ(job_of(shown(box, true), "resnet")["more_loads"], 0);
}

TEST(ControlPlans, TheClusterHasItsLoadsAndWhatIsLost) {
  const api::Json answer = shown(make_planned_snapshot());
  EXPECT_THAT(answer["switches"], SizeIs(3));
  EXPECT_EQ(answer["links"][1]["from"], "spine");
  EXPECT_EQ(answer["links"][1]["load_gbps"], 10);
  EXPECT_EQ(answer["boxes"][0]["at"], "rack1");
  EXPECT_EQ(answer["boxes"][0]["here"], true);
  EXPECT_EQ(answer["boxes"][1]["state"], "lost");
  EXPECT_EQ(answer["servers"][1]["at"], "rack2");
}

TEST(ControlPlans, EveryDeclaredJobIsThereOnceAndSaysWhyItHasNoPlan) {
  api::Snapshot box = make_planned_snapshot();
  box.jobs.push_back(box.jobs[0]);  // a job of one box
  box.jobs.back().status.name = "alone";
  box.jobs.push_back(box.jobs[0]);
  box.jobs.back().status.name = "elsewhere";
  box.jobs.back().status.boxes = members::BoxesStatus{
      .here = BoxIndex{1}, .home = BoxIndex{0}, .boxes = {{mapped({10, 0, 0, 1})}, {mapped({10, 0, 0, 2})}}};
  box.jobs.back().status.servers.resize(2);
  box.jobs.push_back(box.jobs.back());
  box.jobs.back().status.name = "even";
  box.jobs.back().status.boxes->home = BoxIndex{1};
  box.jobs.push_back(box.jobs[0]);
  box.jobs.back().status.name = "past";
  box.jobs.back().declared = false;
  const api::Json answer = shown(box);
  std::vector<std::string> names;
  for (const api::Json& job : answer["jobs"]) names.push_back(job["name"]);
  EXPECT_THAT(names, ElementsAre("bert", "resnet", "alone", "elsewhere", "even"));
  EXPECT_EQ(job_of(answer, "bert")["error"], "rank 1 at 10.9.0.4 is in no rack of the cluster");
  EXPECT_EQ(job_of(answer, "alone")["error"], "this box alone sums it");
  EXPECT_EQ(job_of(answer, "elsewhere")["error"], "its plan is known to its home, box 10.0.0.1: ask there");
  EXPECT_EQ(job_of(answer, "elsewhere")["home"], "10.0.0.1");
  EXPECT_EQ(job_of(answer, "elsewhere")["servers"], 2);
  EXPECT_EQ(job_of(answer, "elsewhere")["here"], false);
  EXPECT_EQ(job_of(answer, "even")["error"], "nobody is in it yet");
  box.plans = nullptr;
  EXPECT_EQ(job_of(shown(box), "even")["error"],
            "all its boxes have the same part of it: planner.cluster is not configured");
  EXPECT_EQ(shown(box)["planning"], false);
  EXPECT_THAT(shown(box)["links"], SizeIs(0));
}

TEST(ControlPlans, OneJobIsShownByItsName) {
  NotedBox box;
  box.now = make_planned_snapshot();
  const api::Json one = said(box, request("plan.show", R"({"name":"resnet"})"))["result"];
  EXPECT_THAT(one["jobs"], SizeIs(1));
  EXPECT_FALSE(one.contains("links")) << "the cluster is not the job's";
  EXPECT_THAT(one["jobs"][0]["loads"], SizeIs(4));
  const api::Json all = said(box, request("plan.show", R"({"name":"resnet","all":true})"))["result"];
  EXPECT_THAT(all["jobs"][0]["loads"], SizeIs(5));
  EXPECT_EQ(said(box, request("plan.show", R"({"name":"resnte"})"))["error"]["data"]["nearest"], "resnet");
  EXPECT_EQ(said(box, request("plan.show"), kReader)["result"]["jobs"].size(), 2U) << "anybody may read";
}

// As of one that does not plan.
struct PlainBox : NotedBox {
  Result<void> set_plan_rate(const std::string& resource, std::optional<double> gbps) override {
    return api::Box::set_plan_rate(resource, gbps);
  }
};

TEST(ControlPlans, ARateIsAsInTheFileOfTheCluster) {
  NotedBox box;
  const auto rate = [&](const std::string& resource, const std::string& text) {
    return said(box, request("plan.rate", R"({"resource":")" + resource + R"(","rate":")" + text + "\"}"));
  };
  EXPECT_EQ(rate("link a to b", "12.5G")["result"]["rate_gbps"], 12.5);
  EXPECT_EQ(rate("link a to b", "0")["result"]["rate_gbps"], 0);
  EXPECT_EQ(rate("link a to b", "file")["result"]["rate_gbps"], nullptr);
  EXPECT_THAT(box.notes, ElementsAre("link a to b has 12.500000", "link a to b has 0.000000",
                                     "link a to b has the file's"));
  EXPECT_THAT(box.told, testing::Contains(HasSubstr("plan.rate of resource 'link a to b', rate '12.5G'")));
  EXPECT_EQ(rate("link a to b", "fast")["error"]["data"]["path"], "params.rate");
  box.refusal = "there is no link a to c";
  EXPECT_THAT(rate("link a to c", "1G")["error"]["message"].get<std::string>(), HasSubstr(box.refusal));
  PlainBox alone;
  EXPECT_THAT(said(alone, request("plan.rate", R"({"resource":"box a","rate":"1G"})"))["error"]["message"]
                  .get<std::string>(),
              HasSubstr("planner.cluster"));
  EXPECT_EQ(said(box, request("plan.rate", R"({"resource":"box a","rate":"1G"})"), kReader)["error"]["code"],
            -32001);
}

TEST(PlanReport, JsonReadBackIsTheSame) {
  const plan_report::JobReport report = make_plans().jobs[1].report;
  EXPECT_EQ(plan_report::report_of(plan_report::to_json(report, true)), report);
  plan_report::JobReport fullest = report;
  fullest.loads.pop_back();
  fullest.more_loads = 1;
  EXPECT_EQ(plan_report::report_of(plan_report::to_json(report, false)), fullest);
  const plan_report::JobReport none = make_plans().jobs[0].report;
  EXPECT_EQ(plan_report::report_of(plan_report::to_json(none, true)), none);
}

TEST(PlanReport, WhatIsMissingOrOfAnotherTypeIsEmpty) {
  for (const char* const text :
       {"null", "7", "[]", "{}", R"({"name":7,"loads":{},"without_gbps":[1],"box_parts":[1,{"name":[]}]})",
        R"({"workers":-1,"rate_gbps":"x","loads":[null],"without_gbps":{"own_rack":"x"}})"}) {
    const plan_report::JobReport read = plan_report::report_of(api::Json::parse(text));
    EXPECT_EQ(read.name, "");
    EXPECT_EQ(read.rate, 0);
    EXPECT_EQ(read.workers, 0U);
  }
}

}  // namespace
}  // namespace tally::control_api_test
