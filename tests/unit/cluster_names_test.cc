// Ranges of names.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/names.h"

namespace tally::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Names names_of(const std::string& text) { return parse_names(text).value_or(Names{"refused"}); }

TEST(ClusterNames, ARangeStandsForItsNamesInOrder) {
  EXPECT_THAT(names_of("rack1"), ElementsAre("rack1"));
  EXPECT_THAT(names_of("rack[1-3]"), ElementsAre("rack1", "rack2", "rack3"));
  EXPECT_THAT(names_of("rack[9-11]"), ElementsAre("rack9", "rack10", "rack11"));
  EXPECT_THAT(names_of("r[1-2,7]x"), ElementsAre("r1x", "r2x", "r7x"));
  EXPECT_THAT(names_of("r[5]"), ElementsAre("r5"));
  EXPECT_THAT(names_of("[0-1]"), ElementsAre("0", "1"));
}

TEST(ClusterNames, ALeadingZeroSaysHowManyDigitsAllHave) {
  EXPECT_THAT(names_of("gpu[001-003]"), ElementsAre("gpu001", "gpu002", "gpu003"));
  EXPECT_THAT(names_of("gpu[08-10]"), ElementsAre("gpu08", "gpu09", "gpu10"));
  EXPECT_THAT(names_of("gpu[0-1]"), ElementsAre("gpu0", "gpu1"));
}

TEST(ClusterNames, OfTwoRangesTheLastIsTheFastest) {
  EXPECT_THAT(names_of("p[1-2]-r[1-2]"), ElementsAre("p1-r1", "p1-r2", "p2-r1", "p2-r2"));
}

TEST(ClusterNames, WhatIsNoNameIsRefused) {
  for (const char* const bad :
       {"", "rack[", "rack[]", "rack[1-]", "rack[-2]", "rack[a-b]", "rack[3-1]", "rack[1-2", "rack]",
        "rack[1,]", "rack[1 - 2]", "-rack", "a b", "r\xC3\xA4", "rack[1-1000000]", "rack[[1-2]]"})
    EXPECT_FALSE(parse_names(bad)) << bad;
  EXPECT_FALSE(parse_names(std::string(kMaxNameBytes + 1, 'a')));
  EXPECT_TRUE(parse_names(std::string(kMaxNameBytes, 'a')));
}

TEST(ClusterNames, ThereIsAnEndToHowManyOneRangeIs) {
  EXPECT_EQ(names_of("h[1-65536]").size(), kMaxNames);
  EXPECT_FALSE(parse_names("h[1-65537]"));
  EXPECT_FALSE(parse_names("h[1-60000,1-60000]"));
  EXPECT_FALSE(parse_names("h[1-256][1-257]"));
  EXPECT_EQ(names_of("h[1-256]-[1-256]").size(), kMaxNames);
}

TEST(ClusterNames, AComplaintNamesThePlaceInTheText) {
  EXPECT_EQ(parse_names("rack[3-1]").error().offset, 4U);
  EXPECT_THAT(parse_names("rack[3-1]").error().help, HasSubstr("[1-3]"));
}

TEST(ClusterNames, NamesBecomeRangesAgain) {
  EXPECT_EQ(as_ranges({}), "");
  EXPECT_EQ(as_ranges(names_of("rack[1-12]")), "rack[1-12]");
  EXPECT_EQ(as_ranges({"spine1", "rack3", "rack2", "rack10", "rack1"}), "rack[1-3], rack10, spine1");
  EXPECT_EQ(as_ranges({"a", "b01", "b02", "b0", "b1"}), "a, b[0-1], b01, b02");
  EXPECT_EQ(as_ranges({"rack1-2", "rack1-1", "7", "8"}), "[7-8], rack1-[1-2]");
}

TEST(ClusterNames, ManyAreShortened) {
  EXPECT_EQ(some_of(names_of("r[1-3]")), "r1, r2, r3");
  EXPECT_EQ(some_of(names_of("r[1-16]")), "r1, r2 ... r16 (16)");
}

}  // namespace
}  // namespace tally::cluster
