#pragma once
// Numbers, sizes, times, percentages and rates as a configuration writes them: no octal, no hexadecimal, no fractions
// where a smaller unit does, sizes in powers of 1024 only.

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
// 25G, 2.5G, 100Gbit/s, 100 Gbit/s: kilobits per second, powers of 1000. Units M, G and T, at most three digits behind
// the point: a link's rate is what its label says.
[[nodiscard]] Parsed<std::uint64_t> parse_rate(const std::string& text);

// In the largest unit that leaves a whole number.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
[[nodiscard]] std::string duration_text(TimeNs duration);
// In the largest unit that is not above it: 2.5G.
[[nodiscard]] std::string rate_text(std::uint64_t kilobits);

// For messages: in MiB with at most one digit behind the point, rounded up; below 1 MiB in KiB.
[[nodiscard]] std::string rough_size(std::uint64_t bytes);

}  // namespace tally::config
