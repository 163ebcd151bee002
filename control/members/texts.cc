#include "texts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>

#include "tally/wire_join.h"

namespace tally {

std::string address_text(const Ipv6& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_mapped_ipv4(address);
  const void* bytes = v4 ? &address[12] : address.data();
  const char* done = inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return done != nullptr ? done : "?";
}

std::string ranks_text(std::uint64_t ranks) {
  if (ranks == 0) return "no rank";
  std::string text = std::popcount(ranks) == 1 ? "rank " : "ranks ";
  for (bool first = true; ranks != 0; first = false) {
    const int rank = std::countr_zero(ranks);
    ranks &= ranks - 1;
    if (!first) text += ranks == 0 ? " and " : ", ";
    text += std::to_string(rank);
  }
  return text;
}

std::string seconds_text(TimeNs t) {
  const std::uint64_t tenths = (t + 50 * kMillisecond) / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string kib_text(std::uint64_t lines) { return std::to_string((lines + 15) / 16) + " KiB"; }

std::string cleaned(std::string_view text) {
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }, ' ');
  return clean;
}

std::string_view bounded(std::string_view text) noexcept {
  if (text.size() <= kMaxTextBytes) return text;
  std::size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace tally
