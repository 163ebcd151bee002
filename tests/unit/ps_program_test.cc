// tally-ps without its loop: command line, tokens, what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "help_text.h"
#include "ps/path_boxes.h"
#include "ps/ps_command_line.h"
#include "ps/ps_report.h"
#include "ps_boxes_fleet.h"
#include "ps_support.h"

namespace tally::psbed {
namespace {

using testing::HasSubstr;

class PsProgram : public testing::Test {
 protected:
  ~PsProgram() override {
    for (const auto& path : files_) std::remove(path.c_str());
  }
  static auto parse(std::vector<std::string> more, bool complete = true) {
    std::vector<std::string> all{"tally-ps"};
    if (complete) {
      for (const char* word :
           {"--transport", "dpdk:net_memif0,id=9", "--box", "10.0.0.254", "--address", "10.0.0.9/24"})
        all.emplace_back(word);
    }
    all.insert(all.end(), more.begin(), more.end());
    std::vector<const char*> words;
    for (const auto& word : all) words.push_back(word.c_str());
    return ps::parse_command_line(static_cast<int>(words.size()), words.data());
  }
  static ps::PsSettings settings(std::vector<std::string> more) {
    auto parsed = parse(std::move(more));
    if (!parsed) ADD_FAILURE() << parsed.error().text();
    return parsed ? std::get<ps::PsSettings>(*parsed) : ps::PsSettings{};
  }
  static std::string error(std::vector<std::string> more, bool complete = true) {
    auto parsed = parse(std::move(more), complete);
    return parsed ? "none" : parsed.error().text();
  }
  std::string file(const std::string& text) {
    const std::string path =
        testing::TempDir() + "ps_token_" + std::to_string(::getpid()) + "_" + std::to_string(files_.size());
    std::ofstream(path) << text;
    files_.push_back(path);
    return path;
  }

