#include "text/base64.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::text {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> values() {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNoDigit);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return table;
}
constexpr auto kValues = values();

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char byte : bytes) {
    bits = bits << 8U | static_cast<std::uint8_t>(byte);
    held += 8;
    for (; held >= 6; held -= 6) text += kAlphabet[bits >> (held - 6) & 63U];
  }
  if (held > 0) text += kAlphabet[bits << (6 - held) & 63U];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') --digits;
  std::string bytes;
  bytes.reserve(digits * 3 / 4);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text.substr(0, digits)) {
    const std::uint8_t value = kValues[static_cast<std::uint8_t>(c)];
    if (value == kNoDigit) return std::nullopt;
    bits = bits << 6U | value;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(static_cast<std::uint8_t>(bits >> held));
  }
  // Bits behind the last byte would be lost.
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace tally::text
