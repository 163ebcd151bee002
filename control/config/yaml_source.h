#pragma once
// The text of a configuration file, by lines, and the piece of it that a message shows.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostic.h"

namespace tally {

struct Excerpt {
  std::string text;
  std::uint32_t caret = 0;  // characters in front of the caret
};

class YamlSource {
 public:
  // name: what messages call the file. A UTF-8 byte order mark is dropped. Lines end in LF or CR LF.
  YamlSource(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::uint32_t lines() const noexcept { return static_cast<std::uint32_t>(starts_.size()); }

  // number: from 1; an empty line beyond the end. Without the line break.
  [[nodiscard]] std::string_view line(std::uint32_t number) const noexcept;
  // The position of a byte of a line, as messages count (from 1, in characters).
  [[nodiscard]] Position position(std::uint32_t line_number, std::size_t byte) const noexcept;
  [[nodiscard]] std::size_t byte_of(Position at) const noexcept;
  // at.line >= 1. A long line is cut around the position.
  [[nodiscard]] Excerpt excerpt(Position at) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> starts_;  // byte offset of each line
};

}  // namespace tally
