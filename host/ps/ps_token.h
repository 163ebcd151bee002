#pragma once
#include <string>

#include "tally/error.h"

namespace tally {

// The token in a file: its text without the end of the line, 1..64 bytes. Errors name the file.
[[nodiscard]] Result<std::string> read_token_file(const std::string& path);

}  // namespace tally
