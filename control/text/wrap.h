#pragma once
// Text broken into lines for people.

#include <cstddef>
#include <string>
#include <vector>

namespace tally::text {

// Broken at blanks into lines of at most `width` bytes; a word that is longer stays whole.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace tally::text
