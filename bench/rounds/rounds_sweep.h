#pragma once
// Which runs there are, and all of them on a few threads.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "round_run.h"

namespace tally::rounds {

enum class Kept : std::uint8_t {
  kNone,         // everything is cold
  kAgreed,       // as host/hot agrees on it after 64 rounds; workers keep the rows
  kWrittenBack,  // likewise, and in each round the sums go to the servers
  kRandom,       // keys that somebody guessed
  kOracle,       // the most frequent ones
};
inline constexpr std::array<std::string_view, 5> kKeptNames{"cold", "agreed", "written back", "random",
                                                            "oracle"};

// What servers are short of while everything is cold.
enum class Bound : std::uint8_t {
  kThreads,  // one thread each, links of 25 Gbit/s
  kLinks,    // 16 threads each, links of 10 Gbit/s
};
inline constexpr std::array<std::string_view, 2> kBoundNames{"threads", "links"};

enum class Table : std::uint8_t {
  kHeadline,
  kLaws,     // other exponents
  kSizes,    // of the hot set
  kServers,  // more of them
};
inline constexpr std::array<std::string_view, 4> kTableNames{"headline", "laws", "sizes", "servers"};

struct Cell {
  Table table{};
  Bound bound{};
  Kept kept{};
  std::uint32_t hot = 30'000;
  Conditions conditions{};
};

struct Done {
  Cell cell{};
  std::size_t size = 0;  // of the set
  bench::Traffic reckoned{};
  Measured measured{};

  // With an agreement's sums every 64 rounds.
  [[nodiscard]] double per_second() const;
};

inline constexpr std::uint32_t kEvery = 64;  // rounds between agreements, and before the set that is used

[[nodiscard]] Conditions conditions_of(Bound bound, const bench::Workload& load, std::uint32_t width);
[[nodiscard]] std::vector<Cell> all_cells(bool quick);
// In the order of the cells. Ends the program where a run has no figure.
[[nodiscard]] std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads);

}  // namespace tally::rounds
