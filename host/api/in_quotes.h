#pragma once
// What a person wrote, in a message to that person. (std::quoted would be found for strings by
// argument-dependent lookup.)

#include <string>
#include <string_view>

namespace tally {

[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

}  // namespace tally
