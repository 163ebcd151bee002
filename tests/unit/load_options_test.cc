// The command line of tally-bench: what is wrong with it is said in a sentence that names the option.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "load_options.h"

namespace tally::bench {
namespace {

Result<std::variant<LoadOptions, LoadHelp>> parse(std::vector<std::string> words) {
  std::vector<const char*> argv{"tally-bench"};
  for (const auto& word : words) argv.push_back(word.c_str());
  return parse_load_options(static_cast<int>(argv.size()), argv.data());
}

const std::vector<std::string> kBox{
    "--port", "net_memif0,role=client", "--switch", "10.0.0.1", "--address", "10.0.0.10/24"};

std::vector<std::string> with(std::vector<std::string> more) {
  std::vector<std::string> words = kBox;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string error_of(const std::vector<std::string>& words) {
  const auto parsed = parse(words);
  return parsed ? "" : parsed.error().text();
}

TEST(LoadOptions, RatesAreNumbersWithAUnitOrWords) {
  EXPECT_EQ(parse_rate("max")->kind, LoadRate::Kind::kMax);
  EXPECT_EQ(parse_rate("search")->kind, LoadRate::Kind::kSearch);
  EXPECT_EQ(parse_rate("1.2M")->per_s, 1.2e6);
  EXPECT_EQ(parse_rate("800k")->per_s, 800e3);
  EXPECT_EQ(parse_rate("5")->per_s, 5);
  for (const char* const bad : {"", "fast", "-1", "0", "1.2X", "1M2", "nan", "inf", "1e99", "0.5"})
    EXPECT_FALSE(parse_rate(bad)) << bad;
}

TEST(LoadOptions, DevicesMayBeWrittenAsAWorkersTransport) {
  const auto parsed =
      parse(with({"--port", "dpdk:net_memif1,id=1", "--workers", "4", "--rate", "2M", "--pid", "77"}));
  ASSERT_TRUE(parsed) << parsed.error().text();
  const auto& o = std::get<LoadOptions>(*parsed);
  EXPECT_EQ(o.ports, (std::vector<std::string>{"net_memif0,role=client", "net_memif1,id=1"}));
  EXPECT_EQ(o.workers, 4);
  EXPECT_EQ(o.rate.per_s, 2e6);
  EXPECT_EQ(o.box_pid, 77);
}

TEST(LoadOptions, TheInMemoryPortIsABoxOfItsOwn) {
  const auto parsed = parse({"--port", "memory", "--results", "multicast"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_TRUE(std::get<LoadOptions>(*parsed).ports.empty());
  EXPECT_TRUE(std::get<LoadOptions>(*parsed).multicast);
  EXPECT_NE(error_of({"--port", "memory", "--port", "net_memif0"}).find("stands alone"), std::string::npos);
  EXPECT_NE(error_of({"--port", "memory", "--rate", "search"}).find("never loses"), std::string::npos);
  EXPECT_NE(error_of({"--port", "memory", "--switch", "10.0.0.1"}).find("in this process"),
            std::string::npos);
}

TEST(LoadOptions, TheInMemoryPortHasTheMemoryItNeeds) {
  EXPECT_NE(error_of({"--port", "memory", "--memory", "239"}).find("--memory: 239 MiB is too little"),
            std::string::npos);
  EXPECT_EQ(error_of({"--port", "memory", "--memory", "240"}), "");
  EXPECT_EQ(error_of(with({"--memory", "64"})), "");
}

TEST(LoadOptions, ValuesLeaveRoomForTheHeadersOfTheBoxesFamily) {
  const std::vector<std::string> ipv6{
      "--port", "net_memif0,role=client", "--switch", "fd00::1", "--address", "fd00::10/64", "--mtu", "1116"};
  const auto elements = [](std::vector<std::string> words, const char* count) {
    words.insert(words.end(), {"--elements", count});
    return error_of(words);
  };
  EXPECT_NE(elements(ipv6, "256").find("from 16 to 240"), std::string::npos);  // 1,116 less 104 is 253 values
  EXPECT_EQ(elements(ipv6, "240"), "");
  EXPECT_EQ(elements(with({"--mtu", "1116"}), "256"), "");
}

TEST(LoadOptions, DamageIsAllowedOnlyByName) {
  EXPECT_FALSE(std::get<LoadOptions>(*parse(kBox)).allow_damage);
  EXPECT_TRUE(std::get<LoadOptions>(*parse(with({"--allow-damage"}))).allow_damage);
}

TEST(LoadOptions, AnEchoNeedsNoBox) {
  EXPECT_EQ(error_of({"--port", "net_memif0", "--echo", "--window", "64"}), "");
  EXPECT_NE(error_of({"--port", "net_memif0", "--echo", "--window", "65"}), "");
}

TEST(LoadOptions, WhatIsMissingOrWrongIsNamed) {
  EXPECT_NE(error_of({}).find("--port"), std::string::npos);
  EXPECT_NE(error_of({"--port", "net_memif0"}).find("--switch"), std::string::npos);
  EXPECT_NE(error_of({"--port", "net_memif0", "--switch", "10.0.0.1"}).find("--address"), std::string::npos);
  EXPECT_NE(
      error_of(with({"--elements", "100"})).find("--elements: 100: must be a multiple of 16 from 16 to 352"),
      std::string::npos);
  EXPECT_NE(error_of(with({"--workers", "65"})).find("--workers"), std::string::npos);
  EXPECT_NE(error_of(with({"--port", "net_memif1", "--workers", "1"})).find("2 ports for 1 workers"),
            std::string::npos);
  EXPECT_NE(error_of(with({"--results", "multicast"})).find("configuration"), std::string::npos);
  EXPECT_NE(error_of(with({"--rate", "fast"})).find("--rate: 'fast'"), std::string::npos);
  EXPECT_NE(error_of(with({"--token-file", "/nowhere"})).find("--token-file"), std::string::npos);
  EXPECT_NE(error_of(with({"--deadline", "1.9"})).find("--deadline"), std::string::npos);
  EXPECT_EQ(error_of(with({"--deadline", "2"})), "");
  EXPECT_NE(error_of(with({"--speed", "9"})).find("--speed"), std::string::npos);
}

TEST(LoadOptions, TheHelpNamesEveryOptionAndTheExitCodes) {
  const auto parsed = parse({"--help"});
  ASSERT_TRUE(parsed);
  const std::string& text = std::get<LoadHelp>(*parsed).text;
  for (const char* const word :
       {"--port",    "--workers",    "--elements",     "--results",    "--switch",   "--address",
        "--job",     "--token-file", "--echo",         "--window",     "--mtu",      "--rate",
        "--seconds", "--trial",      "--warm-up",      "--resolution", "--deadline", "--join-timeout",
        "--cpu",     "--memory",     "--pid",          "--line-rate",  "--ceiling",  "--json",
        "--csv",     "--hold",       "--allow-damage", "Exit codes"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace tally::bench
