// Whole configurations: defaults, the shipped examples, the dump, files and their permissions, tokens.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/checks.h"
#include "config/load_config.h"

namespace tally {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kSmall =
    "box: {ipv4: 10.0.0.1/24}\n"
    "ports: [{name: w0, device: net_ring0}]\n"
    "jobs: [{name: resnet, workers: 4, token_file: none}]\n";

// Every key that this version knows.
constexpr const char* kRack = R"(
instance: rack1
dataplane: {cores: [1, 2], idle: poll, profile: commodity, strict: false, execution: fused, memory: 512MiB,
            slots: 64MiB, shared: {slots: 4096, elements: 336, server: 8MiB}, hugepages: auto, eal: ["-n", "4"]}
box:   {ipv4: 10.0.0.1/24, ipv6: fd00::1/64, mac: auto, mode: inline}
ports:
  - {name: w0, mtu: 1500, queues: 2, checksum: software, impair: {loss: 0%, seed: 1}, device:
      "net_memif0,role=server,id=0,socket=/run/tally/rack1-memif.sock,socket-abstract=no,bsize=2048"}
  - {name: nic, device: 0000:3b:00.0, mtu: 9000, checksum: port, impair: {loss: 0.25%, seed: 7}}
control: {socket: /run/tally/control.sock, access: owner, group: tally}
log:   {level: debug}
jobs:
  - name: resnet
    token_file: TOKEN
    workers: 4
    discipline: pool
    elements: 352
    window: 512
    results: multicast
    priority: 200
    quota: {reserved: 0%, weight: 1, cap: 100%}
    server: none
    lease: 1500ms
    stragglers: off
    dialect: native
  - {name: bert, token_file: none, workers: 2, discipline: preemptive, decay: denial, server: embedded,
     quota: {reserved: 12.5%, weight: 3, cap: 50%}}
  - {name: vgg, token_file: none, workers: 2, discipline: shared}
  - {name: dlrm, token_file: none, workers: 2, discipline: fcfs, elements: 64}
  - {name: moe, token_file: none, workers: 2, discipline: shared, server: external, servers: 16}
  - {name: late, token_file: none, workers: 3, stragglers: {timeout: 50ms, min: 2}}
)";

// Job i, which is a native one.
const config::NativeConfig& native(const config::Config& config, std::size_t i = 0) {
  return std::get<config::NativeConfig>(config.jobs.at(i));
}

std::string text_of(const config::ConfigResult& result) {
  return config::to_text(result ? result->warnings : result.error());
}

// A directory of its own for each test, removed behind it.
class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tally-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    fs::permissions(directory_, fs::perms::all);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path write(const std::string& name, const std::string& text, fs::perms perms = fs::perms::owner_read) {
    const fs::path path = directory_ / name;
    std::ofstream(path, std::ios::binary) << text;
    fs::permissions(path, perms);
    return path;
  }
  // The small configuration with a token file that holds this.
  config::ConfigResult with_token(const std::string& token, fs::perms perms = fs::perms::owner_read) {
    write("job.token", token, perms);
    return config::load_config(write("small.yaml", small("job.token")).string());
  }
  static std::string small(const std::string& token_file) {
    std::string text = kSmall;
    return text.replace(text.find("none"), 4, token_file);
  }

  fs::path directory_;
};

TEST(ConfigLoad, DefaultsAreWhatTheStructSays) {
  const auto loaded = config::load_config_text(kSmall, "small.yaml");
  ASSERT_TRUE(loaded) << text_of(loaded);
  EXPECT_TRUE(loaded->warnings.empty()) << text_of(loaded);
  EXPECT_EQ(loaded->config.instance, "tally");
  EXPECT_EQ(loaded->config.dataplane, config::DataplaneSection{});
  EXPECT_EQ(loaded->config.log, config::LogSection{});
  ASSERT_EQ(loaded->config.jobs.size(), 1U);
  config::NativeConfig job;
  job.name = "resnet";
  job.workers = 4;
  EXPECT_EQ(native(loaded->config), job);
  EXPECT_EQ(loaded->config.ports[0].mtu, 1500);
}

