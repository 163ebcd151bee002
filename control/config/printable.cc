#include "printable.h"

namespace tally {
namespace {

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (at < text.size() && first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0) return 0;
  // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  return length;
}

std::size_t character_length(std::string_view text, std::size_t at) noexcept {
  const std::size_t length = utf8_length(text, at);
  return length == 0 ? 1 : length;
}

std::string printable(std::string_view character) {
  if (character == "\t") return "\\t";
  const auto first = static_cast<unsigned char>(character[0]);
  const bool control =
      first < 0x20 || first == 0x7F ||
      (first == 0xC2 && character.size() == 2 && static_cast<unsigned char>(character[1]) < 0xA0);
  const bool broken = utf8_length(character, 0) != character.size();
  return control || broken ? hexadecimal(character) : std::string(character);
}

}  // namespace tally
