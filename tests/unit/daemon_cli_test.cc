// The command line of the built tallyd: what it prints where, and what it returns. Nothing here starts EAL.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "help_text.h"

namespace tally {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

std::string all_of(std::FILE* file) {
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), file)) text.append(part.data(), n);
  return text;
}

Ended tallyd(const std::string& arguments) {
  const std::string errors = testing::TempDir() + "tallyd-cli-" + std::to_string(getpid());
  std::FILE* const pipe = popen((TALLYD " " + arguments + " 2>" + errors).c_str(), "r");
  Ended run;
  run.out = all_of(pipe);
  const int status = pclose(pipe);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::FILE* const file = std::fopen(errors.c_str(), "r");
  run.err = all_of(file);
  std::fclose(file);
  unlink(errors.c_str());
  return run;
}

const std::string kDemo = std::string(TALLY_CONF_DIRECTORY) + "/demo.yaml";

TEST(DaemonCli, HelpGoesToStdout) {
  const Ended run = tallyd("--help");
  EXPECT_EQ(run.code, 0);
  check_help(run.out, {"--help", "--config", "--check", "--dump-config", "--drain", "--version",
                       "SIGUSR1 prints the counters to stdout", "SIGHUP reads the configuration again",
                       "SIGTERM and SIGINT stop admitting jobs", "a second one ends at once"});
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(DaemonCli, VersionNamesEverythingThatABugReportNeeds) {
  const Ended run = tallyd("--version");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("tallyd 0."));
  EXPECT_THAT(run.out, HasSubstr("DPDK 22.11"));
  EXPECT_THAT(run.out, HasSubstr("compiler "));
  EXPECT_THAT(run.out, HasSubstr("scalar"));
}

TEST(DaemonCli, WithoutAConfigurationItSaysWhereAnExampleIs) {
  for (const char* arguments : {"", "--check", "--dump-config"}) {
    const Ended run = tallyd(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_THAT(run.err, HasSubstr("--config FILE is missing")) << arguments;
    EXPECT_THAT(run.err, HasSubstr("demo.yaml")) << arguments;
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST(DaemonCli, WrongUsageIsTwo) {
  for (const char* arguments :
       {"--cofnig x", "--config", "--config x y", "--config x --drain soon", "--config x --drain -1",
        "--config x --check --dump-config", "--config x --config y"}) {
    const Ended run = tallyd(arguments);
    EXPECT_EQ(run.code, 2) << arguments << run.err;
    EXPECT_THAT(run.err, HasSubstr("Try 'tallyd --help'")) << arguments;
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST(DaemonCli, CheckOfTheDemoIsGood) {
  const Ended run = tallyd("--check --config " + kDemo);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, kDemo + ": good: instance demo: 1 data core (CPU 1), 10 ports, 3 jobs of 10 workers\n");
}

TEST(DaemonCli, CheckOfTheExampleForSwitchmlIsGood) {
  const std::string example = std::string(TALLY_CONF_DIRECTORY) + "/switchml.yaml";
  const Ended run = tallyd("--check --config " + example);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out,
            example +
                ": good: instance legacy: 1 data core (CPU 1), 2 ports, 1 job of 2 workers, 1 session "
                "of 2 members\n");
}

TEST(DaemonCli, CheckGivesAllErrorsAtOnce) {
  const std::string path = testing::TempDir() + "tallyd-cli-" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << "instance: x\ndataplane: {cores: [one], idel: poll}\n";
  const Ended run = tallyd("--check --config " + path);
  unlink(path.c_str());
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, HasSubstr(path + ":2:21"));
  EXPECT_THAT(run.err, HasSubstr("idel"));
  EXPECT_THAT(run.err, HasSubstr("ports"));
}

TEST(DaemonCli, AFileThatIsNotThereIsOne) {
  for (const char* action : {"--check ", "--dump-config ", ""}) {
    const Ended run = tallyd(std::string(action) + "--config /nowhere/tally.yaml");
    EXPECT_EQ(run.code, 1) << action;
    EXPECT_THAT(run.err, HasSubstr("/nowhere/tally.yaml")) << action;
  }
}

TEST(DaemonCli, TheDumpIsAConfiguration) {
  const Ended dump = tallyd("--dump-config --config " + kDemo);
  EXPECT_EQ(dump.code, 0);
  EXPECT_THAT(dump.out, HasSubstr("instance: demo"));
  const std::string path = testing::TempDir() + "tallyd-dump-" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << dump.out;
  const Ended again = tallyd("--dump-config --config " + path);
  unlink(path.c_str());
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, dump.out);
}

}  // namespace
}  // namespace tally