// A slot of 128 bytes takes little memory, but each takes a word of every register array.
TEST(ConfigLoad, AChipHasToHoldAllSessionsOfARuleTogether) {
  const auto with = [](std::uint32_t slots) {
    std::string text =
        "dataplane: {profile: tofino2, strict: true}\n"
        "box: {ipv4: 10.0.0.1/24}\nports: [{name: w0, device: net_ring0}]\njobs:\n";
    for (const char* const n : {"2", "3"}) {
      text += std::string("  - {name: legacy") + n +
              ", dialect: switchml, tsi: opaque, payload: 128, slots: " + std::to_string(slots) +
              ", members: [{rank: 0, mac: 02:00:00:00:00:0" + n + ", ipv4: 10.0.0." + n + "}]}\n";
    }
    return config::load_config_text(text, "box.yaml");
  };
  const auto fits = with(2'048);
  ASSERT_TRUE(fits) << text_of(fits);
  EXPECT_TRUE(fits->warnings.empty()) << text_of(fits);
  const auto twice = with(4'096);
  ASSERT_FALSE(twice);
  EXPECT_THAT(text_of(twice), HasSubstr("4 value arrays of 16384 words need 68 blocks of a stage's 48"));
}

TEST(ConfigLoad, DefaultElementsAreLoweredToWhatTheMtuCarries) {
  std::string text = kSmall;
  const auto six =
      config::load_config_text(text.replace(text.find("ipv4: 10.0.0.1/24"), 17, "ipv6: fd00::1/64"), "f");
  ASSERT_TRUE(six) << text_of(six);
  EXPECT_EQ(native(six->config).elements, 336);
  text = kSmall;
  const auto small =
      config::load_config_text(text.replace(text.find("net_ring0"), 9, "net_ring0, mtu: 1280"), "f");
  ASSERT_TRUE(small) << text_of(small);
  EXPECT_EQ(native(small->config).elements, 288);
}

// What a job shares must hold its packets, and somebody must sum what finds no slot.
TEST(ConfigLoad, ASharersDefaultsFollowFromItsDiscipline) {
  const std::string region = "dataplane: {shared: {slots: 64, elements: 128}}\n";
  std::string text = region + kSmall;
  text.replace(text.find("workers: 4"), 10, "workers: 4, discipline: shared");
  const auto loaded = config::load_config_text(text, "f");
  ASSERT_TRUE(loaded) << text_of(loaded);
  EXPECT_EQ(native(loaded->config).elements, 128);
  EXPECT_EQ(native(loaded->config).server, ServerKind::kEmbedded);
  EXPECT_EQ(native(loaded->config).quota, members::Quota{});
  const auto pool = config::load_config_text(region + kSmall, "f");
  ASSERT_TRUE(pool) << text_of(pool);
  EXPECT_EQ(native(pool->config).elements, 352);
}

TEST(ConfigLoad, DefaultElementsOfSharedSlotsAreLoweredToWhatTheMtuCarries) {
  std::string text = std::string("dataplane: {shared: {slots: 64}}\n") + kSmall;
  text.replace(text.find("workers: 4"), 10, "workers: 4, discipline: fcfs");
  text.replace(text.find("net_ring0"), 9, "net_ring0, mtu: 1280");
  const auto loaded = config::load_config_text(text, "f");
  ASSERT_TRUE(loaded) << text_of(loaded);
  EXPECT_EQ(loaded->config.dataplane.shared.elements, 288);
  EXPECT_EQ(native(loaded->config).elements, 288);
}

TEST(ConfigLoad, WordsThatYamlCallsBooleansAreWordsHere) {
  const std::string text = std::string("dataplane: {hugepages: off}\n") + kSmall;
  const auto loaded = config::load_config_text(text, "f");
  ASSERT_TRUE(loaded) << text_of(loaded);
  EXPECT_EQ(loaded->config.dataplane.hugepages, false);
}

TEST(ConfigLoad, TakesCarriageReturnsAndAByteOrderMark) {
  std::string text = "\xEF\xBB\xBF";
  for (const char* c = kSmall; *c != '\0'; ++c) text += *c == '\n' ? "\r\n" : std::string(1, *c);
  const auto loaded = config::load_config_text(text, "f");
  EXPECT_TRUE(loaded) << text_of(loaded);
}

TEST(ConfigLoad, JsonIsYaml) {
  const auto loaded = config::load_config_text(
      R"({"box": {"ipv4": "10.0.0.1/24"}, "ports": [{"name": "w0", "device": "net_ring0"}],
 "jobs": [{"name": "resnet", "workers": 4, "token_file": "none"}]})",
      "f");
  EXPECT_TRUE(loaded) << text_of(loaded);
}

