#pragma once
// Where the benchmarks write what they measured.

#include <string>

namespace tally {

// Writes `text` to the file; nothing if `path` is empty. False: it cannot be written, which is said on stderr
// in the name of `program`.
[[nodiscard]] bool write_result_file(const char* program, const std::string& path, const std::string& text);

}  // namespace tally
