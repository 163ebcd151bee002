// The file of tally-switchml.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "switchml/command_line.h"
#include "switchml/service_config.h"

namespace tally::switchml_service {
namespace {

using testing::HasSubstr;

std::string errors_of(const std::string& text) {
  const auto loaded = load_service_text(text, "f.yaml");
  return loaded ? "" : config::to_text(loaded.error());
}

TEST(ServiceConfigFile, TheExampleIsGood) {
  const auto loaded = load_service(TALLY_CONF_DIRECTORY "/switchml-service.yaml");
  ASSERT_TRUE(loaded) << config::to_text(loaded.error());
  EXPECT_EQ(loaded->config.listen.size(), 2U);
  EXPECT_EQ(loaded->config.listen[0].port, 50'099);
  EXPECT_TRUE(loaded->warnings.empty());
}

TEST(ServiceConfigFile, EveryKeyArrives) {
  const auto loaded = load_service_text(
      "tallyd: /run/tally/x.sock\naddress: fd00::1\nlisten: [{port: 7, name: a}, {name: b}]\nprefix: sml-\n"
      "allow: [10.0.0.0/24, 10.1.0.0/16]\nslots: 64\ntsi: opaque\nwait: 5m\nidle: 1h\nconnections: 9\n"
      "log: {level: debug}\n",
      "f.yaml");
  ASSERT_TRUE(loaded) << config::to_text(loaded.error());
  const ServiceConfig& c = loaded->config;
  EXPECT_EQ(c.tallyd, "/run/tally/x.sock");
  EXPECT_EQ(c.address, "fd00::1");
  EXPECT_EQ(c.listen, (std::vector<session_service::Settings::Port>{{7, "a"}, {50'099, "b"}}));
  EXPECT_EQ(c.connections, 9U);
  EXPECT_EQ(c.log.level, config::LogSection::Level::kDebug);
  const session_service::Settings s = settings_of(c);
  EXPECT_EQ(s.prefix, "sml-");
  EXPECT_EQ(s.allow.size(), 2U);
  EXPECT_EQ(s.slots, 64U);
  EXPECT_EQ(s.tsi, jobs::TsiRule::kOpaque);
  EXPECT_EQ(s.wait, 300 * kSecond);
  EXPECT_EQ(s.idle, 3'600 * kSecond);
}

TEST(ServiceConfigFile, MistakesHaveTheirPlaceAndWhatToDo) {
  EXPECT_THAT(errors_of(""), HasSubstr("there is no configuration here"));
  EXPECT_THAT(errors_of("slots: 4\n"), HasSubstr("nobody could connect"));
  EXPECT_THAT(errors_of("listen: []\n"), HasSubstr("f.yaml:1:9"));
  EXPECT_THAT(errors_of("listen: [{port: 0, name: a}]\n"), HasSubstr("f.yaml:1:17"));
  EXPECT_THAT(errors_of("listen: [{port: 1}]\n"), HasSubstr("the key name is missing"));
  EXPECT_THAT(errors_of("listen:\n  - {port: 1, name: a}\n  - {port: 2, name: a}\n"),
              HasSubstr("is the name of another port"));
  EXPECT_THAT(errors_of("listen:\n  - {port: 1, name: a}\n  - {port: 1, name: b}\n"),
              HasSubstr("f.yaml:3:12"));
  EXPECT_THAT(errors_of("listen: [{name: a}]\nallow: [10.0.0.1/8]\n"), HasSubstr("write 10.0.0.0/8"));
  EXPECT_THAT(errors_of("listen: [{name: a}]\nslots: 16385\n"), HasSubstr("f.yaml:2:8"));
  EXPECT_THAT(errors_of("listen: [{name: a}]\naddress: everywhere\n"), HasSubstr("is no IP address"));
  EXPECT_THAT(errors_of("listen: [{name: a}]\nwiat: 3s\n"), HasSubstr("did you mean wait?"));
  EXPECT_THAT(errors_of("listen: [\n"), HasSubstr("f.yaml:"));
  EXPECT_FALSE(load_service("/no/such/file"));
}

TEST(ServiceConfigFile, ManyPortsAreTooMany) {
  std::string text = "listen:\n";
  for (int i = 1; i <= 65; ++i)
    text += "  - {port: " + std::to_string(i) + ", name: p" + std::to_string(i) + "}\n";
  EXPECT_THAT(errors_of(text), HasSubstr("at most 64 are served"));
}

TEST(ServiceConfigFile, ThePageHasEveryKey) {
  std::ifstream in(TALLY_SWITCHML_PAGE);
  std::stringstream all;
  all << in.rdbuf();
  std::string page = all.str();
  const std::string table = service_reference();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    const std::string head = "| key | value | default | meaning |\n";
    const std::size_t begin = page.find(head);
    ASSERT_NE(begin, std::string::npos);
    page.replace(begin, page.find("\n\n", begin) + 1 - begin, table);
    std::ofstream(TALLY_SWITCHML_PAGE) << page;
  }
  EXPECT_NE(page.find(table), std::string::npos) << "UPDATE_GOLDEN=1 writes it; it is\n" << table;
}

TEST(ServiceCommandLine, SaysWhatIsMissing) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "tally-switchml");
    return parse_command_line(static_cast<int>(words.size()), words.data());
  };
  EXPECT_THAT(parse({}).error(), HasSubstr("--config FILE is missing"));
  EXPECT_THAT(parse({"--nonsense"}).error(), HasSubstr("--help"));
  EXPECT_EQ(parse({"--check", "-c", "f"})->action, CommandLine::Action::kCheck);
  EXPECT_EQ(parse({"-c", "f"})->config, "f");
  EXPECT_EQ(parse({"--version"})->action, CommandLine::Action::kVersion);
  EXPECT_THAT(parse({"--help"})->text, HasSubstr("SIGTERM"));
}

}  // namespace
}  // namespace tally::switchml_service
