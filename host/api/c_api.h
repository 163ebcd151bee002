#pragma once
// Between the C face and the C++ one.

#include <cstddef>
#include <string>

#include "tally/tally.h"
#include "tally/worker.h"

// NOLINTBEGIN(readability-identifier-naming): as tally.h declares them
struct tally_worker {
  tally::Worker worker;
};
struct tally_operation {
  tally::Operation operation;
};
// NOLINTEND(readability-identifier-naming)

namespace tally {

// Notes the text for tally_last_error() and returns the code.
tally_code c_failure(const Error& error) noexcept;
tally_code c_invalid(std::string what) noexcept;

// Structs of C carry their size, so that they can grow. `known`: as of this version. Copies what the caller
// has over the defaults in `to`. A caller of a later version must not rely on what is not known here: bytes
// beyond `known` that are not 0 are refused, as is a size below `least` (the first version's).
[[nodiscard]] tally_code take_struct(const void* from, std::size_t least, void* to, std::size_t known,
                                     const char* name) noexcept;
// The other way: fills as many bytes of the caller's struct as it has.
[[nodiscard]] tally_code give_struct(const void* from, std::size_t known, void* to, std::size_t least,
                                     const char* name) noexcept;

[[nodiscard]] tally_code worker_options(const tally_options& from, WorkerOptions& to) noexcept;

}  // namespace tally
