// Jobs that are made, changed and removed while the box runs, beside those of its file, and the disk that keeps
// them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "daemon/made_jobs.h"
#include "daemon_reload_bed.h"

namespace tally::daemon_test {
namespace {

using api::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct DaemonMade : DaemonReload {
  using Outcome = tl::expected<api::JobChange, api::Failure>;

  DaemonMade() : DaemonReload(with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64}")) {
    daemon::Keeping keeping;
    keeping.path = "/somewhere";
    made.begin(keeping, 7);
  }
  daemon::MadeJobs::Parts parts() {
    return {reload_,
            *bench.members,
            journal.sink(),
            "/nowhere",
            [this] { return bench.now; },
            [this] { return ending; },
            [this] { ++changes; },
            [this](std::string text, std::function<void(Result<void>)> done) {
              disk.push_back(std::move(text));
              writing.push_back(std::move(done));
              if (!slow) written();
            }};
  }
  // What hangs is on the disk, or not.
  void written(int error = 0) {
    const auto done = std::exchange(writing, {});
    Result<void> how;
    if (full || error != 0) {
      disk.pop_back();
      how = fail(ErrorCode::kSystem, "cannot write: No space left on device");
      how.error().sys_errno = error;
    }
    for (const auto& one : done) one(how);
  }
  api::ChangeDone note() {
    return [this](Outcome outcome) { outcomes.push_back(std::move(outcome)); };
  }
  Outcome last() {
    EXPECT_FALSE(outcomes.empty()) << "nothing was told";
    return outcomes.empty() ? Outcome(tl::unexpected<api::Failure>(api::Failure{})) : outcomes.back();
  }
  // Its two workers come.
  std::vector<Peer> form_bert() {
    std::vector<Peer> two{Peer(0), Peer(1)};
    for (Peer& p : two) {
      p.job = "bert";
      p.token.clear();
    }
    EXPECT_TRUE(bench.form(two));
    return two;
  }
  Outcome add(const Json& job) { return made.add(job, std::nullopt, note()), last(); }
  Outcome set(const std::string& name, const Json& keys) {
    return made.set(name, keys, std::nullopt, note()), last();
  }
  Outcome remove(const std::string& name, bool abort = false) {
    return made.remove(name, abort, std::nullopt, note()), last();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const members::JobStatus& job : bench.members->status(bench.now)) all.push_back(job.name);
    return all;
  }
  [[nodiscard]] Json kept() const { return disk.empty() ? Json() : Json::parse(disk.back())["jobs"]; }
  static std::string error(const Outcome& outcome) {
    if (outcome) return "done";
    const Json& data = outcome.error().data;
    if (!data.is_object() || !data.contains("diagnostics")) return outcome.error().message;
    const Json& d = data["diagnostics"][0];
    return d["path"].get<std::string>() + ": " + d["message"].get<std::string>() + "; " +
           d["help"].get<std::string>();
  }

  bool ending = false;
  bool slow = false;
  bool full = false;
  int changes = 0;
  std::vector<std::string> disk{};
  std::vector<std::function<void(Result<void>)>> writing{};
  std::vector<Outcome> outcomes{};
  daemon::MadeJobs made{parts()};
};

const Json kBert{{"name", "bert"}, {"workers", 2}, {"token_file", "none"}, {"window", 64}};

TEST_F(DaemonMade, AJobIsOnTheDiskBeforeItIsDeclared) {
  slow = true;
  made.add(kBert, std::nullopt, note());
  EXPECT_TRUE(made.busy());
  EXPECT_TRUE(outcomes.empty());
  EXPECT_THAT(names(), ElementsAre("one"));
  EXPECT_EQ(kept(), Json::array({kBert}));
  written();
  EXPECT_TRUE(last());
  EXPECT_THAT(names(), ElementsAre("one", "bert"));
  EXPECT_EQ(made.revision(), 8U);
  EXPECT_EQ(changes, 1);
  std::vector<Peer> two{Peer(0), Peer(1)};
  for (Peer& p : two) {
    p.job = "bert";
    p.token.clear();
  }
  EXPECT_TRUE(bench.form(two));
}

