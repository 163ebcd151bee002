#include "config/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "text/text.h"

namespace tally::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kSizes{Unit{"B", 1}, Unit{"KiB", 1ULL << 10U}, Unit{"MiB", 1ULL << 20U},
                            Unit{"GiB", 1ULL << 30U}, Unit{"TiB", 1ULL << 40U}};
constexpr std::array kTimes{Unit{"ns", 1},      Unit{"us", kMicrosecond}, Unit{"ms", kMillisecond},
                            Unit{"s", kSecond}, Unit{"m", 60 * kSecond},  Unit{"h", 3'600 * kSecond}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::string without_leading_zeros(std::string_view digits) {
  return std::string(digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1)));
}

// Why a text is not a plain decimal number.
tl::unexpected<Complaint> not_a_number(const std::string& text) {
  const std::string_view t = text;
  if (t.find('#') != std::string_view::npos) {
    return complain(shown(text) + " is not a whole number", "a comment needs a space in front of its '#'");
  }
  if (t.starts_with('-') && all_digits(t.substr(1))) return complain(text + " is below 0");
  if (t.starts_with("0x") || t.starts_with("0X")) {
    return complain(shown(text) + " is hexadecimal", "write it in decimal");
  }
  if (const auto dash = t.find('-');
      dash != std::string_view::npos && all_digits(t.substr(0, dash)) && all_digits(t.substr(dash + 1))) {
    return complain(shown(text) + " is not a whole number", "write a range as its numbers: 1, 2, 3");
  }
  if (t.find_first_of(",_'") != std::string_view::npos && is_digit(t[0])) {
    return complain(shown(text) + " is not a whole number", "write the digits without separators");
  }
  return complain(shown(text) + " is not a whole number");
}

// Which unit somebody had in mind who wrote it with blanks, in other cases, or without the i: "MB", " mib", "m" of
// sizes. (Of times "m" and "M" are minutes, and "ms" is none.)
std::span<const Unit>::iterator unit_meant(std::string_view name, std::span<const Unit> units) {
  const auto plain = [](std::string_view word, bool size) {
    std::string out;
    for (const char c : word) {
      const char lower = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      if (lower != ' ' && !(size && lower == 'i')) out += lower;
    }
    if (size && out.size() == 1 && out != "b") out += 'b';
    return out;
  };
  const bool size = units[0].name == "B";
  return std::find_if(units.begin(), units.end(), [&](const Unit& u) {
    return !name.empty() && plain(name, size) == plain(u.name, size);
  });
}

// NUMBER UNIT -> number * factor. what: 'a size', 'a time'; example: what to write.
Parsed<std::uint64_t> parse_with_unit(const std::string& text, std::span<const Unit> units,
                                      const std::string& what, const std::string& example) {
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string name = text.substr(end);
  const std::string is_not = shown(text) + " is not " + what;
  if (end == 0)
    return complain(is_not, "write a whole number and one of the units " +
                                text::listed(units, ", ", &Unit::name) + ", such as " + example);
  auto number = parse_unsigned(text.substr(0, end));
  if (!number) return number;
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == name; });
  if (unit == units.end()) {
    const std::string names = text::listed(units, ", ", &Unit::name);
    const auto meant = unit_meant(name, units);
    const std::string help =
        meant != units.end() ? "write " + text.substr(0, end) + std::string(meant->name)
                             : "write a whole number and one of the units " + names + ", such as " + example;
    if (name.empty()) return complain(is_not + ": it has no unit", help);
    if (name[0] == '.') return complain(is_not + ": it has a fraction", help);
    if (name[0] == ' ') return complain(is_not + ": a space stands before the unit", help);
    return complain(is_not + ": " + shown(name) + " is not a unit", help);
  }
  if (*number > ~std::uint64_t{0} / unit->factor) return complain(shown(text) + " is too large");
  return *number * unit->factor;
}

std::string with_unit(std::uint64_t value, std::span<const Unit> units) {
  const Unit* best = &units[0];
  for (const auto& unit : units) {
    if (value != 0 && value % unit.factor == 0) best = &unit;
  }
  return std::to_string(value / best->factor) + std::string(best->name);
}

}  // namespace

