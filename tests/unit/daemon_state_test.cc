// The file of the jobs of job.add: torn, foreign and newer ones, and disks that fail at every step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

#include "config/load_config.h"
#include "daemon/made_jobs.h"
#include "daemon/state_file.h"
#include "daemon_plane.h"

namespace tally::daemon_test {
namespace {

namespace fs = std::filesystem;
using api::Json;
using testing::HasSubstr;

const daemon::State kState{"rack1", {Json{{"name", "one"}, {"workers", 2}}, Json{{"name", "two"}}}};

std::string why_not(const std::string& text) {
  const auto read = daemon::read_state(text, "rack1");
  return read ? "" : read.error();
}

TEST(DaemonStateFile, ReadsWhatItWrites) {
  const auto read = daemon::read_state(daemon::state_text(kState), "rack1");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->jobs, kState.jobs);
  EXPECT_TRUE(daemon::read_state(daemon::state_text({"rack1", {}}), "rack1"));
}

TEST(DaemonStateFile, EveryCutAndEveryChangedByteIsNoticed) {
  const std::string text = daemon::state_text(kState);
  for (std::size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_THAT(why_not(text.substr(0, size)), HasSubstr("torn")) << size;
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    const auto read = daemon::read_state(other, "rack1");
    EXPECT_FALSE(read && read->jobs != kState.jobs) << "byte " << at;
    EXPECT_FALSE(read) << "byte " << at << ": " << other;
  }
}

TEST(DaemonStateFile, ForeignAndNewerOnesAreSaidToBe) {
  EXPECT_THAT(why_not(daemon::state_text({"rack2", {}})), HasSubstr("is of the instance 'rack2'"));
  std::string newer = daemon::state_text(kState);
  newer.replace(newer.find(":1,"), 3, ":2,");
  EXPECT_THAT(why_not(newer), HasSubstr("is of version 2, and this tallyd knows version 1"));
  for (const char* const text : {"{}", "[]", "7", "{\"jobs\":[]}", "{\"tally_jobs\":\"1\"}"})
    EXPECT_THAT(why_not(text), HasSubstr("is none of tallyd's")) << text;
  EXPECT_THAT(why_not(std::string(100'000, '[')), HasSubstr("torn"));
}

// Fails the n-th call of one kind with this errno, if it is to fail any.
struct FailingFiles : daemon::Files {
  int create(const std::string& path) override { return fails("create") ? -1 : Files::create(path); }
  ssize_t write(int file, std::string_view text) override {
    if (fails("write")) return -1;
    return Files::write(file, text.substr(0, 10));  // a disk may take a piece
  }
  int sync(int file) override { return fails("sync") ? -1 : Files::sync(file); }
  int close(int file) override {
    const int closed = Files::close(file);
    return fails("close") ? -1 : closed;
  }
  int rename(const std::string& from, const std::string& to) override {
    return fails("rename") ? -1 : Files::rename(from, to);
  }
  int sync_folder(const std::string& path) override {
    return fails("sync_folder") ? -1 : Files::sync_folder(path);
  }
  bool fails(const std::string& call) {
    calls.push_back(call);
    if (call != which) return false;
    errno = error;
    return true;
  }
  std::string which{};
  int error = EIO;
  std::vector<std::string> calls{};
};

struct DaemonState : testing::Test {
  DaemonState() { fs::create_directory(directory); }
  ~DaemonState() override { fs::remove_all(directory); }
  [[nodiscard]] std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  std::string directory = "/tmp/tally-state." + std::to_string(getpid());
  std::string path = directory + "/rack1.jobs.json";
};

TEST_F(DaemonState, IsSyncedBeforeItGetsItsNameAndItsFolderAfterwards) {
  FailingFiles files;
  ASSERT_TRUE(daemon::replace_file(files, path, "short", ""));
  EXPECT_EQ(files.calls,
            (std::vector<std::string>{"create", "write", "sync", "close", "rename", "sync_folder"}));
  EXPECT_EQ(text(), "short");
  ASSERT_TRUE(daemon::replace_file(files, path, "much longer than a piece of it", "short"));
  EXPECT_EQ(text(), "much longer than a piece of it");
  EXPECT_EQ(names(), (std::vector<std::string>{"rack1.jobs.json"}));
}

TEST_F(DaemonState, WhateverFailsTheFormerTextIsThere) {
  for (const int error : {EIO, ENOSPC}) {
    for (const std::string former : {"", "what was promised"}) {
      for (const char* const call : {"create", "write", "sync", "close", "rename", "sync_folder"}) {
        fs::remove(path);
        FailingFiles files;
        if (!former.empty()) {
          ASSERT_TRUE(daemon::replace_file(files, path, former, ""));
        }
        files.which = call;
        files.error = error;
        const auto done = daemon::replace_file(files, path, "what is new", former);
        ASSERT_FALSE(done) << call;
        EXPECT_EQ(done.error().sys_errno, error) << call;
        EXPECT_EQ(text(), former) << call;
        EXPECT_EQ(names().size(), former.empty() ? 0U : 1U) << call;
      }
    }
  }
}

TEST_F(DaemonState, OnesThatAreSetAsideTakeNoOthersPlace) {
  for (const char* const name : {".unfit", ".unfit-2", ".unfit-3"}) {
    std::ofstream(path) << name;
    const auto aside = daemon::set_aside(path);
    ASSERT_TRUE(aside);
    EXPECT_EQ(*aside, path + name);
  }
  EXPECT_FALSE(daemon::set_aside(path)) << "there is none";
}

// A disk that hangs: the caller goes on, and is called back on its own thread.
TEST_F(DaemonState, ASlowDiskKeepsNobody) {
  struct SlowFiles : daemon::Files {
    int sync(int file) override {
      std::unique_lock lock(mutex);
      let.wait(lock, [this] { return open; });
      return Files::sync(file);
    }
    std::mutex mutex;
    std::condition_variable let;
    bool open = false;
  };
  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  auto files = std::make_unique<SlowFiles>();
  SlowFiles& slow = *files;
  int done = 0;
  {
    daemon::StateWriter writer(
        path, "",
        [&](std::function<void()> then) {
          const std::scoped_lock lock(mutex);
          posted.push_back(std::move(then));
        },
        std::move(files));
    writer.write("kept", [&](const Result<void>& written) { done += written ? 1 : 100; });
    EXPECT_EQ(text(), "") << "it hangs, and we are here";
    {
      const std::scoped_lock lock(slow.mutex);
      slow.open = true;
    }
    slow.let.notify_one();
    for (bool there = false; !there;) {
      const std::scoped_lock lock(mutex);
      there = !posted.empty();
    }
  }
  EXPECT_EQ(done, 0) << "not on its thread";
  ASSERT_EQ(posted.size(), 1U);
  posted.front()();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(text(), "kept");
}

struct DaemonFindState : DaemonState {
  Result<daemon::Keeping> find() {
    config::Config config;
    config.instance = "rack1";
    config.control.state = folder;
    return daemon::find_state(config, journal.sink());
  }
  std::string folder = directory;
  Journal journal;
};

TEST_F(DaemonFindState, AnUnfitFileIsNamedAndTheStartGoesOn) {
  std::string torn = daemon::state_text(kState);
  torn.resize(torn.size() / 2);
  for (const std::string& bad : {torn, daemon::state_text({"rack2", {}}), std::string("hello")}) {
    std::ofstream(path) << bad;
    const auto found = find();
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->state.jobs.empty());
    EXPECT_FALSE(found->unusable);
    EXPECT_EQ(found->path, path);
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(journal.count("is torn: "), 2U) << journal.all();
  EXPECT_EQ(journal.count("It is " + path + ".unfit from now on"), 1U) << journal.all();
  EXPECT_EQ(journal.count("It is " + path + ".unfit-3 from now on"), 1U) << journal.all();
}

TEST_F(DaemonFindState, OneThatCannotBeReadIsNotOverwritten) {
  fs::create_directory(path);  // no file, whoever we are
  fs::create_directory(path + "/inside");
  const auto found = find();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->unusable || !fs::exists(path)) << journal.all();
  EXPECT_TRUE(fs::exists(path + "/inside") || fs::exists(path + ".unfit/inside"));
}

TEST_F(DaemonFindState, AFolderThatIsNamedMustBeThere) {
  folder = directory + "/none";
  const auto found = find();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().where, "control.state");
  folder = "none";
  EXPECT_EQ(find()->why_not, "control.state is none");
  folder = "auto";
  ::setenv("STATE_DIRECTORY", (directory + ":/other").c_str(), 1);
  EXPECT_EQ(find()->path, path);
  ::unsetenv("STATE_DIRECTORY");
  EXPECT_THAT(find()->why_not, HasSubstr("systemd has made none"));
}

}  // namespace
}  // namespace tally::daemon_test
