#pragma once
// Random words of the kernel: all secrets, identities and seeds of the programs come from here.

#include <cstdint>

namespace tally::random {

// Uniform but for 0, which says "none" in several fields. Any thread; getrandom(2), a system call for each
// word, so not for packets. Ends the process if the kernel refuses: a guessable secret is worse than no
// program.
[[nodiscard]] std::uint64_t word() noexcept;

}  // namespace tally::random
