// tools/veth-rack: a rack of kernel interfaces that leaves nothing behind; and a child in a host of it.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Ran {
  std::string output;  // both streams
  int code = 0;
};

Ran run(const std::string& command) {
  Ran ran;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) ran.output += part.data();
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

const std::string kRack = TALLY_VETH_RACK;

class VethRackTest : public testing::Test {
 protected:
  void SetUp() override {
    const Ran ran = run(geteuid() == 0 ? "unshare --net true" : "unshare -Urn true");
    if (ran.code != 0) GTEST_SKIP() << "no namespaces: " << ran.output;
  }
};

TEST_F(VethRackTest, HostsAreBehindThePorts) {
  const Ran ran = run(kRack +
                      " 2 10.9.0.0/24 -- sh -c 'ip -br link; "
                      "for host in $(echo {hosts} | tr , \" \"); do nsenter --net=$host ip -br addr; done'");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.output, ContainsRegex("port0@[^\n]*\nport1@"));
  EXPECT_THAT(ran.output, HasSubstr("10.9.0.10/24"));
  EXPECT_THAT(ran.output, HasSubstr("10.9.0.11/24"));
}

TEST_F(VethRackTest, EndsAsItsCommandEndsAndLeavesNothing) {
  const Ran ran = run(kRack + " 1 10.9.0.0/24 -- sh -c 'echo {hosts}; exit 7'");
  EXPECT_EQ(ran.code, 7);
  ASSERT_THAT(ran.output, HasSubstr("/proc/"));
  const std::string host = ran.output.substr(0, ran.output.find('\n'));
  EXPECT_NE(run("test -e " + host).code, 0) << host << " is still there";
  EXPECT_EQ(run("ip -br link | grep -c ^port0").output, "0\n");
}

TEST_F(VethRackTest, ItsHostsDoNotOutliveItsDeath) {
  const Ran ran = run(kRack + " 1 10.9.0.0/24 -- sh -c 'echo {hosts}; kill -9 $PPID'");
  EXPECT_EQ(ran.code, 137) << ran.output;
  const std::string host = ran.output.substr(0, ran.output.find('\n'));
  EXPECT_EQ(run("for i in $(seq 500); do test -e " + host + " || exit 0; sleep 0.02; done; exit 1").code, 0)
      << host;
}

TEST_F(VethRackTest, ItsCommandEndsWithIt) {
  for (const std::string signal : {"TERM", "KILL"}) {
    const Ran ran =
        run(kRack + " 0 10.9.0.0/24 -- sh -c 'echo $$; kill -" + signal + " $PPID; exec sleep 1000'");
    const std::string pid = ran.output.substr(0, ran.output.find('\n'));
    EXPECT_EQ(
        run("for i in $(seq 500); do test -e /proc/" + pid + "/ns/net || exit 0; sleep 0.02; done; exit 1")
            .code,
        0)
        << signal << ": process " << pid << " is still there";
  }
}

TEST(VethRack, TellsHowItIsUsed) {
  EXPECT_EQ(run(kRack + " 1 -- true").code, 2);
  const Ran ran = run(kRack + " 1 10.0.0.300/24 -- true");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("10.0.0.300/24"));
  EXPECT_THAT(run(kRack + " 1 10.0.0.0/29 -- true").output,
              HasSubstr("10.0.0.0/29 is too small for 1 hosts"));
  EXPECT_EQ(run(kRack + " 1 10.0.0.0/24 --").code, 2);
}

}  // namespace
}  // namespace tally
