// The command line of tally-plan, its completions and its manual.

#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "help_text.h"
#include "plan_tool/command_line.h"

namespace tally::plan_tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

tl::expected<CommandLine, std::string> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "tally-plan");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

std::string complaint(std::initializer_list<const char*> words) {
  const auto line = parse(words);
  return line ? "" : line.error();
}

TEST(PlanCommand, EveryVerbTakesAFile) {
  const auto show = parse({"show", "c.yaml", "--job", "j", "--all", "--json"});
  ASSERT_TRUE(show.has_value()) << show.error();
  EXPECT_EQ(show->verb, CommandLine::Verb::kShow);
  EXPECT_EQ(show->file, "c.yaml");
  EXPECT_EQ(show->job, "j");
  EXPECT_TRUE(show->all_loads);
  EXPECT_TRUE(show->json);
  const auto buy =
      parse({"buy", "-", "--boxes", "4", "--rate", "200G", "--at", "rack[1-4]", "--at", "s", "--instead"});
  ASSERT_TRUE(buy.has_value()) << buy.error();
  EXPECT_EQ(buy->verb, CommandLine::Verb::kBuy);
  EXPECT_EQ(buy->file, "-");
  EXPECT_EQ(buy->boxes, 4U);
  EXPECT_EQ(buy->rate, "200G");
  EXPECT_THAT(buy->at, ElementsAre("rack[1-4]", "s"));
  EXPECT_TRUE(buy->instead);
  const auto what_if = parse({"what-if", "c", "--lose", "box=a", "--lose", "link=a-b"});
  ASSERT_TRUE(what_if.has_value()) << what_if.error();
  EXPECT_EQ(what_if->verb, CommandLine::Verb::kWhatIf);
  EXPECT_THAT(what_if->lose, ElementsAre("box=a", "link=a-b"));
  EXPECT_EQ(parse({"buy", "c", "--boxes", "1"})->rate, "100G");
}

TEST(PlanCommand, MistakesSayWhatToWrite) {
  EXPECT_THAT(complaint({}), HasSubstr("one of show, buy, what-if"));
  EXPECT_THAT(complaint({"shwo", "c"}), HasSubstr("did you mean show?"));
  EXPECT_THAT(complaint({"sell", "c"}), HasSubstr("there is no 'sell' here"));
  EXPECT_THAT(complaint({"show"}), HasSubstr("file"));
  EXPECT_THAT(complaint({"buy", "c"}), HasSubstr("--boxes"));
  EXPECT_THAT(complaint({"buy", "c", "--boxes", "0"}), HasSubstr("--boxes"));
  EXPECT_THAT(complaint({"buy", "c", "--boxes", "256"}), HasSubstr("255"));
  EXPECT_THAT(complaint({"what-if", "c"}), HasSubstr("--lose"));
  EXPECT_THAT(complaint({"show", "c", "--boxes", "3"}), HasSubstr("--boxes"));
  EXPECT_THAT(complaint({"show", "c", "--jsno"}), HasSubstr("Try 'tally-plan --help'"));
}

TEST(PlanCommand, HelpHasTheVerbsAndTheExitCodes) {
  check_help(parse({"--help"})->text, {"show", "buy", "what-if", "3 not good", "cluster-*.yaml"});
  EXPECT_THAT(parse({"buy", "--help"})->text, HasSubstr("--instead"));
  EXPECT_THAT(parse({"--version"})->text, HasSubstr("tally-plan 0."));
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(PlanCommand, CompletionsAndTheManualHaveEveryVerbAndOption) {
  const std::vector<VerbWords> all = verb_words();
  ASSERT_EQ(all.size(), 3U);
  for (const char* const file : {"/tally-plan.bash", "/_tally-plan", "/tally-plan.1.scd"}) {
    const std::string text = text_of(std::string(TALLY_PLAN_TOOL_FOLDER) + file);
    for (const VerbWords& words : all) {
      EXPECT_THAT(text, HasSubstr(words.verb)) << file;
      for (const std::string& option : words.options) {
        // An option of one verb begins none of another here, so that a substring is enough.
        EXPECT_THAT(text, HasSubstr(option)) << file << ": " << words.verb;
      }
    }
  }
}

}  // namespace
}  // namespace tally::plan_tool
