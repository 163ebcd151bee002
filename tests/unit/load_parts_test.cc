// What tally-bench computes with: percentiles, pace, the search for a rate, addresses, reports.

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "latency_histogram.h"
#include "load_frames.h"
#include "load_rate.h"
#include "load_report.h"

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

TrialOutcome verdict(bool good) { return good ? TrialOutcome::kCarried : TrialOutcome::kNotCarried; }

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
    search.trial_was(verdict(*rate <= capacity));
  }
  while (const auto rate = search.final_rate()) {
    ++out.finals;
    search.final_was(verdict(*rate <= lasting));
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

TEST(LoadSearch, TriesADisturbedRateAgainAndBelievesNothingOfIt) {
  RateSearch search(1e6, 0.01);
  int runs = 0;
  for (int turn = 0; const auto rate = search.trial(); ++runs) {
    if (++turn % 5 != 0) {  // four of five are disturbed
      search.trial_was(TrialOutcome::kDisturbed);
      EXPECT_EQ(search.trial(), rate);
    } else {
      search.trial_was(verdict(*rate <= 0.3e6));
    }
  }
  EXPECT_FALSE(search.gave_up());
  const auto rate = search.final_rate();
  ASSERT_TRUE(rate);
  EXPECT_NEAR(*rate, 0.3e6, 0.01e6);
  search.final_was(TrialOutcome::kDisturbed);
  EXPECT_EQ(search.final_rate(), rate);
  search.final_was(TrialOutcome::kCarried);
  EXPECT_EQ(search.found(), rate);
}

TEST(LoadSearch, GivesUpWhenOneRunAfterTheOtherIsDisturbed) {
  RateSearch search(1e6, 0.01);
  int runs = 0;
  for (; search.trial(); ++runs) search.trial_was(TrialOutcome::kDisturbed);
  EXPECT_EQ(runs, 5);
  EXPECT_TRUE(search.gave_up());
  EXPECT_FALSE(search.final_rate());
  EXPECT_FALSE(search.found());
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
    const dpdk_transport::WorkerAddress& place = (*places)[r];
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

TEST(LoadReport, CountsWhatAFrameTakesOfALink) {
  LoadSetting s{.elements = 256};
  EXPECT_EQ(wire_bits(s), 8 * (1126 + 20));  // design: native 256 elements, with its FCS
  EXPECT_EQ(wire_bits({.elements = 256, .ipv6 = true, .format = {.vlan = 7}}), 8 * (1126 + 20 + 20 + 4));
  s.line_rate = 10;
  const LoadFigures f{.name = "max", .seconds = 2, .sent = 2'000'000};
  EXPECT_NE(load_line(s, f).find(" 91.7 "), std::string::npos) << load_line(s, f);  // % of line
  EXPECT_NE(load_line({.elements = 256}, f).find("n/a"), std::string::npos);
}

TEST(LoadReport, HasNoLatencyWhereNoResultWasTimed) {
  LoadFigures f{.name = "max", .seconds = 2, .sent = 2'000'000};
  const auto cells_without = [&] {
    std::istringstream line(load_line({.elements = 256}, f));
    return std::count(std::istream_iterator<std::string>(line), {}, "n/a");
  };
  EXPECT_EQ(cells_without(), 9);
  f.latency = {.count = 1, .p50 = 3000, .p99 = 3000, .p999 = 3000, .max = 3000};
  EXPECT_EQ(cells_without(), 5);  // no link's rate, no ceiling, no process, no busy share, no cycles
}

TEST(LoadReport, SaysWhatTheFramesWere) {
  LoadSetting s{.elements = 256};
  EXPECT_NE(load_head(s).find("256 elements per packet, int32, IPv4, window"), std::string::npos)
      << load_head(s);
  s.ipv6 = true;
  s.format = {.dtype = Dtype::kFloat32, .vlan = 7};
  EXPECT_NE(load_head(s).find("float32, IPv6, VLAN 7, window"), std::string::npos) << load_head(s);
  const auto json = nlohmann::json::parse(load_json(s, {}));
  EXPECT_EQ(json.at("dtype"), "float32");
  EXPECT_EQ(json.at("vlan"), 7);
  EXPECT_EQ(json.at("ipv6"), true);
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

TEST(LoadReport, ARunIsDisturbedOnlyIfItsGapsAreAllThatItLacks) {
  LoadFigures f{.asked = 1000, .seconds = 1, .sent = 900, .away = 89 * kMillisecond};
  EXPECT_FALSE(f.disturbed()) << "989 of 1000";
  f.away = 90 * kMillisecond;
  EXPECT_TRUE(f.disturbed());
  EXPECT_NE(load_remarks(f)[0].find("while others had the generator's CPU"), std::string::npos)
      << load_remarks(f)[0];
  f.late = 1;
  EXPECT_FALSE(f.disturbed());
  f.late = 0;
  f.corrupt = 1;
  EXPECT_FALSE(f.disturbed());
  f = {.asked = 1000, .seconds = 1, .sent = 1000, .away = kSecond};
  EXPECT_FALSE(f.disturbed()) << "carried";
}

}  // namespace
}  // namespace tally::bench
