// Every method: what it does, what it refuses, who may ask.

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/events.h"
#include "api/results.h"
#include "control_api_scene.h"

namespace tally::control_api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

api::Json error_of(const std::string& line, const api::Caller& caller = kOperator) {
  NotedBox box;
  return said(box, line, caller)["error"];
}

// Parameters that the method takes.
std::string good_parameters(const api::Method& method) {
  api::Json all = api::Json::object();
  for (const api::Parameter& p : method.parameters) {
    const std::string name(p.name);
    if (p.type == api::Parameter::Type::kObject)
      all[name] = {{"name", "resnet"}};
    else if (name == "name" || name == "job")
      all[name] = "resnet";
    else if (name == "if_revision")
      all[name] = 7;
    else if (p.type == api::Parameter::Type::kFlag)
      all[name] = true;
    else if (p.type == api::Parameter::Type::kWhole)
      all[name] = 64;
    else if (p.type == api::Parameter::Type::kWord)
      all[name] = p.words.front();
    else
      all[name] = name == "rate" ? "25G" : "text";
  }
  for (const std::string& key : method.keys) all[key] = "some";
  return all.dump();
}

TEST(ControlMethods, EachAnswersAndEachThatIsRestrictedAsksForTheRight) {
  for (const api::Method& method : api::methods()) {
    NotedBox box;
    const std::string line = request(std::string(method.name), good_parameters(method));
    EXPECT_TRUE(said(box, line).contains("result")) << line;
    EXPECT_EQ(box.notes.empty(), !api::changes(method)) << line;
    EXPECT_EQ(box.told.size(), api::changes(method) ? 1U : 0U) << line;
    NotedBox other;
    const api::Json answer = said(other, line, kReader);
    EXPECT_EQ(answer.contains("result"), !method.restricted) << line;
    EXPECT_TRUE(other.notes.empty()) << line;
    if (!method.restricted) continue;
    EXPECT_EQ(answer["error"]["code"], -32001) << line;
    EXPECT_EQ(answer["error"]["data"]["want"], "root or a member of group ops") << line;
  }
}

TEST(ControlMethods, TheSchemaIsTheTable) {
  NotedBox box;
  const api::Json methods = said(box, request("api.schema"))["result"]["methods"];
  ASSERT_EQ(methods.size(), api::methods().size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const api::Method& method = api::methods()[i];
    EXPECT_EQ(methods[i]["name"], method.name);
    EXPECT_EQ(methods[i]["restricted"], method.restricted);
    EXPECT_FALSE(method.help.empty()) << method.name;
    EXPECT_EQ(methods[i]["parameters"].size(), method.parameters.size());
    EXPECT_TRUE(names.insert(std::string(method.name)).second) << method.name << " stands twice";
  }
}

TEST(ControlMethods, ThePageHasTheTable) {
  std::ostringstream page;
  page << std::ifstream(TALLY_CTL_PAGE, std::ios::binary).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(api::schema_markdown())) << "docs/tallyctl.md: put this table in";
}

TEST(ControlMethods, ThePageHasTheEvents) {
  std::ostringstream page;
  page << std::ifstream(TALLY_CTL_PAGE, std::ios::binary).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(api::events_markdown())) << "docs/tallyctl.md: put this table in";
}

TEST(ControlMethods, AnEventIsANotificationThatSaysWhatItIsAbout) {
  const api::Json line = api::Json::parse(api::event_line({.kind = "job.joined",
                                                           .level = config::LogSection::Level::kInfo,
                                                           .text = "x",
                                                           .job = "resnet",
                                                           .rank = 3},
                                                          7, 8));
  EXPECT_EQ(line["method"], "event");
  EXPECT_FALSE(line.contains("id"));
  EXPECT_EQ(line["params"].dump(), R"({"number":7,"unix_ns":8,"event":"job.joined","level":"info",)"
                                   R"("job":"resnet","rank":3,"port":null,"text":"x"})");
  EXPECT_EQ(api::Json::parse(api::lost_line(5))["params"].dump(), R"({"event":"lost","count":5})");
}