Parsed<std::uint64_t> parse_unsigned(const std::string& text) {
  if (!all_digits(text)) return not_a_number(text);
  if (text.size() > 1 && text[0] == '0') {
    return complain(shown(text) + " begins with 0, which some programs read as octal",
                    "write " + without_leading_zeros(text));
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return complain(shown(text) + " is too large");
  return value;
}

Parsed<std::uint64_t> parse_size(const std::string& text) {
  return parse_with_unit(text, kSizes, "a size", "64MiB");
}

Parsed<TimeNs> parse_duration(const std::string& text) {
  return parse_with_unit(text, kTimes, "a time", "10s");
}

Parsed<std::uint32_t> parse_percent(const std::string& text) {
  constexpr std::uint32_t kPerPercent = 10'000;
  const std::string help = "write a percentage from 0% to 100%, such as 25% or 0.5%";
  if (!text.ends_with('%')) return complain(shown(text) + " is not a percentage: it has no %", help);
  const std::string number = text.substr(0, text.size() - 1);
  const auto point = std::min(number.find('.'), number.size());
  const auto whole = parse_unsigned(number.substr(0, point));
  std::string fraction = point < number.size() ? number.substr(point + 1) : "0";
  if (!whole || !all_digits(fraction)) return complain(shown(text) + " is not a percentage", help);
  if (fraction.size() > 4) return complain(shown(text) + " has more than four digits behind the point", help);
  fraction.resize(4, '0');
  const auto parts = parse_unsigned(without_leading_zeros(fraction));
  if (*whole > 100 || *whole * kPerPercent + *parts > 100 * kPerPercent) {
    return complain(shown(text) + " is above 100%", help);
  }
  return static_cast<std::uint32_t>(*whole * kPerPercent + *parts);
}

namespace {

// Kilobits.
constexpr std::array kRates{Unit{"M", 1'000}, Unit{"G", 1'000'000}, Unit{"T", 1'000'000'000}};

// The unit that somebody had in mind who wrote " G", "gbit", "Gbps" or, of bytes, "GB/s"; empty: none.
std::string_view rate_unit_meant(const std::string& unit, bool& bytes) {
  constexpr std::array<std::string_view, 8> kRests{"", "b", "bit", "bits", "bps", "b/s", "bit/s", "bits/s"};
  std::string rest;
  for (const char c : unit) {
    if (c != ' ') rest += c;
  }
  if (rest.empty()) return {};
  const char letter = rest[0];
  rest.erase(0, rest.size() > 1 && rest[1] == 'i' ? 2 : 1);
  bytes = rest == "B" || rest == "B/s" || rest == "Bps";
  const auto lower = [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); };
  for (char& c : rest) c = lower(c);
  const auto known = std::find_if(kRates.begin(), kRates.end(),
                                  [&](const Unit& u) { return lower(u.name[0]) == lower(letter); });
  const bool fits = known != kRates.end() && std::find(kRests.begin(), kRests.end(), rest) != kRests.end();
  return fits ? known->name : std::string_view();
}

}  // namespace

Parsed<std::uint64_t> parse_rate(const std::string& text) {
  const std::string write = "write a number and one of the units M, G, T (bits per second), such as 25G";
  const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, end);
  const std::string unit = text.substr(end);
  const std::string is_not = shown(text) + " is not a rate";
  const auto point = std::min(number.find('.'), number.size());
  const std::string whole = number.substr(0, point);
  std::string fraction = point < number.size() ? number.substr(point + 1) : "0";
  if (!all_digits(whole) || !all_digits(fraction)) return complain(is_not, write);
  const auto units = parse_unsigned(whole);
  if (!units) return tl::unexpected<Complaint>(units.error());
  if (fraction.size() > 3)
    return complain(is_not + ": it has more than three digits behind the point", write);
  if (unit.empty()) return complain(is_not + ": it has no unit", "write " + number + "G, or M or T");
  const auto known = std::find_if(kRates.begin(), kRates.end(), [&](const Unit& u) {
    const std::string name(u.name);
    return unit == name || unit == name + "bit/s" || unit == " " + name + "bit/s";
  });
  if (known == kRates.end()) {
    bool bytes = false;
    const std::string_view meant = rate_unit_meant(unit, bytes);
    if (meant.empty()) return complain(is_not + ": " + shown(unit) + " is not a unit", write);
    if (bytes)
      return complain(is_not + ": " + shown(unit) + " are bytes", "rates are in bits: write 8 times as many");
    return complain(is_not + ": " + shown(unit) + " is not a unit", "write " + number + std::string(meant));
  }
  fraction.resize(3, '0');
  if (*units > 1'000'000) return complain(shown(text) + " is too large");
  return *units * known->factor + *parse_unsigned(without_leading_zeros(fraction)) * (known->factor / 1'000);
}

std::string rate_text(std::uint64_t kilobits) {
  const Unit* best = &kRates[0];
  for (const Unit& unit : kRates) {
    if (kilobits >= unit.factor) best = &unit;
  }
  std::string out = std::to_string(kilobits / best->factor);
  std::string fraction = std::to_string(kilobits % best->factor + best->factor).substr(1);
  fraction.resize(fraction.find_last_not_of('0') + 1);
  if (!fraction.empty()) out.append(".").append(fraction);
  return out.append(best->name);
}

std::string size_text(std::uint64_t bytes) { return with_unit(bytes, kSizes); }

std::string duration_text(TimeNs duration) { return with_unit(duration, kTimes); }

std::string rough_size(std::uint64_t bytes) {
  constexpr std::uint64_t kMebi = 1ULL << 20U;
  if (bytes < kMebi) return std::to_string((bytes + 1023) / 1024) + " KiB";
  const std::uint64_t tenths = (bytes * 10 + kMebi - 1) / kMebi;
  std::string out = std::to_string(tenths / 10);
  if (tenths % 10 != 0) out.append(".").append(std::to_string(tenths % 10));
  return out + " MiB";
}

}  // namespace tally::config
