#include "complaint.h"

#include "printable.h"

namespace tally {

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    if (count == kLongest) return out + "...'";
    const std::size_t length = character_length(text, at);
    out += printable(text.substr(at, length));
    at += length;
  }
  return out + "'";
}

}  // namespace tally
