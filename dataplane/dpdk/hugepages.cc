#include "hugepages.h"

#include <sys/mman.h>

#include <charconv>
#include <fstream>
#include <string_view>

namespace tally {
namespace {

std::uint64_t number_in(const std::filesystem::path& file) {
  std::uint64_t n = 0;
  std::ifstream in(file);
  in >> n;
  return in.fail() ? 0 : n;
}

std::uint64_t usual_size(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string word; in >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "Hugepagesize:" && in >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

}  // namespace

Hugepages hugepages_of(const std::filesystem::path& root) {
  Hugepages found;
  const std::uint64_t usual = usual_size(root);
  std::error_code ignored;
  constexpr std::string_view kStart = "hugepages-";  // hugepages-2048kB
  for (const auto& entry : std::filesystem::directory_iterator(root / "sys/kernel/mm/hugepages", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStart)) continue;
    HugepageSize size;
    std::from_chars(name.data() + kStart.size(), name.data() + name.size(), size.bytes);
    size.bytes <<= 10;
    size.reserved = number_in(entry.path() / "nr_hugepages");
    size.free = number_in(entry.path() / "free_hugepages");
    found.free_bytes += size.bytes * size.free;
    if (size.bytes == usual) found.usual = size;
  }
  return found;
}

bool hugepages_mappable() {
  const std::uint64_t bytes = usual_size("/");
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (page == MAP_FAILED) return false;
  munmap(page, bytes);
  return true;
}

std::string reserve_command(const Hugepages& now, std::uint64_t bytes) {
  if (now.usual.bytes == 0) return "this kernel has no hugepages: set dataplane.hugepages to off";
  const std::uint64_t missing = bytes > now.free_bytes ? bytes - now.free_bytes : 0;
  const std::uint64_t pages = now.usual.reserved + (missing + now.usual.bytes - 1) / now.usual.bytes;
  return "sudo sysctl -w vm.nr_hugepages=" + std::to_string(pages);
}

}  // namespace tally
