// What people get wrong in the environment and in the file, and what they are told: the whole sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "tally/mtu.h"
#include "tally/worker.h"

namespace tally::api_test {
namespace {

using Variables = std::map<std::string, std::string>;

// The environment of a test, and a file FILE and a token file TOKEN in it.
class Environment {
 public:
  Environment(const Variables& variables, const std::string& file, const std::string& token = "s3cret\n") {
    std::string folder = (std::filesystem::temp_directory_path() / "tally-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    std::ofstream(folder_ / "FILE") << with_paths(file);
    std::ofstream(folder_ / "TOKEN") << token;
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), with_paths(value).c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    clear();
    std::filesystem::remove_all(folder_);
  }
  // DIR stands for the test's folder.
  [[nodiscard]] std::string with_paths(std::string text) const {
    const std::string folder = folder_.string();
    // Behind each replacement: a folder's random letters spell DIR one day.
    for (std::size_t at = 0; (at = text.find("DIR", at)) != std::string::npos; at += folder.size())
      text.replace(at, 3, folder);
    return text;
  }

 private:
  static void clear() {
    std::vector<std::string> names{"RANK",
                                   "WORLD_SIZE",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "SLURM_PROCID",
                                   "SLURM_NTASKS",
                                   "PMI_RANK",
                                   "PMI_SIZE"};
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with("TALLY_")) names.push_back(text.substr(0, text.find('=')));
    }
    for (const auto& name : names) unsetenv(name.c_str());
  }

  std::filesystem::path folder_;
};

struct Mistake {
  Variables variables;
  std::string file;
  std::string expected;
  std::string token = "s3cret\n";
};

