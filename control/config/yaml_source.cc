#include "yaml_source.h"

#include <algorithm>
#include <utility>

#include "printable.h"

namespace tally {

YamlSource::YamlSource(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string_view YamlSource::line(std::uint32_t number) const noexcept {
  if (number == 0 || number > starts_.size()) return {};
  const std::size_t begin = starts_[number - 1];
  const std::size_t end = number < starts_.size() ? starts_[number] - 1 : text_.size();
  std::string_view out = std::string_view(text_).substr(begin, end - begin);
  if (out.ends_with('\r')) out.remove_suffix(1);
  return out;
}

Position YamlSource::position(std::uint32_t line_number, std::size_t byte) const noexcept {
  const std::string_view text = line(line_number);
  std::uint32_t column = 1;
  for (std::size_t at = 0; at < std::min(byte, text.size()); at += character_length(text, at)) ++column;
  return {line_number, column};
}

std::size_t YamlSource::byte_of(Position at) const noexcept {
  const std::string_view text = line(at.line);
  std::size_t byte = 0;
  for (std::uint32_t column = 1; column < at.column && byte < text.size(); ++column) {
    byte += character_length(text, byte);
  }
  return byte;
}

Excerpt YamlSource::excerpt(Position at) const {
  constexpr std::uint32_t kBefore = 60;  // characters of a long line in front of the caret ...
  constexpr std::uint32_t kAfter = 40;   // ... and behind it
  const std::string_view text = line(at.line);
  const bool all = text.size() <= kBefore + kAfter;
  const std::uint32_t first = !all && at.column > kBefore + 1 ? at.column - kBefore : 1;
  Excerpt out;
  if (first > 1) out.text = "...";
  std::size_t width = out.text.size();  // characters so far
  std::uint32_t column = 1;
  std::size_t byte = 0;
  for (; byte < text.size() && (all || column <= at.column + kAfter || text.size() - byte <= 3); ++column) {
    const std::size_t length = character_length(text, byte);
    if (column == at.column) out.caret = static_cast<std::uint32_t>(width);
    if (column >= first) {
      const std::string piece = printable(text.substr(byte, length));
      out.text += piece;
      width += piece.size() > 1 && piece[0] == '\\' ? piece.size() : 1;
    }
    byte += length;
  }
  if (byte < text.size()) out.text += "...";
  if (column <= at.column) out.caret = static_cast<std::uint32_t>(width);  // behind the end of the line
  return out;
}

}  // namespace tally
