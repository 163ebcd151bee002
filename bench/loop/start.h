#pragma once
// How benchmarks over DPDK begin: what must work or ends the process, EAL, a directory for sockets.

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "dpdk/eal.h"
#include "tally/error.h"
#include "tally/wire.h"

namespace tally::bench {

[[noreturn]] inline void give_up(std::string_view why) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(why.size()), why.data());
  std::exit(1);
}

// Its value, or the end of the process with the error's text.
template <class T>
T started(Result<T> result) {
  if (!result) give_up(result.error().text());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// EAL's log without its chatter: warnings and worse.
inline void print_warnings(std::uint32_t level, std::string_view line) {
  constexpr std::uint32_t kError = 4;  // RTE_LOG_ERR
  if (level <= kError) std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

// EAL for benchmarks of one thread. On pages of 4 KiB an mbuf takes a page, so that it takes twice the
// memory.
inline dpdk::Eal start_bench_eal(const char* program) {
  constexpr std::uint64_t kHugeMemory = std::uint64_t{256} << 20;
  const bool huge = dpdk::hugepages_of().free_bytes >= kHugeMemory;
  const dpdk::EalOptions options{.program = program,
                                 .instance = "bench-" + std::to_string(getpid()),
                                 .memory_bytes = huge ? kHugeMemory : 2 * kHugeMemory};
  return started(dpdk::Eal::start(options, print_warnings));
}

inline const char* hugepages_text(const dpdk::Eal& eal) {
  return eal.hugepages() ? "hugepages" : "NO HUGEPAGES: every frame costs a walk of the page table";
}

// A directory for sockets, removed with all that is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = std::filesystem::temp_directory_path() / "tally-bench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      std::perror("mkdtemp");
      std::exit(1);
    }
    path_ = pattern;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// Of an option that takes a number of values in a packet: empty, or what is wrong with it.
inline std::string packet_elements(const std::string& text) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool number = error == std::errc{} && end == text.data() + text.size();
  return number && n != 0 && valid_elements(n) ? "" : text + ": must be a multiple of 16 from 16 to 2224";
}

}  // namespace tally::bench
