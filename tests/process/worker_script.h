#pragma once
// What a test worker is told to do: its command line. Who it is comes from TALLY_* (worker.h).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tally::test {

enum class Ending : std::uint8_t {
  kLeave,   // leave(), as a program should
  kDrop,    // destroys the Worker: the others are told
  kVanish,  // ends the process with the Worker alive: nobody is told
};

// Another rank in the same process.
struct Neighbour {
  std::uint16_t rank = 0;
  std::string transport{};
  std::string address{};
};

struct Script {
  // The operations of an iteration, all issued before the first is waited for; each a list of spans.
  std::vector<std::vector<std::size_t>> operations{{1000}};
  bool int32 = false;
  std::uint64_t seed = 1;
  std::uint32_t iterations = 1;
  std::uint32_t lives = 1;                 // joins anew so often, each time from iteration 0
  std::vector<std::uint32_t> pauses{};     // before these iterations it waits for a line on stdin
  bool until_told = false;                 // ends all ranks' iterations when a rank has a line on stdin
  std::chrono::milliseconds gap{0};        // between iterations
  std::chrono::milliseconds timeout{0};    // of an operation
  std::chrono::milliseconds patience{-1};  // wait() gives up after it and waits again; -1: waits for ever
  Ending ending = Ending::kLeave;
  std::vector<Neighbour> neighbours{};
};

// Ends the process with 2 and a message when the words are wrong.
[[nodiscard]] Script parse_script(int argc, const char* const* argv);

}  // namespace tally::test
