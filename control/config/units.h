#pragma once
// Numbers, sizes, times and percentages as a configuration writes them. One way to write each: no octal, no
// hexadecimal, no fractions where a smaller unit does, powers of 1024 only.

#include <cstdint>
#include <string>

#include "config/diagnostic.h"
#include "tally/time.h"

namespace tally::config {

// Decimal digits without a leading zero.
[[nodiscard]] Parsed<std::uint64_t> parse_unsigned(const std::string& text);
// 512MiB: bytes. Units B, KiB, MiB, GiB, TiB.
[[nodiscard]] Parsed<std::uint64_t> parse_size(const std::string& text);
// 10s: nanoseconds. Units ns, us, ms, s, m, h.
[[nodiscard]] Parsed<TimeNs> parse_duration(const std::string& text);
// 2.5%: parts per million. 0% to 100%, at most four digits behind the point.
[[nodiscard]] Parsed<std::uint32_t> parse_percent(const std::string& text);

// In the largest unit that leaves a whole number.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
[[nodiscard]] std::string duration_text(TimeNs duration);

// For messages: in MiB with at most one digit behind the point, rounded up; below 1 MiB in KiB.
[[nodiscard]] std::string rough_size(std::uint64_t bytes);

}  // namespace tally::config