TEST(ControlMethods, WhoSubscribesFollows) {
  NotedBox box;
  EXPECT_TRUE(api::answer(request("event.subscribe"), kReader, box, "").follow);
  EXPECT_TRUE(api::answer(R"({"jsonrpc":"2.0","method":"event.subscribe"})", kReader, box, "").follow);
  EXPECT_FALSE(api::answer(request("event.subscribe", R"({"x":1})"), kReader, box, "").follow);
  EXPECT_FALSE(api::answer(request("job.list"), kReader, box, "").follow);
}

TEST(ControlMethods, UnknownOnesAreToldTheNearest) {
  const api::Json error = error_of(request("job.lsit"));
  EXPECT_EQ(error["code"], -32601);
  EXPECT_EQ(error["data"]["nearest"], "job.list");
  EXPECT_FALSE(error_of(request("xyz"))["data"].contains("nearest"));
}

TEST(ControlMethods, ParametersAreExactlyThoseOfTheTable) {
  const auto code = [](const std::string& method, const std::string& parameters) {
    return error_of(request(method, parameters))["code"].get<int>();
  };
  for (const char* const parameters :
       {R"({})", R"({"name":"resnet"})", R"({"name":"","window":64})", R"({"name":7,"window":64})",
        R"({"window":64})", R"({"name":"resnet","windw":64})", R"({"name":"resnet","dialect":"switchml"})",
        R"({"name":"resnet","window":64,"if_revision":-1})",
        R"({"name":"resnet","window":64,"if_revision":"7"})"})
    EXPECT_EQ(code("job.set", parameters), -32602) << parameters;
  for (const char* const parameters :
       {R"({})", R"({"job":"resnet"})", R"({"job":[]})", R"({"job":null})", R"({"job":{},"name":"x"})"})
    EXPECT_EQ(code("job.add", parameters), -32602) << parameters;
  for (const char* const parameters :
       {R"({"name":"resnet","abort":1})", R"({"name":"resnet","abort":"yes"})"})
    EXPECT_EQ(code("job.remove", parameters), -32602) << parameters;
  EXPECT_EQ(error_of(request("job.set", R"({"name":"resnet","windw":64})"))["data"]["nearest"], "window");
  const api::Json data = error_of(request("log.set", R"({"level":"loud"})"))["data"];
  EXPECT_EQ(data["path"], "params.level");
  EXPECT_EQ(data["got"], "'loud'");
  EXPECT_EQ(data["want"], "one of trace, debug, info, warning, error");
  EXPECT_EQ(error_of(request("job.abort",
                             R"({"name":"resnet","reason":")" + std::string(513, 'x') + "\"}"))["code"],
            -32602);
}

TEST(ControlMethods, EveryChangeTakesIfRevisionAndEveryAnswerHasOne) {
  for (const api::Method& method : api::methods()) {
    NotedBox box;
    api::Json parameters = api::Json::parse(good_parameters(method));
    EXPECT_EQ(parameters.contains("if_revision"), api::changes(method)) << method.name;
    const auto line = [&] { return request(std::string(method.name), parameters.dump()); };
    EXPECT_EQ(said(box, line())["result"]["revision"], 7) << method.name;
    if (!api::changes(method)) continue;
    box.notes.clear();
    parameters["if_revision"] = 6;
    const api::Json error = said(box, line())["error"];
    EXPECT_EQ(error["code"], -32016) << method.name;
    EXPECT_EQ(error["data"]["revision"], 7) << method.name;
    EXPECT_TRUE(box.notes.empty()) << method.name;
    parameters.erase("if_revision");
    EXPECT_TRUE(said(box, line()).contains("result")) << method.name;
  }
}

// It may be made over many turns, in which the box changes: its rows are of the moment when it began.
TEST(ControlMethods, ALongAnswerHasTheRevisionOfItsRows) {
  for (const char* const method : {"job.list", "slot.show", "drop.list", "plan.show", "stats.get"}) {
    NotedBox box;
    api::Reply reply = api::answer(request(method), kReader, box, "");
    box.now.revision = 8;
    ASSERT_TRUE(reply.rest) << method;
    const api::Json line = api::Json::parse(reply.text + reply.rest->all() + std::string(api::kEndOfRest));
    EXPECT_EQ(line["result"]["revision"], 7) << method;
    const std::string silent = R"({"jsonrpc":"2.0","method":")" + std::string(method) + "\"}";
    const api::Reply none = api::answer(silent, kReader, box, "");
    EXPECT_TRUE(none.text.empty() && !none.rest) << method;
  }
}

