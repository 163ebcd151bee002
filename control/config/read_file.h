#pragma once
// A whole small file.

#include <cstddef>
#include <string>

#include <sys/types.h>

#include "complaint.h"

namespace tally {

struct FileText {
  std::string text;
  mode_t mode = 0;  // type and permissions, as stat gives them
};

enum class FileKind : std::uint8_t { kReadable, kRegular };  // kReadable: pipes and devices too

// Fails also for a directory, and for more than `longest` bytes.
[[nodiscard]] Parsed<FileText> read_file(const std::string& path, std::size_t longest,
                                         FileKind kind = FileKind::kReadable);

}  // namespace tally
