#pragma once
// The kernel's hugepages: which there are, whether this process may map them, what to do if there are too
// few.

#include <cstdint>
#include <filesystem>
#include <string>

namespace tally {

struct HugepageSize {
  std::uint64_t bytes = 0;     // of one page
  std::uint64_t reserved = 0;  // pages
  std::uint64_t free = 0;      // pages
};

struct Hugepages {
  std::uint64_t free_bytes = 0;  // of every size
  HugepageSize usual{};          // the kernel's default size, which vm.nr_hugepages reserves; 0 bytes: none
};

// root: / ; another one in tests.
[[nodiscard]] Hugepages hugepages_of(const std::filesystem::path& root = "/");

// Whether a free hugepage can be mapped by this process: containers and control groups may forbid it.
[[nodiscard]] bool hugepages_mappable();

// The command that makes `bytes` available, given what is reserved now.
[[nodiscard]] std::string reserve_command(const Hugepages& now, std::uint64_t bytes);

}  // namespace tally