const std::vector<Mistake>& mistakes() {
  static const std::string kSixtyFive(65, 'a');
  static const std::vector<Mistake> kAll{
      // Numbers.
      {{{"TALLY_RANK", "two"}, {"TALLY_WORLD", "4"}},
       "",
       "TALLY_RANK: 'two' is not a whole number in 0..4095"},
      {{{"TALLY_RANK", "-1"}, {"TALLY_WORLD", "4"}}, "", "TALLY_RANK: '-1' is not a whole number in 0..4095"},
      {{{"TALLY_RANK", "1 "}, {"TALLY_WORLD", "4"}}, "", "TALLY_RANK: '1 ' is not a whole number in 0..4095"},
      {{{"TALLY_RANK", "4096"}, {"TALLY_WORLD", "64"}},
       "",
       "TALLY_RANK: '4096' is not a whole number in 0..4095"},
      {{{"TALLY_RANK", "0"}, {"TALLY_WORLD", "0"}}, "", "TALLY_WORLD: '0' is not a whole number in 1..4096"},
      {{{"TALLY_RANK", "0"}, {"TALLY_WORLD", "4097"}},
       "",
       "TALLY_WORLD: '4097' is not a whole number in 1..4096"},
      {{{"TALLY_RANK", "0"}, {"TALLY_WORLD", "1e1"}},
       "",
       "TALLY_WORLD: '1e1' is not a whole number in 1..4096"},
      {{{"TALLY_ELEMENTS", "many"}}, "", "TALLY_ELEMENTS: 'many' is not a whole number in 0..2224"},
      {{{"TALLY_ELEMENTS", "100"}},
       "",
       "TALLY_ELEMENTS: 100 is not a multiple of 16 in 16..2224, nor 0 (what the MTU carries)"},
      {{{"TALLY_ELEMENTS", "2240"}}, "", "TALLY_ELEMENTS: '2240' is not a whole number in 0..2224"},
      {{{"TALLY_MTU", "615"}}, "", "TALLY_MTU: '615' is not a whole number in 616..9198"},
      {{{"TALLY_MTU", "9199"}}, "", "TALLY_MTU: '9199' is not a whole number in 616..9198"},
      {{{"TALLY_MTU", "99999999999"}}, "", "TALLY_MTU: '99999999999' is not a whole number in 616..9198"},
      {{{"TALLY_PRIORITY", "255"}}, "", "TALLY_PRIORITY: '255' is not a whole number in 0..254"},
      {{{"TALLY_PRIORITY", "high"}}, "", "TALLY_PRIORITY: 'high' is not a whole number in 0..254"},
      {{{"TALLY_PRIORTY", "3"}},
       "",
       "TALLY_PRIORTY: is not a variable of Tally; did you mean TALLY_PRIORITY?"},
      {{{"TALLY_CONFIG", "DIR/FILE"}}, "priority = -1\n", "DIR/FILE:1: '-1' is not a whole number in 0..254"},
      {{{"TALLY_JOIN_TIMEOUT", "0"}}, "", "TALLY_JOIN_TIMEOUT: '0' is not a whole number in 1..86400"},
      {{{"TALLY_JOIN_TIMEOUT", "60s"}}, "", "TALLY_JOIN_TIMEOUT: '60s' is not a whole number in 1..86400"},
      // Rank and world.
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}},
       "",
       "RANK: rank 4 is not below the world of 4 that WORLD_SIZE says; ranks count from 0"},
      {{{"TALLY_RANK", "5"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
       "",
       "TALLY_RANK: rank 5 is not below the world of 2 that SLURM_NTASKS says; ranks count from 0"},
      {{{"OMPI_COMM_WORLD_RANK", "3"}},
       "",
       "OMPI_COMM_WORLD_RANK: '3' is a rank, but nothing says how many there are; set TALLY_WORLD"},
      {{{"PMI_SIZE", "3"}},
       "",
       "PMI_SIZE: '3' workers, but nothing says which rank this one is; set TALLY_RANK"},
      {{{"RANK", "first"}, {"WORLD_SIZE", "2"}}, "", "RANK: 'first' is not a whole number in 0..4095"},
      // Words.
      {{{"TALLY_IDLE", "sleep"}}, "", "TALLY_IDLE: 'sleep' is not poll or adaptive"},
      {{{"TALLY_DEBUG", "WARN"}}, "", "TALLY_DEBUG: 'WARN' is not INFO or TRACE"},
      {{{"TALLY_SWITCH", "box.example"}},
       "",
       "TALLY_SWITCH: 'box.example' is not an IP address; names are not looked up: write 10.0.0.1 or "
       "fd00::1"},
      {{{"TALLY_SWITCH", "10.0.0.1,10.0.0.300"}},
       "",
       "TALLY_SWITCH: '10.0.0.300' is not an IP address; names are not looked up: write 10.0.0.1 or "
       "fd00::1"},
      {{{"TALLY_SWITCH", "10.0.0.1:48896"}},
       "",
       "TALLY_SWITCH: '10.0.0.1:48896' is not an IP address; names are not looked up: write 10.0.0.1 or "
       "fd00::1"},
      {{{"TALLY_ADDRESS", "10.0.0"}},
       "",
       "TALLY_ADDRESS: '10.0.0' is not an IP address, alone or with a prefix length, for example "
       "10.0.0.11/24"},
      {{{"TALLY_ADDRESS", "10.0.0.11/33"}},
       "",
       "TALLY_ADDRESS: '10.0.0.11/33' is not an IP address, alone or with a prefix length, for example "
       "10.0.0.11/24"},
      {{{"TALLY_TRANSPORT", "net_memif0"}},
       "",
       "TALLY_TRANSPORT: 'net_memif0' is neither udp nor SCHEME:DEVICE, for example "
       "dpdk:net_memif0,role=client,id=0,socket=PATH"},
      {{{"TALLY_JOB", kSixtyFive}},
       "",
       "TALLY_JOB: '" + kSixtyFive + "' has 65 bytes, at most 64 are allowed"},
      {{{"TALLY_JOB", "a\nb"}}, "", "TALLY_JOB: 'a\nb' contains a line break or another control character"},
      // Misspelt variables.
      {{{"TALLY_SWICTH", "10.0.0.1"}},
       "",
       "TALLY_SWICTH: is not a variable of Tally; did you mean TALLY_SWITCH?"},
      {{{"TALLY_TOKENFILE", "x"}},
       "",
       "TALLY_TOKENFILE: is not a variable of Tally; did you mean TALLY_TOKEN_FILE?"},
      {{{"TALLY_CONFG", "x"}}, "", "TALLY_CONFG: is not a variable of Tally; did you mean TALLY_CONFIG?"},
      // Tokens.
      {{{"TALLY_TOKEN", kSixtyFive}}, "", "TALLY_TOKEN: the token has 65 bytes, at most 64 are allowed"},
      {{{"TALLY_TOKEN", "a"}, {"TALLY_TOKEN_FILE", "DIR/TOKEN"}},
       "",
       "TALLY_TOKEN: the token is also given by TALLY_TOKEN_FILE; remove one"},
      {{{"TALLY_TOKEN_FILE", "DIR/none"}},
       "",
       "TALLY_TOKEN_FILE: cannot read 'DIR/none': No such file or directory"},
      {{{"TALLY_TOKEN_FILE", "DIR"}}, "", "TALLY_TOKEN_FILE: 'DIR' cannot be read as a file"},
      {{{"TALLY_TOKEN_FILE", "DIR/TOKEN"}},
       "",
       "TALLY_TOKEN_FILE: 'DIR/TOKEN' is empty; put the job's token in it",
       "\n"},
      {{{"TALLY_TOKEN_FILE", "DIR/TOKEN"}},
       "",
       "TALLY_TOKEN_FILE: 'DIR/TOKEN' is no token file: its text contains a line break or another control "
       "character",
       "one\ntwo\n"},
      // The file.
      {{{"TALLY_CONFIG", "DIR/none"}}, "", "TALLY_CONFIG: cannot read 'DIR/none': No such file or directory"},
      {{{"TALLY_CONFIG", "DIR"}}, "", "TALLY_CONFIG: cannot read 'DIR': it is no text file"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "# comment\n\njob resnet\n",
       "DIR/FILE:3: 'job resnet' is not of the form key = value, for example job = resnet"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "swich = 10.0.0.1\n",
       "DIR/FILE:1: 'swich' is not a key; did you mean 'switch'?"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "job = a\nTALLY_RANK=1\n",
       "DIR/FILE:2: 'TALLY_RANK' is not a key; did you mean 'rank'?"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "colour = red\n",
       "DIR/FILE:1: 'colour' is not a key; keys are the TALLY_ variables in lower case without TALLY_"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "job =  # later\n",
       "DIR/FILE:1: job has no value; write one or remove the line"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "job = a\n\njob = b\n",
       "DIR/FILE:3: job is set a second time, the first is DIR/FILE:1"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "token = a\ntoken_file = DIR/TOKEN\n",
       "DIR/FILE:1: the token is also given by DIR/FILE:2; remove one"},
      {{{"TALLY_CONFIG", "DIR/FILE"}},
       "mtu = 1.5k\n",
       "DIR/FILE:1: '1.5k' is not a whole number in 616..9198"},
      {{{"TALLY_CONFIG", "DIR/FILE"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"TALLY_WORLD", "2"}},
       "world = 8\n",
       "RANK: rank 3 is not below the world of 2 that TALLY_WORLD says; ranks count from 0"},
  };
  return kAll;
}