 private:
  std::vector<std::string> files_;
};

TEST_F(PsProgram, DefaultsAndEveryOption) {
  const ps::PsSettings few = settings({"--job", "resnet"});
  EXPECT_EQ(few.transport, "dpdk:net_memif0,id=9");
  EXPECT_THAT(few.boxes, testing::ElementsAre("10.0.0.254"));
  EXPECT_EQ(few.address, "10.0.0.9/24");
  EXPECT_EQ(few.mtu, 1500);
  EXPECT_EQ(few.elements, 0);
  EXPECT_EQ(few.memory, std::size_t{64} << 20);
  EXPECT_FALSE(few.poll || few.json);
  EXPECT_EQ(few.statistics.count(), 10);
  const ps::PsSettings all = settings({"--job", "a:3", "--mtu", "9000", "--elements", "352", "--memory",
                                       "1GiB", "--poll", "--stats", "0", "--json"});
  EXPECT_EQ(all.jobs.at(0).index, 3U);
  EXPECT_EQ(all.mtu, 9000);
  EXPECT_EQ(all.elements, 352);
  EXPECT_EQ(all.memory, std::size_t{1} << 30);
  EXPECT_TRUE(all.poll && all.json);
  EXPECT_EQ(all.statistics.count(), 0);
}

TEST_F(PsProgram, OverSocketsBoxAndJobAreEnough) {
  const auto parsed = parse({"--box", "10.0.0.254", "--job", "resnet"}, false);
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(std::get<ps::PsSettings>(*parsed).transport, "udp");
  EXPECT_EQ(std::get<ps::PsSettings>(*parsed).address, "");
  EXPECT_THAT(error({"--box", "10.0.0.254", "--job", "a", "--transport", "dpdk:net_memif0"}, false),
              HasSubstr("--address: over dpdk a server has an address of its own"));
}

TEST_F(PsProgram, SeveralBoxesMayBeNamedToJoinAt) {
  const auto parsed = parse({"--box", "10.0.0.254,fd00::1", "--job", "resnet"}, false);
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_THAT(std::get<ps::PsSettings>(*parsed).boxes, testing::ElementsAre("10.0.0.254", "fd00::1"));
  EXPECT_THAT(error({"--box", "10.0.0.254,box7", "--job", "a"}, false),
              HasSubstr("--box: 'box7' is not an IP address; names are not looked up"));
  EXPECT_THAT(error({"--box", "10.0.0.254/24", "--job", "a"}, false), HasSubstr("--box: '10.0.0.254/24'"));
}

// Transports number boxes, the engine knows addresses. The first box is the one that was opened, whoever it is to the
// jobs.
TEST_F(PsProgram, TheTransportsListHasEachBoxOnceAndTheFirstOneFirst) {
  PlannedJob job;
  job.job.world = 6;
  job.plan = racks(6, 3);
  job.home = kB;
  PlannedJob other = job;
  other.job.name = "other";
  other.job.epoch = 300;
  other.job.generation = 3;
  other.plan = racks(6, 2);
  const Ipv6 first = job.plan.boxes[kA];
  Fleet fleet({job, other}, {first});
  ps::PathBoxes boxes(first);
  boxes.list(*fleet.server);
  EXPECT_FALSE(boxes.take_changed()) << "one box, as ever";
  EXPECT_EQ(boxes.place_of(first), 0);
  EXPECT_EQ(boxes.place_of(job.plan.boxes[kB]), 1) << "where it was sent to";
  EXPECT_TRUE(boxes.take_changed());
  EXPECT_FALSE(boxes.take_changed());
  (void)fleet.settle();
  ASSERT_EQ(fleet.counted(0).enlisted, 2U);
  boxes.list(*fleet.server);
  EXPECT_TRUE(boxes.take_changed());
  ASSERT_EQ(boxes.all().size(), 3U);
  EXPECT_EQ(boxes.all()[0].address, Ipv6{}) << "that of the transport's options";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(boxes.place_of(boxes.address(i)), i);
    EXPECT_EQ(boxes.all()[i].mac, Mac{}) << "known: what the box said";
  }
  EXPECT_EQ(boxes.address(0), first);
  EXPECT_EQ(boxes.address(3), Ipv6{}) << "nobody's";
  boxes.list(*fleet.server);
  EXPECT_FALSE(boxes.take_changed());
  // The next plans do without the third box: nothing of it is left.
  ++fleet.jobs[0].job.epoch;
  fleet.jobs[0].plan = racks(6, 2);
  fleet.hear(job, kB, job.at(kB).reject(RejectReason::kEpoch));
  (void)fleet.live(kSecond);
  ASSERT_EQ(fleet.counted(0).epochs, 2U);
  boxes.list(*fleet.server);
  EXPECT_TRUE(boxes.take_changed());
  EXPECT_EQ(boxes.all().size(), 2U);
}

TEST_F(PsProgram, ATokenFileIsOfTheJobBeforeItOrOfAllWithoutTheirOwn) {
  const std::string common = file("everybody\n");
  const std::string own = file("mine\r\n");
  const ps::PsSettings s =
      settings({"--token-file", common, "--job", "a", "--job", "b:2", "--token-file", own, "--job", "c"});
  ASSERT_EQ(s.jobs.size(), 3U);
  EXPECT_EQ(s.jobs[0].token, "everybody");
  EXPECT_EQ(s.jobs[1].job, "b");
  EXPECT_EQ(s.jobs[1].index, 2U);
  EXPECT_EQ(s.jobs[1].token, "mine");
  EXPECT_EQ(s.jobs[2].token, "everybody");
  EXPECT_EQ(settings({"--job", "a"}).jobs[0].token, "");
}

TEST_F(PsProgram, MistakesAreNamed) {
  EXPECT_THAT(error({}), HasSubstr("--job"));
  EXPECT_THAT(error({"--job", "a"}, false), HasSubstr("required"));
  EXPECT_THAT(error({"--job", "a:16"}), HasSubstr("--job: 'a:16': behind the colon"));
  EXPECT_THAT(error({"--job", "a:x"}), HasSubstr("as in a:0"));
  EXPECT_THAT(error({"--job", ":1"}), HasSubstr("a job's name has 1..64 letters"));
  EXPECT_THAT(error({"--job", "a:0", "--job", "a:1"}), HasSubstr("'a' is named twice"));
  EXPECT_THAT(error({"--job", "a", "--token-file", "/no/such"}),
              HasSubstr("cannot read '/no/such': No such file"));
  EXPECT_THAT(error({"--job", "a", "--token-file", file("")}), HasSubstr("is empty"));
  EXPECT_THAT(error({"--job", "a", "--token-file", file(std::string(65, 'x'))}),
              HasSubstr("has 65 bytes, at most 64 are allowed"));
  EXPECT_THAT(error({"--job", "a", "--token-file", file("two\nlines")}), HasSubstr("control character"));
  EXPECT_THAT(error({"--job", "a", "--memory", "12x"}), HasSubstr("--memory: write a size"));
  EXPECT_THAT(error({"--job", "a", "--elements", "100"}),
              HasSubstr("--elements: 100 is not a multiple of 16"));
  EXPECT_THAT(error({"--box", "10.0.0.254", "--job", "a", "--transport", "tcp:eth0"}, false),
              HasSubstr("--transport: there is no transport 'tcp:eth0'; write udp"));
  EXPECT_THAT(error({"--job", "a", "--stats", "-1"}), HasSubstr("--stats"));
  EXPECT_THAT(error({"--job", "a", "--nonsense"}), HasSubstr("--nonsense"));
}

TEST_F(PsProgram, HelpAndVersion) {
  const auto text = [](const char* option) { return std::get<ps::PsText>(*parse({option}, false)).text; };
  check_help(text("--help"),
             {"--help", "--job", "--token-file", "--transport", "--box", "--address", "--mtu", "--elements",
              "--memory", "--poll", "--json", "--stats", "--version", "SIGTERM"});
  EXPECT_THAT(text("--version"), testing::StartsWith("tally-ps "));
}

TEST_F(PsProgram, TellsWhatItDid) {
  const BoxJob job;
  Server server({job});
  server.join(job);
  EXPECT_EQ(ps::event_line(*server.engine, *server.engine->next_event()),
            "job 'a': runs with 3 workers, 32 elements, span 32");
  server.hear(job.partial(0b011, Chunk{0}));
  server.hear(job.contribution(2, Chunk{0}));
  server.hear(job.contribution(2, Chunk{1}));
  server.hear(Bytes(3));
  (void)server.drain();
  EXPECT_EQ(ps::statistics_line(*server.engine),
            "1 of 1 jobs run; in 3 (contributions 2, partials 1, sums 0), refused 1; chunks completed 1, no "
            "room 0, "
            "given up 0; out 2 (results 1, flushes 1, resends 0), queue full 0; states 1 incomplete, 1 kept, "
            "of 64");
  const auto all = nlohmann::json::parse(ps::statistics_json(*server.engine));
  EXPECT_EQ(all["jobs"][0]["job"], "a");
  EXPECT_EQ(all["jobs"][0]["server"], 0);
  EXPECT_EQ(all["jobs"][0]["running"], true);
  EXPECT_EQ(all["jobs"][0]["contributions"], 2);
  EXPECT_EQ(all["jobs"][0]["completed"], 1);
  EXPECT_EQ(all["refused"]["runt"], 1);
  EXPECT_EQ(all["states"]["incomplete"], 1);
  EXPECT_EQ(all["states"]["capacity"], 64);
}

}  // namespace
}  // namespace tally::psbed
