// What tally-bench computes with: percentiles, pace, the search for a rate, addresses, frames.

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "contribution_writer.h"
#include "datagram.h"
#include "frame_pacer.h"
#include "latency_histogram.h"
#include "load_images.h"
#include "load_report.h"
#include "rate_search.h"
#include "tally/mix64.h"
#include "worker_places.h"

namespace tally::bench {
namespace {

TEST(LoadHistogram, PercentilesAreNeverTooLowAndAtMostASixtyFourthTooHigh) {
  std::mt19937_64 random(7);
  std::vector<TimeNs> times;
  LatencyHistogram h;
  for (int i = 0; i < 20'000; ++i) {
    times.push_back(random() >> (20 + random() % 40));
    h.record(times.back());
  }
  std::ranges::sort(times);
  EXPECT_EQ(h.count(), times.size());
  EXPECT_EQ(h.max(), times.back());
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const TimeNs exact = times[static_cast<std::size_t>(share * static_cast<double>(times.size()) - 1)];
    if (exact >= TimeNs{1} << 39) continue;  // longer ones share the last bucket
    EXPECT_GE(h.percentile(share), exact) << share;
    EXPECT_LE(h.percentile(share), exact + exact / 64) << share;
  }
}

TEST(LoadHistogram, HasNoTimesWhenItIsNewOrCleared) {
  LatencyHistogram h;
  EXPECT_EQ(h.percentile(0.5), 0U);
  h.record(17);
  EXPECT_EQ(h.percentile(0.001), 17U);
  h.clear();
  EXPECT_EQ(h.percentile(1), 0U);
  EXPECT_EQ(h.max(), 0U);
}

TEST(LoadPacer, LetsTheRatePassAndNoMore) {
  FramePacer pacer;
  pacer.start(1e6, kSecond);
  std::uint64_t sent = 0;
  for (TimeNs t = kSecond; t < kSecond + 50 * kMillisecond; t += 777) {
    const std::uint64_t due = std::min<std::uint64_t>(pacer.due(t), 32);
    pacer.sent(due);
    sent += due;
  }
  EXPECT_NEAR(static_cast<double>(sent), 50'000, 2);
  EXPECT_EQ(pacer.skipped(), 0U);
}

TEST(LoadPacer, CatchesUpWithAShortStallAndCountsWhatALongOneLost) {
  FramePacer pacer;
  pacer.start(1e6, 0);
  pacer.sent(pacer.due(0));
  EXPECT_EQ(pacer.due(kMillisecond), 1000U);
  EXPECT_EQ(pacer.skipped(), 0U);
  EXPECT_EQ(pacer.due(100 * kMillisecond), 2000U);  // 2 ms of them
  EXPECT_EQ(pacer.skipped(), 98'000U);
}

TEST(LoadPacer, WithoutARateEverythingIsDue) {
  FramePacer pacer;
  pacer.start(0, 0);
  EXPECT_EQ(pacer.due(0), UINT64_MAX);
  pacer.sent(1'000'000);
  EXPECT_EQ(pacer.due(1), UINT64_MAX);
}

// A box that carries up to `capacity` in short trials and `lasting` in long ones.
struct Searched {
  std::optional<double> found;
  int trials = 0, finals = 0;
  double highest = 0;
};
Searched search_of(double most, double capacity, double lasting) {
  RateSearch search(most, 0.01);
  Searched out;
  while (const auto rate = search.trial()) {
    ++out.trials;
    out.highest = std::max(out.highest, *rate);
    search.trial_was(*rate <= capacity);
  }
  while (const auto rate = search.final_rate()) {
    ++out.finals;
    search.final_was(*rate <= lasting);
  }
  out.found = search.found();
  return out;
}

TEST(LoadSearch, FindsTheHighestRateWithinItsResolution) {
  for (const double capacity : {0.03, 0.2, 0.5, 0.77, 0.99}) {
    const Searched s = search_of(1e6, capacity * 1e6, capacity * 1e6);
    ASSERT_TRUE(s.found) << capacity;
    EXPECT_LE(*s.found, capacity * 1e6);
    EXPECT_GE(*s.found, (capacity - 0.01) * 1e6);
    EXPECT_LE(s.trials, 8);
    EXPECT_EQ(s.finals, 1);
  }
}

TEST(LoadSearch, TakesTheMaximumWhenNothingIsLostThere) {
  const Searched s = search_of(1e6, 2e6, 2e6);
  EXPECT_EQ(s.found, 1e6);
  EXPECT_EQ(s.trials, 1);
}

TEST(LoadSearch, GoesDownWhenTheLongRunLosesWhatTheShortOneDidNot) {
  const Searched s = search_of(1e6, 0.8e6, 0.7e6);
  ASSERT_TRUE(s.found);
  EXPECT_LE(*s.found, 0.7e6);
  EXPECT_GE(*s.found, 0.7e6 * 0.94);
  EXPECT_GT(s.finals, 1);
}

TEST(LoadSearch, EndsWithoutARateWhenEveryRunLoses) {
  EXPECT_FALSE(search_of(1e6, -1, -1).found);
  const Searched s = search_of(1e6, 1e6, -1);
  EXPECT_FALSE(s.found);
  EXPECT_EQ(s.finals, 8);
  EXPECT_FALSE(search_of(0, 0, 0).found);
}

TEST(LoadPlaces, GivesEachRankAnAddressOfItsOwnAndNoneTheBoxes) {
  const auto places = worker_places("10.0.0.12", "10.0.0.10/24", 5, 99);
  ASSERT_TRUE(places) << places.error().text();
  std::set<Ipv6> addresses;
  std::set<Mac> macs;
  std::set<std::uint16_t> ports;
  for (std::size_t r = 0; r < places->size(); ++r) {
    const WorkerAddress& place = (*places)[r];
    EXPECT_EQ(place.mac[5], r);
    EXPECT_NE(place.own, place.box);
    addresses.insert(place.own);
    macs.insert(place.mac);
    ports.insert(place.udp_port);
  }
  EXPECT_EQ(addresses.size(), 5U);
  EXPECT_EQ(macs.size(), 5U);
  EXPECT_EQ(ports.size(), 5U);
  EXPECT_EQ((*places)[4].own, mapped({10, 0, 0, 15}));
}

TEST(LoadPlaces, SaysThatTheNetworkIsTooSmall) {
  const auto places = worker_places("10.0.0.1", "10.0.0.10/29", 8, 1);
  ASSERT_FALSE(places);
  EXPECT_EQ(places.error().where, "--address");
  const auto full = worker_places("10.0.0.9", "10.0.0.10/29", 8, 1);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().what.find("no room for 8 workers"), std::string::npos) << full.error().text();
}

class LoadFrames : public testing::TestWithParam<const char*> {};

TEST_P(LoadFrames, AreContributionsAsTheProtocolWantsThem) {
  const std::string box = GetParam();
  const bool ipv4 = box.find(':') == std::string::npos;
  const auto places = worker_places(box, ipv4 ? "10.0.0.10/24" : "fd00::10/64", 2, 5);
  ASSERT_TRUE(places) << places.error().text();
  Membership m;
  m.job = JobId{3};
  m.epoch = Epoch{77};
  m.cookie = Cookie{0xabc};
  m.generation = Generation{0x1234};
  m.window = m.largest_window = 64;
  m.world = 2;
  m.shards = 4;
  m.key = rank_key(m.generation, Rank{1});
  m.box_mac = {2, 9, 9, 9, 9, 9};
  const Kernels& kernels = best_kernels();
  const LoadImages images(32, kernels);
  const ContributionWriter writer((*places)[1], m, 1, 32, kernels);
  EXPECT_EQ(writer.frame_bytes(), (ipv4 ? 42U : 62U) + 56 + 128);
  std::vector<std::byte> frame(writer.frame_bytes());
  std::ranges::copy(images.values(9), frame.end() - 128);
  for (const std::uint32_t chunk : {0U, 5U, 0xFFFFFFFFU}) {
    writer.write(frame, Chunk{chunk}, images.sums(9), chunk == 5);
    EthernetHeader ethernet;
    std::memcpy(&ethernet, frame.data(), sizeof ethernet);
    EXPECT_EQ(ethernet.destination, m.box_mac);
    EXPECT_EQ(ethernet.source, (*places)[1].mac);
    UdpHeader udp;
    std::memcpy(&udp, frame.data() + writer.encapsulation() - sizeof udp, sizeof udp);
    EXPECT_EQ(udp.destination.host(), 0xBF00 + chunk % 64 % 4);
    EXPECT_EQ(udp.source.host(), (*places)[1].udp_port);
    EXPECT_EQ(udp.checksum.host() == 0, ipv4);
    Datagram d{};
    ASSERT_FALSE(
        open_datagram(std::span(frame).subspan(writer.encapsulation()), kernels, d, Opener::kServer));
    EXPECT_EQ(d.header.type, PacketType::kContribute);
    EXPECT_EQ(d.header.flags, chunk == 5 ? kFlagRetransmit : 0);
    EXPECT_EQ(d.header.slot.host(), chunk % 64);
    EXPECT_EQ(d.header.contributors.host(), 2U);
    EXPECT_EQ(d.header.cookie.host(), 0xabcU);
    const Sums sums = kernels.sums(d.payload.data(), 32);
    EXPECT_EQ(d.header.sum1.host(), sums.sum1 + keyed(m.key, Chunk{chunk}));
    EXPECT_EQ(d.header.sum2.host(), sums.sum2);
  }
}
INSTANTIATE_TEST_SUITE_P(BothFamilies, LoadFrames, testing::Values("10.0.0.1", "fd00::1"));

TEST(LoadReport, CountsWhatAFrameTakesOfALink) {
  LoadSetting s{.elements = 256};
  EXPECT_EQ(wire_bits(s), 8 * (1126 + 20));  // design: native 256 elements, with its FCS
  s.line_rate = 10;
  const LoadFigures f{.name = "max", .seconds = 2, .sent = 2'000'000};
  EXPECT_NE(load_line(s, f).find(" 91.7 "), std::string::npos) << load_line(s, f);  // % of line
  EXPECT_NE(load_line({.elements = 256}, f).find("n/a"), std::string::npos);
}

TEST(LoadReport, SaysThatSumsWereCheckedOnlyWhereTheyWere) {
  LoadSetting s{.elements = 256};
  EXPECT_NE(load_head(s).find("; every sum checked\n"), std::string::npos) << load_head(s);
  s.checked = LoadSetting::Checked::kHeaders;
  EXPECT_NE(load_head(s).find("; the sums in every result's header checked"), std::string::npos);
  EXPECT_EQ(load_head(s).find("every sum"), std::string::npos);
  s.checked = LoadSetting::Checked::kNothing;
  EXPECT_NE(load_head(s).find("; nothing checked\n"), std::string::npos);
}

TEST(LoadReport, NamesTheLimitOfAShortRun) {
  LoadFigures f{.asked = 1000, .seconds = 1, .sent = 500};
  ASSERT_EQ(load_remarks(f).size(), 1U);
  EXPECT_NE(load_remarks(f)[0].find("generator, ports or window"), std::string::npos);
  f.busy = 1;  // the in-memory port, which has neither
  ASSERT_EQ(load_remarks(f).size(), 1U);
  EXPECT_NE(load_remarks(f)[0].find("the data core was at its limit"), std::string::npos);
}

TEST(LoadReport, ASearchWithoutARateSaysHowFarItCame) {
  std::vector<LoadFigures> runs{{.name = "max"}, {.name = "trial"}};
  EXPECT_NE(no_rate_text(runs).find("no trial was carried"), std::string::npos) << no_rate_text(runs);
  runs.insert(runs.end(), 3, {.name = "final"});
  EXPECT_NE(no_rate_text(runs).find("none of the 3 runs"), std::string::npos) << no_rate_text(runs);
}

TEST(LoadReport, CountsTheDamagedResultsOfAllRuns) {
  EXPECT_EQ(damaged_results({}), 0U);
  EXPECT_EQ(damaged_results({{.corrupt = 2}, {}, {.corrupt = 3}}), 5U);
}

TEST(LoadReport, ARunThatWasLateOrShortIsNotCarried) {
  LoadFigures f{.asked = 1000, .seconds = 1, .sent = 990};
  EXPECT_TRUE(f.carried());
  f.sent = 989;
  EXPECT_FALSE(f.carried());
  f.sent = 1000;
  f.late = 1;
  EXPECT_FALSE(f.carried());
}

}  // namespace
}  // namespace tally::bench