TEST(ControlMethods, AJobAndItsKeysReachTheBoxAsTheyCame) {
  NotedBox box;
  const std::string job = R"({"name":"x","workers":4,"quota":{"cap":"30%"},"lease":"5s"})";
  (void)said(box, request("job.add", R"({"job":)" + job + "}"));
  (void)said(box, request("job.set", R"({"name":"resnet","window":65,"quota":{"cap":"x"},"if_revision":7})"));
  (void)said(box, request("job.remove", R"({"name":"resnet"})"));
  (void)said(box, request("job.remove", R"({"name":"resnet","abort":true})"));
  EXPECT_THAT(box.notes, ElementsAre("add " + job, R"(set resnet {"window":65,"quota":{"cap":"x"}} at 7)",
                                     "remove resnet", "remove resnet and abort"));
}

// The answer comes when the change is done, as to a request that was answered at once.
TEST(ControlMethods, AnAnswerMayComeLater) {
  LaterBox box;
  std::vector<std::string> answers;
  const auto ask = [&](const std::string& line) {
    api::answer(line, kOperator, box, "0",
                [&](api::Reply reply) { answers.push_back(std::move(reply.text)); });
  };
  ask(request("job.add", R"({"job":{"name":"resnet"}})"));
  EXPECT_TRUE(answers.empty());
  box.then(api::JobChange{{"a note"}, {}});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(api::Json::parse(answers[0])["result"]["notes"], api::Json({"a note"}));
  EXPECT_EQ(api::Json::parse(answers[0])["result"]["name"], "resnet");
  ask(request("job.add", R"({"job":{"name":"resnet"}})"));
  box.then(tl::unexpected<api::Failure>(api::Failure{api::Code::kNotKept, "no room", nullptr}));
  EXPECT_EQ(api::Json::parse(answers.at(1))["error"]["code"], -32015);
  ask(R"({"jsonrpc":"2.0","method":"job.add","params":{"job":{}}})");
  box.then(api::JobChange{});
  EXPECT_EQ(answers.at(2), "") << "a notification";
}

TEST(ControlMethods, AnUnknownJobIsToldWhichThereAre) {
  for (const char* const method : {"job.show", "job.abort", "job.replan"}) {
    std::string more;
    if (std::string(method) == "job.abort") more = R"(,"reason":"r")";
    const api::Json error = error_of(request(method, R"({"name":"resnt")" + more + "}"));
    EXPECT_EQ(error["code"], -32010) << method;
    EXPECT_EQ(error["data"]["nearest"], "resnet") << method;
    EXPECT_THAT(error["data"]["jobs"], ElementsAre("resnet", "bert"));
  }
}

TEST(ControlMethods, AJobThatIsGoneCanBeLookedAtAndNotChanged) {
  NotedBox box;
  box.now.jobs[0].declared = false;
  EXPECT_EQ(said(box, request("job.show", R"({"name":"resnet"})"))["result"]["phase"], "gone");
  EXPECT_EQ(said(box, request("job.abort", R"({"name":"resnet","reason":"r"})"))["error"]["code"], -32010);
  EXPECT_TRUE(box.notes.empty());
  // Of two of that name the one that is declared, wherever it stands; of those that are gone the last.
  box.now.jobs.push_back(box.now.jobs[0]);
  box.now.jobs[2].status.world = 8;
  EXPECT_EQ(said(box, request("job.show", R"({"name":"resnet"})"))["result"]["workers"], 8);
  box.now.jobs[0].declared = true;
  EXPECT_EQ(said(box, request("job.show", R"({"name":"resnet"})"))["result"]["workers"], 3);
}