TEST(ApiEnvironment, EveryMistakeGetsItsSentence) {
  EXPECT_GE(mistakes().size(), 25U);
  for (const Mistake& each : mistakes()) {
    const Environment environment(each.variables, each.file, each.token);
    const auto options = WorkerOptions::from_environment();
    ASSERT_FALSE(options) << each.expected;
    EXPECT_EQ(options.error().text(), environment.with_paths(each.expected));
  }
}

struct Incomplete {
  Variables variables;
  std::string expected;
};

TEST(ApiEnvironment, WhatIsMissingIsSaidByJoin) {
  const std::vector<Incomplete> all{
      {{}, "TALLY_JOB: no job is named: the name of a job in tallyd's configuration"},
      {{{"TALLY_JOB", "a"}}, "TALLY_SWITCH: no box is named: its IP address, for example 10.0.0.1"},
      // Only the transport itself is missing nothing: it is udp.
      {{{"TALLY_JOB", "a"}, {"TALLY_SWITCH", "127.0.0.1"}, {"TALLY_ADDRESS", "192.0.2.1"}},
       "TALLY_ADDRESS: no interface of this machine has the address 192.0.2.1 (see: ip address)"},
      {{{"TALLY_JOB", "a"}, {"TALLY_SWITCH", "10.0.0.1"}, {"TALLY_TRANSPORT", "udp:eth0"}},
       "TALLY_TRANSPORT: 'eth0' is not KEY=VALUE: write udp, or for example udp:buffer=8MiB"},
      {{{"TALLY_JOB", "a"}, {"TALLY_SWITCH", "10.0.0.1"}, {"TALLY_TRANSPORT", "tcp:eth0"}},
       "TALLY_TRANSPORT: there is no transport 'tcp' in this version; write udp, or dpdk:DEVICE, for example "
       "dpdk:net_memif0,role=client,id=0,socket=PATH"}};
  for (const Incomplete& each : all) {
    const Environment environment(each.variables, "");
    const auto options = WorkerOptions::from_environment();
    ASSERT_TRUE(options) << options.error().text();
    const auto joined = Worker::join(*options);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(joined.error().text(), each.expected);
  }
}