TEST_F(DaemonMade, ADiskThatIsFullChangesNothing) {
  ASSERT_TRUE(add(kBert));
  full = true;
  const std::string before = disk.back();
  const auto in_force = reload_.config();
  const Outcome no = add({{"name", "gpt"}, {"workers", 2}});
  EXPECT_EQ(no.error().code, api::Code::kNotKept);
  EXPECT_THAT(no.error().message, HasSubstr("No space left on device"));
  EXPECT_EQ(set("bert", {{"window", 128}}).error().code, api::Code::kNotKept);
  EXPECT_EQ(remove("bert").error().code, api::Code::kNotKept);
  EXPECT_THAT(names(), ElementsAre("one", "bert"));
  EXPECT_EQ(reload_.config(), in_force);
  EXPECT_EQ(made.revision(), 8U);
  full = false;
  EXPECT_TRUE(remove("bert"));
  EXPECT_EQ(kept(), Json::array());
}

TEST_F(DaemonMade, ErrorsAreThoseOfTheFileWithAPointerAndTheFix) {
  const auto no = [&](Json job) {
    Json whole{{"name", "x"}, {"workers", 2}, {"token_file", "none"}};
    whole.update(job);
    return error(add(whole));
  };
  EXPECT_EQ(no({{"workers", 65}}), "/workers: 65 is above 64; write a whole number from 1 to 64");
  EXPECT_EQ(no({{"workers", "4"}}), "/workers: '4' is in quotes, which makes it a text; remove the quotes");
  EXPECT_THAT(no({{"workers", 1.5}}), HasSubstr("/workers: '1.5'"));
  EXPECT_THAT(no({{"workers", nullptr}}), HasSubstr("/workers: this key has no value"));
  EXPECT_THAT(no({{"workers", Json::array({4})}}), HasSubstr("/workers: this is a list, not a single value"));
  EXPECT_EQ(no({{"window", 65}}), "/window: 65 is not a power of two; write 64 or 128");
  EXPECT_THAT(no({{"windw", 64}}), HasSubstr(": unknown key 'windw'; did you mean window?"));
  EXPECT_THAT(no({{"quota", {{"cap", "x"}}}}), HasSubstr("/quota/cap: "));
  EXPECT_THAT(no({{"quota", {{"cap", "30%"}}}}),
              HasSubstr("/quota/cap: 30%: a quota divides the shared slots"));
  EXPECT_THAT(no({{"name", "a b"}}), HasSubstr("/name: 'a b' is not a name"));
  EXPECT_THAT(no({{"token_file", "/no/such"}}), HasSubstr("/token_file: cannot read '/no/such'"));
  EXPECT_THAT(no({{"window", 16'384}, {"elements", 352}}), HasSubstr("/window: a window of 16384 chunks"));
  EXPECT_THAT(no({{"dialect", "switchml"}}), HasSubstr("token_file belongs to the dialect native"));
  EXPECT_THAT(error(add({{"workers", 2}})), HasSubstr(": the key name is missing; add it"));
  EXPECT_TRUE(disk.empty());
  EXPECT_THAT(names(), ElementsAre("one"));
}

TEST_F(DaemonMade, WhatTheOthersReserveCounts) {
  Json job = kBert;
  job.update({{"discipline", "shared"}, {"quota", {{"reserved", "60%"}}}});
  ASSERT_TRUE(add(job)) << error(last());
  job["name"] = "gpt";
  EXPECT_THAT(error(add(job)), HasSubstr("/quota/reserved: up to this job, 120% of the shared slots"));
  job["quota"]["reserved"] = "40%";
  EXPECT_TRUE(add(job)) << error(last());
  EXPECT_THAT(error(set("gpt", {{"quota", {{"reserved", "41%"}}}})),
              HasSubstr("/quota/reserved: up to this job, 101%"));
  EXPECT_TRUE(set("gpt", {{"quota", {{"cap", "50%"}}}}));
  EXPECT_EQ(kept()[1]["quota"], (Json{{"reserved", "40%"}, {"cap", "50%"}})) << "key by key";
}

TEST_F(DaemonMade, OneNameIsOneJob) {
  ASSERT_TRUE(add(kBert));
  const Outcome twice = add(kBert);
  EXPECT_EQ(twice.error().code, api::Code::kExists);
  EXPECT_EQ(twice.error().message, "there is a job 'bert' already, of job.add");
  Json one = kBert;
  one["name"] = "one";
  EXPECT_EQ(error(add(one)), "there is a job 'one' already, of the configuration file");
}

TEST_F(DaemonMade, ChangesAreCarriedOutOneAfterTheOther) {
  slow = true;
  made.add(kBert, std::nullopt, note());
  made.add(kBert, std::nullopt, note());
  made.set("bert", {{"priority", 7}}, std::nullopt, note());
  made.remove("bert", false, 8, note());  // as it was before job.set
  EXPECT_EQ(disk.size(), 1U);
  written();
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[1].error().code, api::Code::kExists);
  written();
  ASSERT_EQ(outcomes.size(), 4U);
  EXPECT_TRUE(outcomes[2]);
  EXPECT_EQ(outcomes[3].error().code, api::Code::kRevision);
  EXPECT_EQ(kept()[0]["priority"], 7);
}

TEST_F(DaemonMade, AJobOfTheFileIsSetUntilTheNextReload) {
  ASSERT_TRUE(bench.form(peers));
  const Outcome done = set("one", {{"window", 64}, {"lease", "5s"}});
  ASSERT_TRUE(done) << error(done);
  EXPECT_THAT(done->notes, ElementsAre("job 'one' gets a window of 64 instead of 256",
                                       "job 'one' goes on with another lease",
                                       "it is the file's: this holds until the next reload or start"));
  EXPECT_TRUE(disk.empty());
  bench.settle();
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 64U);
  EXPECT_EQ(bench.status(id).lease, 5 * kSecond);
  reload(with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64}"));
  EXPECT_EQ(journal.count("reload: job 'one' gets a window of 256 instead of 64"), 1U) << journal.all();
  EXPECT_EQ(journal.count("reload: job 'one' goes on with another lease"), 1U);
}

TEST_F(DaemonMade, EveryKeyButNameAndDialectCanBeSet) {
  ASSERT_TRUE(add(kBert));
  const std::vector<std::pair<std::string, Json>> keys{{"workers", 3},
                                                       {"window", 128},
                                                       {"results", "multicast"},
                                                       {"priority", 9},
                                                       {"lease", "3s"},
                                                       {"elements", 64},
                                                       {"stragglers", {{"timeout", "50ms"}, {"min", 2}}},
                                                       {"stragglers", "off"}};
  for (const auto& [key, value] : keys) {
    EXPECT_TRUE(set("bert", {{key, value}})) << key << ": " << error(last());
    EXPECT_EQ(kept()[0][key], value);
  }
  EXPECT_TRUE(set("bert", {{"discipline", "shared"}, {"stragglers", "off"}})) << error(last());
  EXPECT_EQ(error(set("nobody", {{"window", 64}})), "there is no job 'nobody'");
  EXPECT_THAT(error(set("bert", {{"window", 65}})), HasSubstr("/window: 65 is not a power of two"));
  EXPECT_THAT(error(set("bert", {{"lease", "1us"}})), HasSubstr("/lease: "));
}

TEST_F(DaemonMade, WhatCannotBeNowIsTakenBackFromTheDisk) {
  ASSERT_TRUE(add(kBert));
  form_bert();
  const Outcome no = set("bert", {{"window", 128}});
  EXPECT_EQ(no.error().code, api::Code::kNotNow);
  EXPECT_THAT(no.error().message, HasSubstr("the largest of this generation is 64"));
  EXPECT_EQ(kept(), Json::array({kBert}));
  EXPECT_EQ(made.revision(), 8U);
}

TEST_F(DaemonMade, AJobWithWorkersIsRemovedOnlyWithAbort) {
  ASSERT_TRUE(add(kBert));
  const std::vector<Peer> two = form_bert();
  EXPECT_THAT(error(remove("bert")), HasSubstr("job 'bert' has workers"));
  EXPECT_EQ(kept(), Json::array({kBert}));
  EXPECT_THAT(error(remove("one", true)), HasSubstr("is of the configuration file"));
  EXPECT_EQ(remove("bart").error().code, api::Code::kNoSuchJob);
  EXPECT_EQ(last().error().data["nearest"], "bert");
  ASSERT_TRUE(remove("bert", true));
  EXPECT_THAT(members_test::only(bench.settle(), PacketType::kAbort, two[0]).text(),
              HasSubstr("removed from the box by an operator"));
  EXPECT_THAT(names(), ElementsAre("one"));
  EXPECT_EQ(kept(), Json::array());
}

// The two sets and the reload.
TEST_F(DaemonMade, AReloadLeavesThemAndNamesAClash) {
  ASSERT_TRUE(add(kBert));
  const std::string shared = with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64}");
  reload(shared);
  EXPECT_EQ(journal.count("nothing differs from what runs"), 1U) << journal.all();
  EXPECT_THAT(names(), ElementsAre("one", "bert"));
  reload(shared + "  - {name: bert, workers: 4, token_file: none}\n");
  EXPECT_EQ(journal.count("job 'bert' of the file is not declared: a job of this name was made by job.add"),
            1U)
      << journal.all();
  EXPECT_THAT(names(), ElementsAre("one", "bert"));
  ASSERT_TRUE(remove("bert"));
  reload(shared + "  - {name: bert, workers: 4, token_file: none}\n");
  EXPECT_EQ(journal.count("job 'bert' is declared"), 1U) << journal.all();
}

TEST_F(DaemonMade, AStartBringsThemBackAndTheFileComesFirst) {
  ASSERT_TRUE(add(kBert));
  Json one = kBert;
  one["name"] = "one";
  Json lost = kBert;
  lost.update({{"name", "lost"}, {"token_file", "/no/such"}});
  daemon::Keeping keeping;
  keeping.path = "/somewhere";
  keeping.state.jobs = {kBert, one, lost};
  Bench other(config::member_options(config));
  other.declare(*config::jobs_of<config::NativeConfig>(config)[0].second);
  daemon::Reload reload{config, journal.sink()};
  daemon::MadeJobs::Parts with_other{
      reload, *other.members, journal.sink(), "/nowhere", [this] { return bench.now; }, [] { return false; },
      [] {},  parts().save};
  daemon::MadeJobs again{with_other};
  again.begin(keeping, 1);
  EXPECT_TRUE(reload.made("bert"));
  ASSERT_EQ(again.dormant().size(), 2U);
  EXPECT_THAT(again.dormant()[0], HasSubstr("job 'one' is not declared: the file has a job of this name"));
  EXPECT_THAT(again.dormant()[1], HasSubstr("/token_file: cannot read '/no/such'"));
  EXPECT_EQ(journal.count("is kept, but not declared"), 2U) << journal.all();
  again.set("lost", {{"window", 128}}, std::nullopt, note());
  EXPECT_THAT(error(last()), HasSubstr("job 'lost' is not declared: ")) << "and not of another one";
  again.set("one", {{"window", 64}}, std::nullopt, note());
  EXPECT_TRUE(last()) << "the file's, which runs: " << error(last());
  // They are forgotten by hand only, and what is written keeps them.
  Json gpt = kBert;
  gpt["name"] = "gpt";
  again.add(gpt, std::nullopt, note());
  EXPECT_EQ(kept(), Json::array({kBert, one, lost, gpt}));
  again.remove("one", false, std::nullopt, note());
  EXPECT_TRUE(last());
  EXPECT_EQ(kept(), Json::array({kBert, lost, gpt}));
  // What was missing is there by the next reload.
  const std::string token = "/tmp/tally-made." + std::to_string(getpid());
  keeping.state.jobs = {lost};
  keeping.state.jobs[0]["token_file"] = token;
  daemon::MadeJobs third{with_other};
  third.begin(keeping, 1);
  EXPECT_EQ(third.dormant().size(), 1U);
  std::ofstream(token) << "secret";
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  third.retry();
  std::filesystem::remove(token);
  EXPECT_THAT(third.dormant(), IsEmpty());
  EXPECT_EQ(third.revision(), 2U) << "the box is another by that";
}

TEST_F(DaemonMade, WithoutAFolderTheAnswerSaysThatItIsGoneWithTheDaemon) {
  daemon::MadeJobs::Parts without = parts();
  without.save = {};
  daemon::MadeJobs loose{without};
  daemon::Keeping keeping;
  keeping.why_not = "control.state is none";
  loose.begin(keeping, 1);
  EXPECT_FALSE(loose.keeps());
  loose.add(kBert, std::nullopt, note());
  ASSERT_TRUE(last());
  EXPECT_THAT(last()->notes, ElementsAre("it is gone when tallyd ends: control.state is none"));
  EXPECT_TRUE(disk.empty());
}

TEST_F(DaemonMade, WhileTheBoxShutsDownNothingIsMade) {
  ending = true;
  EXPECT_EQ(error(add(kBert)), "the box is shutting down; nothing was changed");
  EXPECT_TRUE(disk.empty());
}

}  // namespace
}  // namespace tally::daemon_test
