#include "daemon/random_words.h"

#include <sys/random.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/check.h"

namespace tally::daemon {
namespace {

// getrandom gives up to 256 bytes whole, whatever signals arrive (getrandom(2)).
constexpr std::size_t kWords = 256 / sizeof(std::uint64_t);

}  // namespace

members::RandomWords kernel_random() {
  return [words = std::array<std::uint64_t, kWords>{}, left = std::size_t{0}]() mutable {
    if (left == 0) {
      const ssize_t got = getrandom(words.data(), sizeof words, 0);
      TALLY_CHECK(got == static_cast<ssize_t>(sizeof words), "the kernel gives random words");
      left = kWords;
    }
    return words[--left];
  };
}

}  // namespace tally::daemon
