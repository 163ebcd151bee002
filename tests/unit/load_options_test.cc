// The command line of tally-bench: what is wrong with it is said in a sentence that names the option.

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "help_text.h"
#include "load_options.h"
#include "load_report.h"

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
      parse(with({"--port", "dpdk:net_memif1,id=1", "--workers", "4", "--rate", "2M", "--pid", "1"}));
  ASSERT_TRUE(parsed) << parsed.error().text();
  const auto& o = std::get<LoadOptions>(*parsed);
  EXPECT_EQ(o.ports, (std::vector<std::string>{"net_memif0,role=client", "net_memif1,id=1"}));
  EXPECT_EQ(o.workers, 4);
  EXPECT_EQ(o.rate.per_s, 2e6);
  EXPECT_EQ(o.box_pid, 1);
}

TEST(LoadOptions, AProfileIsOfTheInMemoryPort) {
  const auto parsed = parse({"--port", "memory", "--profile", "--profile-csv", "steps.csv"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_TRUE(std::get<LoadOptions>(*parsed).profile);
  EXPECT_EQ(std::get<LoadOptions>(*parsed).profile_csv, "steps.csv");
  EXPECT_EQ(std::get<LoadOptions>(*parsed).memory_mib, 320U);  // for one more rig
  EXPECT_FALSE(std::get<LoadOptions>(*parse({"--port", "memory"})).profile);
  EXPECT_NE(error_of({"--port", "memory", "--profile", "--memory", "300"}).find("give it 320 or more"),
            std::string::npos);
  EXPECT_NE(error_of(with({"--profile"})).find("--profile: only with --port memory"), std::string::npos);
  EXPECT_NE(
      error_of({"--port", "memory", "--profile-csv", "steps.csv"}).find("--profile-csv: needs --profile"),
      std::string::npos);
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
  EXPECT_NE(elements(ipv6, "256").find("and --mtu is 1116: 240 at most"),
            std::string::npos);  // 1,116 less 104: 253
  EXPECT_EQ(elements(ipv6, "240"), "");
  EXPECT_EQ(elements(with({"--mtu", "1116"}), "256"), "");
}

TEST(LoadOptions, ElementsThatNobodyGaveAreWhatTheMtuCarries) {
  const auto parsed = parse(with({"--mtu", "616"}));
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(std::get<LoadOptions>(*parsed).elements, 128);  // 616 less 84 is 133 values
  EXPECT_FALSE(std::get<LoadOptions>(*parsed).elements_given);
  EXPECT_NE(error_of(with({"--mtu", "616", "--elements", "256"}))
                .find("--elements: 256 values are packets of 1108 bytes"),
            std::string::npos);
  EXPECT_TRUE(std::get<LoadOptions>(*parse(with({"--elements", "352"}))).elements_given);
  EXPECT_NE(error_of(with({"--elements", "2224"})).find("352 at most, or a larger --mtu"), std::string::npos);
  EXPECT_EQ(error_of(with({"--elements", "2224", "--mtu", "9000"})), "");
}

TEST(LoadOptions, FramesAreOfATypeAndMayHaveATag) {
  const auto plain = std::get<LoadOptions>(*parse(kBox)).format;
  EXPECT_EQ(plain.dtype, Dtype::kInt32);
  EXPECT_EQ(plain.vlan, jobs::kUntagged);
  const auto parsed = parse(with({"--dtype", "float32", "--vlan", "0"}));
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(std::get<LoadOptions>(*parsed).format.dtype, Dtype::kFloat32);
  EXPECT_EQ(std::get<LoadOptions>(*parsed).format.vlan, 0);
  EXPECT_NE(error_of(with({"--dtype", "float16"})).find("--dtype"), std::string::npos);
  EXPECT_NE(error_of(with({"--vlan", "4095"})).find("--vlan"), std::string::npos);
  EXPECT_NE(error_of({"--port", "memory", "--dtype", "float32"}).find("--port memory"), std::string::npos);
  EXPECT_NE(error_of({"--port", "memory", "--vlan", "5"}).find("--port memory"), std::string::npos);
}

// A --json file of an echo run of 128 elements over IPv4 whose runs brought back so much.
std::string echo_file(const char* name, const std::vector<double>& back, bool echo = true) {
  LoadSetting s{.elements = 128};
  if (echo) s.checked = LoadSetting::Checked::kNothing;
  std::vector<LoadFigures> runs;
  for (const double each : back)
    runs.push_back({.seconds = 2, .sent = 99'000'000, .received = static_cast<std::uint64_t>(2 * each)});
  const std::string file = testing::TempDir() + name;
  std::ofstream(file) << load_json(s, runs);
  return file;
}

TEST(LoadOptions, TheCeilingIsANumberOrWhatAnEchoRunBroughtBack) {
  const auto ceiling = [](const std::string& text, std::vector<std::string> more = {"--elements", "128"}) {
    more.insert(more.end(), {"--ceiling", text});
    const auto parsed = parse(with(more));
    return parsed ? std::to_string(std::get<LoadOptions>(*parsed).ceiling) : parsed.error().text();
  };
  EXPECT_EQ(ceiling("1.2M"), std::to_string(1.2e6));
  EXPECT_EQ(ceiling("77"), std::to_string(77.0));
  EXPECT_EQ(ceiling(echo_file("load_echo.json", {5000, 7000, 6000})), std::to_string(7000.0));
  EXPECT_NE(ceiling("fast").find("--ceiling: 'fast' is neither packets per second"), std::string::npos);
  EXPECT_NE(ceiling("0").find("--ceiling"), std::string::npos);
  EXPECT_NE(ceiling(echo_file("load_box.json", {5000}, false)).find("against a box"), std::string::npos);
  EXPECT_NE(ceiling(echo_file("load_none.json", {0})).find("nothing came back"), std::string::npos);
  const std::string echo = echo_file("load_others.json", {5000});
  EXPECT_NE(ceiling(echo, {"--elements", "64"}).find("128 elements, IPv4, not 64 elements, IPv4"),
            std::string::npos);
  EXPECT_NE(ceiling(echo, {"--elements", "128", "--vlan", "3"}).find("not 128 elements, IPv4, tagged"),
            std::string::npos);
  const std::string broken = testing::TempDir() + "load_broken.json";
  std::ofstream(broken) << "{\"runs\": 3";
  EXPECT_NE(ceiling(broken).find("is no --json file of tally-bench"), std::string::npos) << ceiling(broken);
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
      error_of(with({"--elements", "100"})).find("--elements: 100: must be a multiple of 16 from 16 to 2224"),
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

TEST(LoadOptions, WhatWouldSpoilTheFiguresAtTheEndIsSaidAtOnce) {
  EXPECT_NE(error_of(with({"--pid", "2147483647"})).find("--pid: there is no process 2147483647 here"),
            std::string::npos);
  for (const char* const option : {"--json", "--csv"}) {
    EXPECT_NE(error_of(with({option, "/no/such/folder/x"}))
                  .find(std::string(option) + ": cannot write '/no/such/folder/x'"),
              std::string::npos);
    EXPECT_NE(error_of(with({option, "/tmp"})).find("cannot write '/tmp': Is a directory"), std::string::npos)
        << "a folder";
    EXPECT_EQ(error_of(with({option, testing::TempDir() + "load_new.json"})), "");
    EXPECT_EQ(error_of(with({option, "load_new.json"})), "");
  }
}

TEST(LoadOptions, TheHelpNamesEveryOptionAndTheExitCodes) {
  const auto parsed = parse({"--help"});
  ASSERT_TRUE(parsed);
  check_help(std::get<LoadHelp>(*parsed).text,
             {"--help",     "--profile",      "--port",    "--workers",    "--elements",     "--results",
              "--switch",   "--address",      "--job",     "--token-file", "--echo",         "--window",
              "--mtu",      "--rate",         "--seconds", "--trial",      "--warm-up",      "--resolution",
              "--deadline", "--join-timeout", "--cpu",     "--memory",     "--pid",          "--line-rate",
              "--ceiling",  "--json",         "--csv",     "--hold",       "--allow-damage", "--dtype",
              "--vlan"});
}

}  // namespace
}  // namespace tally::bench
