// A trace as tallyctl writes it, block by block, from a daemon that says what it likes; and events as lines.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/pages.h"
#include "ctl/pcapng.h"
#include "ctl/trace.h"

namespace tally::ctl_test {
namespace {

using ctl::Json;
using testing::ElementsAre;
using testing::HasSubstr;

std::uint32_t word(const std::string& text, std::size_t at) {
  std::uint32_t n = 0;
  std::memcpy(&n, text.data() + at, sizeof n);
  return n;
}

// Each block's type; its length stands at both ends and is a multiple of 4.
std::vector<std::uint32_t> blocks_of(const std::string& text) {
  std::vector<std::uint32_t> types;
  for (std::size_t at = 0; at + 12 <= text.size();) {
    const std::uint32_t length = word(text, at + 4);
    if (length < 12 || length % 4 != 0 || at + length > text.size() ||
        word(text, at + length - 4) != length) {
      ADD_FAILURE() << "a broken block at " << at;
      break;
    }
    types.push_back(word(text, at));
    at += length;
  }
  return types;
}

TEST(CtlTrace, AFileHasASectionItsPortsAndFrames) {
  const std::vector<std::byte> bytes(61, std::byte{0xA5});
  const std::string head = ctl::pcapng_head("tallyctl 1", {"w0", "w11"});
  const std::string frame = ctl::pcapng_frame({.unix_ns = 0x1'0000'0002,
                                               .port = 1,
                                               .out = true,
                                               .length = 1500,
                                               .bytes = bytes,
                                               .comment = "core 0: sent"});
  EXPECT_THAT(blocks_of(head + frame), ElementsAre(0x0A0D0D0A, 1, 1, 6));
  EXPECT_THAT(head, HasSubstr("w11"));
  EXPECT_EQ(word(frame, 8), 1U);
  EXPECT_EQ(word(frame, 12), 1U);
  EXPECT_EQ(word(frame, 16), 2U);
  EXPECT_EQ(word(frame, 20), 61U);
  EXPECT_EQ(word(frame, 24), 1500U);
  EXPECT_EQ(frame.substr(28, 61), std::string(61, '\xA5'));
  EXPECT_THAT(frame, HasSubstr("core 0: sent"));
  EXPECT_THAT(blocks_of(ctl::pcapng_frame({.comment = std::string(100'000, 'x')})), ElementsAre(6));
}

struct FakeDaemon {
  std::vector<std::string> asked;
  std::vector<Json> batches;  // of trace.read, one after the other
  std::string written;
  bool impatient = false;
  bool broken = false;

  ctl::TraceFile file() {
    return {.ask = [this](const std::string& method,
                          const Json& /*parameters*/) -> tl::expected<Json, client::Trouble> {
              asked.push_back(method);
              if (method == "port.list") return Json::parse(R"({"ports":[{"name":"w0"}]})");
              if (method != "trace.read") return Json::object();
              if (batches.empty())
                return tl::unexpected<client::Trouble>(client::Trouble{client::Fault::kUnreachable, "gone"});
              Json next = batches.front();
              batches.erase(batches.begin());
              return next;
            },
            .write =
                [this](const std::string& bytes) {
                  if (broken) throw std::runtime_error("no room");
                  written += bytes;
                },
            .told_to_end = [this] { return impatient; }};
  }
};

const Json kFrame = Json::parse(
    R"({"unix_ns":7,"port":"w0","way":"in","length":100,"comment":"core 0: absorb","bytes":"00ff10"})");

Json batch(std::size_t frames, bool running) {
  Json out{{"running", running}, {"ended", running ? Json(nullptr) : Json("its time is over")}, {"lost", 3}};
  out["frames"] = Json::array();
  for (std::size_t i = 0; i < frames; ++i) out["frames"].push_back(kFrame);
  return out;
}

TEST(CtlTrace, IsReadUntilItHasEndedAndNothingIsLeft) {
  FakeDaemon daemon;
  daemon.batches = {batch(0, true), batch(2, true), batch(1, false), batch(0, false)};
  const auto said = ctl::write_trace(daemon.file(), Json::object(), 1'000'000);
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(*said, "3 frames, 3 lost: its time is over");
  EXPECT_THAT(blocks_of(daemon.written), ElementsAre(0x0A0D0D0A, 1, 6, 6, 6));
  EXPECT_EQ(daemon.asked.back(), "trace.stop");
}

TEST(CtlTrace, EndsWhenTheFileIsLargeEnoughOrTheUserHasEnough) {
  FakeDaemon daemon;
  daemon.batches = {batch(64, true), batch(64, true)};
  const auto said = ctl::write_trace(daemon.file(), Json::object(), 500);
  ASSERT_TRUE(said.has_value());
  EXPECT_THAT(*said, HasSubstr("as large as it may be"));
  EXPECT_LT(daemon.written.size(), 700U);
  FakeDaemon other;
  other.impatient = true;
  other.batches = {batch(1, true), batch(1, false), batch(0, false)};
  ASSERT_TRUE(ctl::write_trace(other.file(), Json::object(), 1'000'000).has_value());
  EXPECT_EQ(std::count(other.asked.begin(), other.asked.end(), "trace.stop"), 2)
      << "once for the user, once to be sure";
}

TEST(CtlTrace, TakesTheTapsBackWhenTheFileCannotBeWrittenOrTheDaemonTalksNonsense) {
  FakeDaemon full;
  full.broken = true;
  EXPECT_THROW((void)ctl::write_trace(full.file(), Json::object(), 1'000), std::runtime_error);
  EXPECT_EQ(full.asked.back(), "trace.stop");
  FakeDaemon odd;
  odd.batches = {Json::parse(R"({"running":true,"frames":[7,{"port":"w9"},{"port":"w0","bytes":"zz"},
                                 {"port":"w0","bytes":5}]})"),
                 batch(0, false)};
  ASSERT_TRUE(ctl::write_trace(odd.file(), Json::object(), 1'000'000).has_value());
  EXPECT_THAT(blocks_of(odd.written), ElementsAre(0x0A0D0D0A, 1, 6, 6));
  FakeDaemon gone;
  EXPECT_FALSE(ctl::write_trace(gone.file(), Json::object(), 1'000'000).has_value());
}

TEST(CtlEvents, AreALineEach) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(
      ctl::event_text(Json::parse(
          R"({"number":1,"unix_ns":1700000000123456789,"event":"job.left","level":"info","text":"job 'x'\u001b"})")),
      "22:13:20.123 job.left        job 'x' \n");
  EXPECT_THAT(ctl::event_text(Json::parse(R"({"event":"log","level":"warning","text":"t"})")),
              HasSubstr("warning: t"));
  EXPECT_THAT(ctl::event_text(Json::parse(R"({"event":"lost","count":1234})")),
              HasSubstr("1,234 events were lost"));
  EXPECT_EQ(ctl::event_text({}).back(), '\n');
}

}  // namespace
}  // namespace tally::ctl_test
