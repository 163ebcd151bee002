// The command line of tallyctl: every verb, and what is no command.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/methods.h"
#include "ctl/command.h"

namespace tally::ctl_test {
namespace {

tl::expected<ctl::Command, std::string> parse(std::initializer_list<const char*> words) {
  std::vector<const char*> argv{"tallyctl"};
  argv.insert(argv.end(), words);
  return ctl::parse_command(static_cast<int>(argv.size()), argv.data());
}

struct Verb {
  std::vector<const char*> words;
  const char* method;
  const char* parameters;
};

TEST(CtlCommand, EveryVerbAsksItsMethod) {
  const std::vector<Verb> verbs{
      {{"job", "list"}, "job.list", "{}"},
      {{"job", "show", "resnet"}, "job.show", R"({"name":"resnet"})"},
      {{"job", "set", "resnet", "window=64"}, "job.set", R"({"name":"resnet","window":64})"},
      {{"job", "set", "resnet", "window=-64"}, "job.set", R"({"name":"resnet","window":-64})"},
      {{"job", "set", "resnet", "lease=5s", "quota.cap=30%", "quota.weight=2"},
       "job.set",
       R"({"name":"resnet","lease":"5s","quota":{"cap":"30%","weight":2}})"},
      {{"job", "set", "x", R"(stragglers={"timeout":"50ms","min":3})"},
       "job.set",
       R"({"name":"x","stragglers":{"timeout":"50ms","min":3}})"},
      {{"job", "add", "name=x", "workers=4", "token_file=none"},
       "job.add",
       R"({"job":{"name":"x","workers":4,"token_file":"none"}})"},
      {{"job", "remove", "x"}, "job.remove", R"({"name":"x"})"},
      {{"job", "remove", "x", "--abort"}, "job.remove", R"({"name":"x","abort":true})"},
      {{"config", "diff"}, "config.diff", "{}"},
      {{"restart"}, "daemon.restart", "{}"},
      {{"job", "abort", "resnet", "--reason", "wrong data"},
       "job.abort",
       R"({"name":"resnet","reason":"wrong data"})"},
      {{"job", "replan", "resnet"}, "job.replan", R"({"name":"resnet"})"},
      {{"port", "list"}, "port.list", "{}"},
      {{"core", "list"}, "core.list", "{}"},
      {{"slot", "show"}, "slot.show", "{}"},
      {{"drop", "list"}, "drop.list", "{}"},
      {{"stats"}, "stats.get", "{}"},
      {{"health"}, "health.get", "{}"},
      {{"version"}, "api.version", "{}"},
      {{"config", "show"}, "config.show", "{}"},
      {{"config", "check", "box.yaml"}, "config.check", "{}"},
      {{"config", "reload"}, "config.reload", "{}"},
      {{"log", "set", "debug"}, "log.set", R"({"level":"debug"})"},
      {{"top", "--once"}, "stats.get", "{}"},
      {{"events"}, "event.subscribe", "{}"},
      {{"doctor"}, "doctor.run", "{}"},
      {{"fleet"}, "fleet.show", "{}"},
      {{"plan"}, "plan.show", "{}"},
      {{"plan", "resnet", "--all"}, "plan.show", R"({"name":"resnet","all":true})"},
      {{"plan", "set-rate", "link a to b", "25G"}, "plan.rate", R"({"resource":"link a to b","rate":"25G"})"},
      {{"trace", "stop"}, "trace.stop", "{}"},
      {{"trace", "list"}, "trace.list", "{}"},
      {{"trace", "write", "x", "--job", "resnet", "--drop", "stale", "--frames", "5"},
       "trace.start",
       R"({"job":"resnet","port":"","way":"both","drop":"stale","every":1,"frames":5,"seconds":10})"},
  };
  for (const Verb& verb : verbs) {
    std::vector<const char*> argv{"tallyctl"};
    argv.insert(argv.end(), verb.words.begin(), verb.words.end());
    const auto command = ctl::parse_command(static_cast<int>(argv.size()), argv.data());
    ASSERT_TRUE(command.has_value()) << verb.method << ": " << command.error();
    EXPECT_EQ(command->method, verb.method);
    EXPECT_EQ(command->parameters.dump(), verb.parameters);
  }
}

std::string text_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool has_word(const std::string& text, const std::string& word) {
  const std::string quoted = std::regex_replace(word, std::regex("-"), "[-]");
  return std::regex_search(text, std::regex("(^|[^-a-z])" + quoted + "($|[^-a-z])"));
}

// Nouns and verbs by their own words: 'list' is in a completion once for each noun, and once for all that have
// it in another's.
TEST(CtlCommand, CompletionsAndTheManualHaveEveryVerbAndOption) {
  const std::vector<ctl::VerbWords> all = ctl::verb_words();
  EXPECT_GT(all.size(), 20U);
  const std::string manual = text_of(TALLY_CTL_FOLDER "/tallyctl.1.scd");
  for (const char* const file : {"/tallyctl.bash", "/_tallyctl", "/tallyctl.1.scd"}) {
    const std::string text = text_of((std::string(TALLY_CTL_FOLDER) + file).c_str());
    for (const ctl::VerbWords& words : all) {
      std::istringstream parts(words.verb);
      for (std::string part; parts >> part;) EXPECT_TRUE(has_word(text, part)) << file << ": " << words.verb;
      for (const std::string& option : words.options)
        EXPECT_TRUE(has_word(text, option)) << file << ": " << words.verb << " " << option;
    }
  }
  for (const ctl::VerbWords& words : all) {
    if (words.verb.empty()) continue;
    EXPECT_NE(manual.find("*" + words.verb + "*"), std::string::npos) << words.verb;
  }
}

TEST(CtlCommand, CompletionsHaveEveryKeyOfAJob) {
  const auto set = std::ranges::find(api::methods(), std::string_view("job.set"), &api::Method::name);
  ASSERT_GT(set->keys.size(), 10U);
  for (const char* const file : {"/tallyctl.bash", "/_tallyctl"}) {
    const std::string text = text_of((std::string(TALLY_CTL_FOLDER) + file).c_str());
    for (const std::string& key : set->keys)
      EXPECT_TRUE(std::regex_search(text, std::regex("[' ]" + key + "[.=]"))) << file << ": " << key;
  }
}

TEST(CtlCommand, OptionsMayStandAnywhere) {
  for (const auto& command : {parse({"-o", "json", "--socket", "/x", "job", "list"}),
                              parse({"job", "list", "-o", "json", "--socket", "/x"})}) {
    ASSERT_TRUE(command.has_value());
    EXPECT_EQ(command->output, ctl::Output::kJson);
    EXPECT_EQ(command->socket, "/x");
  }
  EXPECT_EQ(parse({"--timeout", "0.25", "stats"})->timeout.count(), 250);
}

TEST(CtlCommand, TheEnvironmentIsADefault) {
  ::setenv("TALLYCTL_SOCKET", "/of/the/environment", 1);
  EXPECT_EQ(parse({"stats"})->socket, "/of/the/environment");
  EXPECT_EQ(parse({"--socket", "/x", "stats"})->socket, "/x");
  const auto named = parse({"--instance", "rack2", "stats"});
  EXPECT_EQ(named->socket, "");
  EXPECT_EQ(named->instance, "rack2");
  ::unsetenv("TALLYCTL_SOCKET");
  EXPECT_EQ(parse({"stats"})->timeout.count(), 5'000);
  ::setenv("TALLYCTL_TIMEOUT", "60", 1);
  EXPECT_EQ(parse({"stats"})->timeout.count(), 60'000);
  EXPECT_EQ(parse({"--timeout", "0.25", "stats"})->timeout.count(), 250);
  ::setenv("TALLYCTL_TIMEOUT", "soon", 1);
  EXPECT_NE(parse({"stats"}).error().find("soon"), std::string::npos);
  ::unsetenv("TALLYCTL_TIMEOUT");
}

TEST(CtlCommand, WhatIsNoCommandSaysWhatWasMeant) {
  const auto complaint = [](std::initializer_list<const char*> words) {
    const auto command = parse(words);
    EXPECT_FALSE(command.has_value());
    return command ? std::string() : command.error();
  };
  EXPECT_NE(complaint({"jbo", "list"}).find("did you mean job?"), std::string::npos);
  EXPECT_NE(complaint({"job", "shwo", "x"}).find("did you mean show?"), std::string::npos);
  EXPECT_NE(complaint({"--socket", "/x", "-o", "json", "jbo", "list"}).find("did you mean job?"),
            std::string::npos);
  EXPECT_NE(complaint({}).find("tallyctl needs one of job, port, core"), std::string::npos);
  EXPECT_NE(complaint({"job"}).find("job needs one of list, show, add, set, remove, abort, replan"),
            std::string::npos);
  EXPECT_NE(complaint({"--bogus", "job", "list"}).find("--bogus"), std::string::npos);
  EXPECT_NE(complaint({"job", "frobnicate"}).find("list, show, add, set, remove, abort"), std::string::npos);
  for (const auto& words : {std::initializer_list<const char*>{},
                            {"job"},
                            {"job", "show"},
                            {"job", "set", "x"},
                            {"job", "add"},
                            {"job", "add", "--file", "x", "name=y"},
                            {"job", "remove"},
                            {"job", "set", "x", "quota=1", "quota.cap=2"},
                            {"job", "abort", "x"},
                            {"job", "set", "x", "window"},
                            {"-o", "xml", "stats"},
                            {"stats", "--bogus"},
                            {"log", "set"},
                            {"--timeout", "0", "stats"},
                            {"--timeout", "nan", "stats"},
                            {"--timeout", "inf", "stats"},
                            {"--timeout", "-1", "stats"},
                            {"top", "--interval", "nan"},
                            {"top", "--interval", "31"},  // the daemon's patience has an end
                            {"job", "set", "x", "=1"},
                            {"--socket", "/x", "--instance", "y", "stats"},
                            {"job", "list", "extra"}}) {
    EXPECT_NE(complaint(words).find("--help"), std::string::npos);
  }
}

TEST(CtlCommand, HelpIsOfTheInnermostCommand) {
  EXPECT_NE(parse({"--help"})->text.find("Exit codes"), std::string::npos);
  EXPECT_NE(parse({"job", "show", "--help"})->text.find("Who is late"), std::string::npos);
  EXPECT_NE(parse({"--version"})->text.find("tallyctl "), std::string::npos);
}

}  // namespace
}  // namespace tally::ctl_test