TEST(ControlMethods, ChangesGoThroughTheBox) {
  NotedBox box;
  (void)said(box, request("job.set", R"({"name":"resnet","window":64})"));
  (void)said(box, request("job.abort", R"({"name":"bert","reason":"wrong data"})"));
  (void)said(box, request("job.replan", R"({"name":"bert"})"));
  (void)said(box, request("log.set", R"({"level":"debug"})"));
  EXPECT_THAT(box.notes,
              ElementsAre(R"(set resnet {"window":64})", "abort bert: wrong data", "replan bert", "level 1"));
  box.refusal = "not while it drains";
  const api::Json error = said(box, request("job.set", R"({"name":"resnet","window":64})"))["error"];
  EXPECT_EQ(error["code"], -32013);
  EXPECT_EQ(error["message"], "not while it drains");
  const api::Json abort = said(box, request("job.abort", R"({"name":"resnet","reason":"r"})"))["error"];
  EXPECT_EQ(abort["code"], -32013);
  EXPECT_EQ(abort["data"]["phase"], "running");
}

TEST(ControlMethods, WhoChangesWhatIsToldBeforehand) {
  NotedBox box;
  (void)said(box, request("job.set", R"({"name":"resnet","window":64})"));
  (void)said(box, request("job.abort", R"({"name":"bert","reason":"a\u001b[31m\nb"})"));
  (void)said(box, request("config.reload"));
  (void)said(box, request("config.check", R"({"text":""})"));
  (void)said(box, request("job.set", R"({"name":"resnet","window":64})"), kReader);
  EXPECT_THAT(box.told,
              ElementsAre("root, process 7 (tallyctl): job.set of name 'resnet', window '64'",
                          testing::StartsWith("root, process 7 (tallyctl): job.abort of name 'bert'"),
                          "root, process 7 (tallyctl): config.reload"));
  EXPECT_EQ(box.told[1].find_first_of("\x1b\n"), std::string::npos) << box.told[1];
}

TEST(ControlMethods, ReloadTellsWhatItDid) {
  NotedBox box;
  box.report = {.changed = {"job 'x' is gone"}, .failed = {"f"}, .restart = {"box.ipv4"}};
  const api::Json result = said(box, request("config.reload"))["result"];
  EXPECT_THAT(result["changed"], ElementsAre("job 'x' is gone"));
  EXPECT_THAT(result["failed"], ElementsAre("f"));
  EXPECT_THAT(result["restart"], ElementsAre("box.ipv4"));
  box.report = {
      .refused = true,
      .diagnostics = {{.file = "box.yaml", .at = {3, 4}, .path = "box", .message = "m", .help = "h"}}};
  const api::Json error = said(box, request("config.reload"))["error"];
  EXPECT_EQ(error["code"], -32012);
  EXPECT_EQ(error["data"]["diagnostics"][0]["line"], 3);
  EXPECT_EQ(error["data"]["diagnostics"][0]["help"], "h");
}

TEST(ControlMethods, AConfigurationIsCheckedAndNoFileRead) {
  NotedBox box;
  const auto check = [&](const std::string& text) {
    return said(box, request("config.check", api::Json{{"text", text}}.dump()))["result"];
  };
  EXPECT_EQ(check(kText)["good"], true);
  std::string text = kText;
  text.replace(text.find("window: 256"), 11, "widnow: 256");
  const api::Json bad = check(text);
  EXPECT_EQ(bad["good"], false);
  EXPECT_EQ(bad["diagnostics"][0]["line"], 8);
  EXPECT_EQ(bad["diagnostics"][0]["severity"], "error");
  EXPECT_EQ(check("")["good"], false);
  // Whether there is such a file is nobody's business.
  text = kText;
  text.replace(text.find("token_file: none"), 16, "token_file: /no/such/file");
  EXPECT_EQ(check(text)["good"], true);
}

TEST(ControlMethods, TheConfigurationInForceReadsBack) {
  NotedBox box;
  const std::string yaml = said(box, request("config.show"))["result"]["yaml"].get<std::string>();
  const auto read = config::load_config_text(yaml, "again");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->config, *box.now.config);
}

}  // namespace
}  // namespace tally::control_api_test
