// Units, addresses, devices and the small helpers of the configuration, one by one.

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "config/cidr.h"
#include "config/diagnostic.h"
#include "config/units.h"
#include "config/value_types.h"
#include "config/yaml.h"
#include "text/text.h"

namespace tally {
namespace {

TEST(ConfigUnits, NumbersAreDecimalAndPlain) {
  EXPECT_EQ(config::parse_unsigned("0"), 0U);
  EXPECT_EQ(config::parse_unsigned("18446744073709551615"), ~std::uint64_t{0});
  for (const char* bad : {"", "-1", "+1", "00", "010", "0x10", "1e3", "1.0", "1_0", "1,0", " 1", "1 ", "one",
                          "18446744073709551616", "-", "#", "'"}) {
    EXPECT_FALSE(config::parse_unsigned(bad)) << bad;
  }
}

TEST(ConfigUnits, SizesTakeBinaryUnits) {
  EXPECT_EQ(config::parse_size("0B"), 0U);
  EXPECT_EQ(config::parse_size("64KiB"), 65'536U);
  EXPECT_EQ(config::parse_size("512MiB"), 512U << 20U);
  EXPECT_EQ(config::parse_size("16777215TiB"), 16'777'215ULL << 40U);
  for (const char* bad :
       {"", "64", "64K", "64kb", "64 MiB", "0.5GiB", "MiB", "-1MiB", "010MiB", "16777216TiB"}) {
    EXPECT_FALSE(config::parse_size(bad)) << bad;
  }
}

TEST(ConfigUnits, TimesTakeUnitsFromNanosecondsToHours) {
  EXPECT_EQ(config::parse_duration("1ns"), 1U);
  EXPECT_EQ(config::parse_duration("20us"), 20 * kMicrosecond);
  EXPECT_EQ(config::parse_duration("50ms"), 50 * kMillisecond);
  EXPECT_EQ(config::parse_duration("10s"), 10 * kSecond);
  EXPECT_EQ(config::parse_duration("2m"), 120 * kSecond);
  EXPECT_EQ(config::parse_duration("1h"), 3'600 * kSecond);
  for (const char* bad : {"10", "10sec", "1.5s", "s", "-1s", "10 s", "10S", "99999999999999h"}) {
    EXPECT_FALSE(config::parse_duration(bad)) << bad;
  }
}

TEST(ConfigUnits, RatesAreBitsWithAsManyDigitsAsTheirLabels) {
  EXPECT_EQ(config::parse_rate("25G"), 25'000'000U);
  EXPECT_EQ(config::parse_rate("100Gbit/s"), 100'000'000U);
  EXPECT_EQ(config::parse_rate("100 Gbit/s"), 100'000'000U);
  EXPECT_EQ(config::parse_rate("2.5G"), 2'500'000U);
  EXPECT_EQ(config::parse_rate("0.001M"), 1U);
  EXPECT_EQ(config::parse_rate("1.6T"), 1'600'000'000U);
  EXPECT_EQ(config::parse_rate("0G"), 0U);
  for (const char* bad : {"",
                          "25",
                          "G",
                          "25 G",
                          "25g",
                          "25Gb",
                          "25Gbps",
                          "25GB/s",
                          "-1G",
                          ".5G",
                          "5.G",
                          "1.0001G",
                          "1e3G",
                          "025G",
                          "25K",
                          "25Gbit",
                          "25Gbit/s ",
                          "1..2G",
                          "99999999999999999999G",
                          "1000001G"}) {
    EXPECT_FALSE(config::parse_rate(bad)) << bad;
  }
}

TEST(ConfigUnits, RatesReadBackAsTheyArePrinted) {
  for (const std::uint64_t rate :
       {std::uint64_t{1}, std::uint64_t{999}, std::uint64_t{1'000}, std::uint64_t{2'500'000},
        std::uint64_t{25'000'000}, std::uint64_t{1'600'000'000}})
    EXPECT_EQ(config::parse_rate(config::rate_text(rate)), rate) << config::rate_text(rate);
  EXPECT_EQ(config::rate_text(2'500'000), "2.5G");
  EXPECT_EQ(config::rate_text(400'000), "400M");
}

TEST(ConfigUnits, PercentagesHaveAtMostFourDigitsBehindThePoint) {
  EXPECT_EQ(config::parse_percent("0%"), 0U);
  EXPECT_EQ(config::parse_percent("25%"), 250'000U);
  EXPECT_EQ(config::parse_percent("0.5%"), 5'000U);
  EXPECT_EQ(config::parse_percent("0.0001%"), 1U);
  EXPECT_EQ(config::parse_percent("100%"), 1'000'000U);
  for (const char* bad : {"25", "%", "100.0001%", "101%", "-1%", "1.%", ".5%", "0.00001%", "1e1%", "1 %",
                          "99999999999999999999%", "01%"}) {
    EXPECT_FALSE(config::parse_percent(bad)) << bad;
  }
}

TEST(ConfigUnits, TextsReadBackAsTheSameValue) {
  for (const std::uint64_t value :
       {0ULL, 1ULL, 1023ULL, 1024ULL, 65'536ULL, 3ULL << 30U, (1ULL << 40U) + 1}) {
    EXPECT_EQ(config::parse_size(config::size_text(value)), value);
    EXPECT_EQ(config::parse_duration(config::duration_text(value)), value);
  }
  for (std::uint32_t ppm = 0; ppm <= 1'000'000; ppm += 37)
    EXPECT_EQ(config::parse_percent(text::percent_text(ppm)), ppm);
  EXPECT_EQ(config::size_text(512ULL << 20U), "512MiB");
  EXPECT_EQ(config::duration_text(kSecond), "1s");
  EXPECT_EQ(text::percent_text(12'500), "1.25%");
  EXPECT_EQ(config::rough_size(753'664), "736 KiB");
  EXPECT_EQ(config::rough_size((1U << 20U) + 1), "1.1 MiB");
  EXPECT_EQ(config::rough_size(5ULL << 20U), "5 MiB");
}

TEST(ConfigAddress, CidrIsAHostInItsNetwork) {
  EXPECT_EQ(config::parse_cidr4("10.0.0.1/24"), (config::Cidr4{{10, 0, 0, 1}, 24}));
  EXPECT_EQ(config::parse_cidr4("192.168.1.254/31"), (config::Cidr4{{192, 168, 1, 254}, 31}));
  const auto six = config::parse_cidr6("fd00::1/64");
  ASSERT_TRUE(six);
  EXPECT_EQ(config::to_text(*six), "fd00::1/64");
  for (const char* bad : {"", "/", "10.0.0.1", "10.0.0.1/", "10.0.0.1/0", "10.0.0.1/33", "10.0.0/24",
                          "010.0.0.1/24", "10.0.0.0/24", "10.0.0.255/24", "127.0.0.1/8", "0.0.0.0/24",
                          "224.0.0.1/24", "255.255.255.255/32", "fd00::1/64"}) {
    EXPECT_FALSE(config::parse_cidr4(bad)) << bad;
  }
  for (const char* bad : {"", "::/64", "::1/64", "ff02::1/64", "fd00::1", "fd00::1/0", "fd00::1/129",
                          "fd00:::1/64", "::ffff:10.0.0.1/96", "10.0.0.1/24", "fd00::1%eth0/64"}) {
    EXPECT_FALSE(config::parse_cidr6(bad)) << bad;
  }
}

TEST(ConfigAddress, MacAndEndpoint) {
  EXPECT_EQ(config::parse_mac("02:00:00:aB:0f:01"), (Mac{2, 0, 0, 0xAB, 0x0F, 1}));
  EXPECT_EQ(config::to_text(Mac{2, 0, 0, 0xAB, 0x0F, 1}), "02:00:00:ab:0f:01");
  for (const char* bad :
       {"", "02-00-00-00-00-01", "0200.0000.0001", "02:00:00:00:00", "02:00:00:00:00:0g", "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff", "01:00:00:00:00:00", "02:00:00:00:00:001"}) {
    EXPECT_FALSE(config::parse_mac(bad)) << bad;
  }
}

TEST(ConfigText, NearestWord) {
  const std::vector<std::string> keys{"window", "workers", "token_file", "results", "lease"};
  const std::array<std::pair<const char*, const char*>, 8> cases{{{"widnow", "window"},
                                                                  {"Window", "window"},
                                                                  {"worker", "workers"},
                                                                  {"token-file", "token_file"},
                                                                  {"token", "token_file"},
                                                                  {"window_size", "window"},
                                                                  {"colour", ""},
                                                                  {"x", ""}}};
  for (const auto& [word, near] : cases) EXPECT_EQ(config::nearest(word, keys), near) << word;
}

// Of others: C0, C1, what turns the line, broken bytes.
TEST(ConfigText, WhatATerminalWouldObeyBecomesABlank) {
  EXPECT_EQ(text::cleaned("a\x1B[31m\xC2\x9B"
                          "b\u202Ec\xFF\n\u00E9"),
            "a [31m b c  \u00E9");
}

TEST(ConfigText, ValidUtf8AndNothingElse) {
  for (const char* good :
       {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\x89", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(text::utf8_length(good, 0), std::string(good).size());
  }
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_EQ(text::utf8_length(bad, 0), 0U);
  }
  EXPECT_EQ(text::utf8_length("", 0), 0U);
  EXPECT_EQ(config::shown("a\x1B[31m\t\xFF"), "'a\\x1B[31m\\t\\xFF'");
  EXPECT_EQ(config::shown("\u061C\u200D\u200E\u200F\u2010\u2027\u2028\u202E\u202F\u2065\u2066\u2069\u206A"),
            "'\\u061C\u200D\\u200E\\u200F\u2010\u2027\\u2028\\u202E\u202F\u2065\\u2066\\u2069\u206A'");
  EXPECT_EQ(config::shown(std::string(100, 'x')).size(), 65U);
}

TEST(ConfigText, StringsAreQuotedWhereYamlWouldReadThemDifferently) {
  EXPECT_EQ(config::yaml_text("rack-1.a_b"), "rack-1.a_b");
  EXPECT_EQ(config::yaml_text("/run/tally/a.sock"), "/run/tally/a.sock");
  EXPECT_EQ(config::yaml_text("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(config::yaml_text("a,b=c"), "\"a,b=c\"");
  EXPECT_EQ(config::yaml_text("null"), "\"null\"");
  EXPECT_EQ(config::yaml_text(""), "\"\"");
  EXPECT_EQ(config::yaml_text("a: \"b\\\""), "\"a: \\\"b\\\\\\\"\"");
}

TEST(ConfigText, ExcerptsCountCharactersAndCutLongLines) {
  const config::YamlSource accents("f", "\xC3\xA9\xC3\xA9: x\r\nlast");
  EXPECT_EQ(accents.position(1, 6), (config::Position{1, 5}));
  EXPECT_EQ(accents.excerpt({1, 5}).text, "\xC3\xA9\xC3\xA9: x");
  EXPECT_EQ(accents.excerpt({1, 5}).caret, 4U);
  EXPECT_EQ(accents.line(2), "last");
  EXPECT_EQ(accents.excerpt({2, 9}).caret, 4U);
  EXPECT_EQ(accents.line(3), "");
  const config::YamlSource wide("f", std::string(500, 'a') + "X" + std::string(500, 'b'));
  const config::Excerpt cut = wide.excerpt({1, 501});
  EXPECT_LT(cut.text.size(), 120U);
  EXPECT_EQ(cut.text[cut.caret], 'X');
  EXPECT_TRUE(cut.text.starts_with("...a") && cut.text.ends_with("b..."));
}

}  // namespace
}  // namespace tally
