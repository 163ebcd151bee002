#include "random/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tally::random {
namespace {

// A signal may cut a read short, or end it before the first byte, while the kernel's pool is not ready yet.
void fill(std::array<std::byte, sizeof(std::uint64_t)>& bytes) noexcept {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got >= 0) {
      filled += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      std::fprintf(stderr, "tally: the kernel gives no random numbers: getrandom: %s\n",
                   std::strerror(errno));
      std::abort();
    }
  }
}

}  // namespace

std::uint64_t word() noexcept {
  std::uint64_t word = 0;
  while (word == 0) {
    std::array<std::byte, sizeof word> bytes{};
    fill(bytes);
    std::memcpy(&word, bytes.data(), sizeof word);
  }
  return word;
}

}  // namespace tally::random