TEST(ConfigLoad, TheDemoLoadsWithoutAWord) {
  const auto demo = config::load_config(TALLY_CONF_DIRECTORY "/demo.yaml");
  ASSERT_TRUE(demo) << text_of(demo);
  EXPECT_EQ(text_of(demo), "");
  EXPECT_EQ(demo->config.ports.size(), 10U);
  ASSERT_EQ(demo->config.jobs.size(), 3U);
  std::size_t workers = 0;
  for (const config::JobConfig& job : demo->config.jobs) workers += members::common_of(job).workers;
  EXPECT_EQ(workers, demo->config.ports.size());
}

TEST_F(ConfigFiles, ARackWithEveryKeyLoads) {
  write("resnet.token", "secret\n");
  std::string text = kRack;
  text.replace(text.find("TOKEN"), 5, "resnet.token");
  const auto loaded = config::load_config(write("rack.yaml", text).string());
  ASSERT_TRUE(loaded) << text_of(loaded);
  const config::Config& c = loaded->config;
  EXPECT_EQ(c.instance, "rack1");
  EXPECT_EQ(c.dataplane.cores, (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ(c.dataplane.eal, (std::vector<std::string>{"-n", "4"}));
  EXPECT_EQ(c.box.ipv4, (config::Cidr4{{10, 0, 0, 1}, 24}));
  EXPECT_TRUE(c.box.ipv6.has_value());
  EXPECT_EQ(c.ports[0].queues, 2);
  EXPECT_EQ(c.ports[1].device.kind, device::DeviceKind::kPci);
  EXPECT_EQ(c.ports[1].impair.loss_ppm, 2'500U);
  EXPECT_EQ(native(c).token, "secret");
  EXPECT_EQ(native(c).lease, 1'500 * kMillisecond);
  EXPECT_EQ(native(c).results, ResultsMode::kMulticast);
  EXPECT_EQ(native(c).discipline, Discipline::kPool);
  EXPECT_EQ(native(c).server, ServerKind::kNone);
  EXPECT_EQ(c.dataplane.shared, (config::SharedSection{4096, 336, 8 * config::kMiB}));
  EXPECT_EQ(native(c, 1).discipline, Discipline::kPreemptive);
  EXPECT_EQ(native(c, 1).decay, Decay::kDenial);
  EXPECT_EQ(native(c, 1).quota, (members::Quota{125'000, 3, 500'000}));
  EXPECT_EQ(native(c, 2).discipline, Discipline::kShared);
  EXPECT_EQ(native(c, 3).discipline, Discipline::kFcfs);
  EXPECT_EQ(native(c, 4).server, ServerKind::kExternal);
  EXPECT_EQ(native(c, 4).servers, 16);
  EXPECT_FALSE(native(c).stragglers.has_value());
  EXPECT_EQ(native(c, 5).stragglers, (members::StragglerPolicy{50 * kMillisecond, 2}));
  EXPECT_EQ(loaded->warnings.size(), 1U) << text_of(loaded);  // the impaired port
}

// The memory for sums in the box is of no use when none are made there.
TEST(ConfigServers, ExternalOnesNeedNoMemoryOfTheBox) {
  const std::string text =
      "instance: rack1\n"
      "dataplane: {cores: [1, 2, 3, 4, 5, 6, 7, 8], shared: {slots: 64, elements: 2224, server: 64KiB}}\n"
      "box: {ipv4: 10.0.0.1/24}\nports:\n  - {name: w0, device: net_ring0, mtu: 9000}\njobs:\n"
      "  - {name: one, workers: 2, token_file: none, discipline: shared, server: external}\n";
  const auto alone = config::load_config_text(text, "f");
  ASSERT_TRUE(alone) << text_of(alone);
  EXPECT_EQ(native(alone->config).servers, 1) << "the default";
  const auto both = config::load_config_text(
      text + "  - {name: two, workers: 2, token_file: none, discipline: shared}\n", "f");
  EXPECT_THAT(text_of(both), HasSubstr("hold 0 sums"));
}

TEST_F(ConfigFiles, TheDumpLoadsAsTheSameConfiguration) {
  write("my \u202Etoken", "secret\n");
  std::string rack = kRack;
  rack.replace(rack.find("TOKEN"), 5, "\"my \u202Etoken\"");
  for (const std::string& text : {std::string(kSmall), rack}) {
    const auto first = config::load_config_text(text, "f", directory_.string());
    ASSERT_TRUE(first) << text_of(first);
    const std::string dump = config::dump_config(first->config);
    const auto again = config::load_config_text(dump, "dump", "/elsewhere");
    ASSERT_TRUE(again) << dump << text_of(again);
    EXPECT_EQ(first->config, again->config) << dump;
    EXPECT_EQ(dump, config::dump_config(again->config));
    EXPECT_THAT(dump, Not(HasSubstr("secret")));
    EXPECT_THAT(dump, Not(HasSubstr("\u202E"))) << "a terminal would obey it";
  }
}

TEST_F(ConfigFiles, AFileThatCannotBeReadIsNamed) {
  const std::string missing = (directory_ / "missing.yaml").string();
  EXPECT_THAT(text_of(config::load_config(missing)), testing::StartsWith(missing + ": error: cannot read "));
  EXPECT_THAT(text_of(config::load_config(missing)),
              HasSubstr("No such file or directory\n     = check the path\n1 error\n"));
  EXPECT_THAT(text_of(config::load_config(directory_.string())),
              HasSubstr("Is a directory\n     = name a file in it\n"));
  EXPECT_THAT(text_of(config::load_config("/proc/self/mem")), HasSubstr("Input/output error"));
  EXPECT_THAT(text_of(config::load_config("/dev/zero")), HasSubstr("has more than 1048576 bytes"));
  EXPECT_THAT(text_of(config::load_config("")), HasSubstr("No such file"));
}

TEST_F(ConfigFiles, AFileThatOnlyOthersMayReadSaysWhatToDo) {
  const std::string path = write("closed.yaml", kSmall, fs::perms::none).string();
  const bool root = geteuid() == 0;
  ASSERT_EQ(root ? seteuid(65'534) : 0, 0);
  const std::string text = text_of(config::load_config(path));
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  EXPECT_THAT(text, HasSubstr("Permission denied\n     = let the user that runs tallyd read it"));
}

TEST_F(ConfigFiles, ATokenLosesItsLineEndOnly) {
  for (const char* text : {"secret", "secret\n", "secret\r\n"}) {
    const auto loaded = with_token(text);
    ASSERT_TRUE(loaded) << text_of(loaded);
    EXPECT_EQ(native(loaded->config).token, "secret");
    EXPECT_EQ(native(loaded->config).token_file, (directory_ / "job.token").string());
    fs::remove(directory_ / "job.token");
    fs::remove(directory_ / "small.yaml");
  }
  const auto spaces = with_token(" a b \n");
  ASSERT_TRUE(spaces);
  EXPECT_EQ(native(spaces->config).token, " a b ");
}

TEST_F(ConfigFiles, ATokenThatEverybodyCanReadIsAWarning) {
  const auto loaded = with_token("secret\n", fs::perms::owner_read | fs::perms::others_read);
  ASSERT_TRUE(loaded) << text_of(loaded);
  EXPECT_THAT(text_of(loaded),
              HasSubstr("small.yaml:3:47: warning: jobs[0].token_file: 'job.token' can be read by "
                        "every user of this host\n"));
  EXPECT_THAT(text_of(loaded), HasSubstr("chmod o-r " + directory_.string() + "/job.token\n1 warning\n"));
}

TEST_F(ConfigFiles, ATokenThatIsNoneIsRefused) {
  EXPECT_THAT(text_of(with_token("\n")), HasSubstr("error: jobs[0].token_file: 'job.token' is empty"));
  fs::remove_all(directory_ / "job.token");
  fs::remove(directory_ / "small.yaml");
  EXPECT_THAT(text_of(with_token(std::string(65, 'x'))), HasSubstr("is longer than 64 bytes"));
  fs::remove_all(directory_ / "job.token");
  fs::remove(directory_ / "small.yaml");
  EXPECT_THAT(text_of(with_token("two\nlines\n")), HasSubstr("contains a line break"));
  fs::remove_all(directory_ / "job.token");
  fs::create_directory(directory_ / "job.token");
  EXPECT_THAT(text_of(config::load_config((directory_ / "small.yaml").string())),
              HasSubstr("Is a directory"));
  fs::remove_all(directory_ / "job.token");
  ASSERT_EQ(mkfifo((directory_ / "job.token").c_str(), 0600), 0);
  EXPECT_THAT(text_of(config::load_config((directory_ / "small.yaml").string())),
              HasSubstr("is not a regular file"));
}

TEST(ConfigLoad, AnotherProgramsFileEndsSoon) {
  std::string text = kSmall;
  for (int i = 0; i < 5'000; ++i) text.append("k").append(std::to_string(i)).append(": 1\n");
  const auto loaded = config::load_config_text(text, "f");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().size(), 201U);
  EXPECT_THAT(text_of(loaded), HasSubstr("there are 4800 more messages"));
}

TEST(ConfigLoad, MembersTakeWhatTheConfigurationSays) {
  const auto loaded = config::load_config_text(kSmall, "f");
  ASSERT_TRUE(loaded);
  const config::NativeConfig& job = native(loaded->config);
  EXPECT_EQ(job.name, "resnet");
  EXPECT_EQ(job.workers, 4);
  EXPECT_EQ(job.priority, 100);
  const members::MembershipOptions options = config::member_options(loaded->config);
  EXPECT_EQ(options.slot_lines, 1U << 20U);  // 64 MiB on one core
  EXPECT_EQ(options.box_mac[0], 2);
  EXPECT_EQ(options.shared_entries, 0U);
  config::Config other = loaded->config;
  other.instance = "other";
  EXPECT_NE(config::box_mac(other), options.box_mac);
}

TEST(ConfigLoad, MembersTakeSharersAndTheirRegion) {
  std::string text = std::string("dataplane: {cores: [1, 2, 3], shared: {slots: 1000}}\n") + kSmall;
  text.replace(
      text.find("workers: 4"), 10,
      "workers: 4, discipline: preemptive, decay: none, quota: {reserved: 10%, weight: 7, cap: 20%}");
  const auto loaded = config::load_config_text(text, "f");
  ASSERT_TRUE(loaded) << text_of(loaded);
  const members::MembershipOptions options = config::member_options(loaded->config);
  EXPECT_EQ(options.shared_entries, 333U);  // of each of three cores
  EXPECT_EQ(options.shared_elements, 352);
  const config::NativeConfig& job = native(loaded->config);
  EXPECT_EQ(job.discipline, Discipline::kPreemptive);
  EXPECT_EQ(job.server, ServerKind::kEmbedded);
  EXPECT_EQ(job.decay, Decay::kNone);
  EXPECT_EQ(job.quota, (members::Quota{100'000, 7, 200'000}));
}

// What docs/first_steps.md tells a user to write must work as written.

TEST(ConfigLoad, HttpIsServedWhereItIsSaid) {
  const auto at = [](const std::string& http) {
    config::Config config;
    config.control.http = http;
    return config::http_address(config);
  };
  EXPECT_EQ(at("none"), std::nullopt);
  EXPECT_EQ(config::http_address(config::Config{}), std::nullopt) << "by default nobody sees the box";
  EXPECT_EQ(at("127.0.0.1:9464"), (config::HttpAddress{.address = mapped({127, 0, 0, 1}), .port = 9464}));
  Ipv6 loopback{};
  loopback[15] = 1;
  EXPECT_EQ(at("[::1]:1"), (config::HttpAddress{.address = loopback, .port = 1}));
  EXPECT_EQ(at("unix:/run/x.sock"), (config::HttpAddress{.path = "/run/x.sock"}));
  for (const char* wrong :
       {"", ":9464", "127.0.0.1:", "127.0.0.1:0", "[127.0.0.1]:80", "::1:80", "[::1]", "unix:", "unix:/x/"})
    EXPECT_EQ(at(wrong), std::nullopt) << wrong;
}

// The bodies of the fenced blocks of one language.
std::vector<std::string> fenced(const std::string& path, const std::string& language) {
  std::vector<std::string> blocks;
  std::ifstream in(path);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!inside && line == "```" + language) {
      blocks.emplace_back();
      inside = true;
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

TEST(FirstSteps, ConfigurationExamplesLoadWithoutAComplaint) {
  const auto examples = fenced(TALLY_FIRST_STEPS, "yaml");
  ASSERT_FALSE(examples.empty());
  for (const auto& example : examples) {
    const auto loaded = config::load_config_text(example, "first_steps.md");
    ASSERT_TRUE(loaded.has_value()) << config::to_text(loaded.error());
    EXPECT_TRUE(loaded->warnings.empty()) << config::to_text(loaded->warnings);
  }
}

}  // namespace
}  // namespace tally