TEST(ApiEnvironment, DefaultsWithoutAnything) {
  const Environment environment({}, "");
  const auto options = WorkerOptions::from_environment();
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->rank, 0);
  EXPECT_EQ(options->world, 1);
  EXPECT_EQ(options->elements, 0);
  EXPECT_EQ(options->mtu, 1500);
  EXPECT_EQ(options->transport, "udp");
  EXPECT_EQ(options->priority, 254);
  EXPECT_FALSE(options->poll);
  EXPECT_EQ(options->join_timeout, std::chrono::seconds(60));
  EXPECT_TRUE(options->job.empty() && options->token.empty() && options->debug.empty());
}

TEST(ApiEnvironment, EveryVariableArrives) {
  const Environment environment({{"TALLY_JOB", "resnet"},
                                 {"TALLY_TOKEN_FILE", "DIR/TOKEN"},
                                 {"TALLY_SWITCH", "fd00::1"},
                                 {"TALLY_TRANSPORT", "dpdk:net_memif0,id=0"},
                                 {"TALLY_ADDRESS", "fd00::b/64"},
                                 {"TALLY_RANK", "3"},
                                 {"TALLY_WORLD", "8"},
                                 {"TALLY_ELEMENTS", "352"},
                                 {"TALLY_MTU", "9000"},
                                 {"TALLY_IDLE", "poll"},
                                 {"TALLY_PRIORITY", "200"},
                                 {"TALLY_JOIN_TIMEOUT", "5"},
                                 {"TALLY_DEBUG", "TRACE"},
                                 {"TALLY_PERF_SOMETHING", "is somebody else's"}},
                                "");
  const auto options = WorkerOptions::from_environment();
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->job, "resnet");
  EXPECT_EQ(options->token, "s3cret");
  EXPECT_EQ(options->box, "fd00::1");
  EXPECT_EQ(options->transport, "dpdk:net_memif0,id=0");
  EXPECT_EQ(options->address, "fd00::b/64");
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->world, 8);
  EXPECT_EQ(options->elements, 352);
  EXPECT_EQ(options->mtu, 9000);
  EXPECT_TRUE(options->poll);
  EXPECT_EQ(options->priority, 200);
  EXPECT_EQ(options->join_timeout, std::chrono::seconds(5));
  EXPECT_EQ(options->debug, "TRACE");
}

TEST(ApiEnvironment, TheLeastAndTheGreatestMtuAreGood) {
  for (const std::uint16_t mtu : {kLeastMtu, kGreatestMtu}) {
    const Environment environment({{"TALLY_JOB", "resnet"},
                                   {"TALLY_SWITCH", "10.0.0.1"},
                                   {"TALLY_RANK", "0"},
                                   {"TALLY_WORLD", "2"},
                                   {"TALLY_MTU", std::to_string(mtu)}},
                                  "");
    const auto options = WorkerOptions::from_environment();
    ASSERT_TRUE(options) << options.error().text();
    EXPECT_EQ(options->mtu, mtu);
  }
}

TEST(ApiEnvironment, LauncherOverridesTheFileAndVariablesOverrideBoth) {
  const Environment environment({{"TALLY_CONFIG", "DIR/FILE"},
                                 {"SLURM_PROCID", "1"},
                                 {"SLURM_NTASKS", "4"},
                                 {"TALLY_WORLD", "6"},
                                 {"TALLY_JOB", "bert"},
                                 {"TALLY_TOKEN", "from the variable"}},
                                "job = resnet   # a comment\n  rank=5\r\nworld = 7\ntoken_file = DIR/none\n"
                                "transport = dpdk:a#b\n");
  const auto options = WorkerOptions::from_environment();
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->job, "bert");
  EXPECT_EQ(options->rank, 1);
  EXPECT_EQ(options->world, 6);
  EXPECT_EQ(options->token, "from the variable");
  EXPECT_EQ(options->transport, "dpdk:a#b");
}

TEST(ApiEnvironment, ALauncherIsBelievedAsAWhole) {
  const Environment environment({{"WORLD_SIZE", "9"},  // left over from something else
                                 {"OMPI_COMM_WORLD_RANK", "2"},
                                 {"OMPI_COMM_WORLD_SIZE", "3"}},
                                "");
  const auto options = WorkerOptions::from_environment();
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->rank, 2);
  EXPECT_EQ(options->world, 3);
}

TEST(ApiEnvironment, AVariableSetToNothingIsNotSet) {
  const Environment environment({{"TALLY_RANK", ""}, {"TALLY_DEBUG", ""}, {"TALLY_CONFIG", ""}}, "");
  EXPECT_TRUE(WorkerOptions::from_environment());
}

}  // namespace
}  // namespace tally::api_test
