#include "byte_sizes.h"

#include <charconv>

namespace tally {

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.size() == 3 && unit.ends_with("iB")) unit.remove_suffix(2);
  unsigned shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (error != std::errc{} || (shift == 0 && !unit.empty()) || (n << shift) >> shift != n) {
    return fail(ErrorCode::kInvalidArgument,
                std::string("write a size in bytes as 4096, 4K, 1M or 2G, not '").append(text).append("'"));
  }
  return n << shift;
}

}  // namespace tally
