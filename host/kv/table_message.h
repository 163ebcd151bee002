#pragma once
// What Tables and the servers of their rows say to one another: the values, as bytes, of requests to kTableApp, which have
// one key for form's sake. Numbers are as the machine has them, as those of arrays are (frame.h). Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tally/kv_core.h"
#include "tally/kv_table.h"

namespace tally::kv {

// The app of tables at every server; KVWorkers have theirs from 0 on.
inline constexpr int kTableApp = -0x7ab1e;
inline constexpr std::size_t kMostTableWidth = 4096;  // values in a row
inline constexpr std::size_t kMostMovedBytes =
    std::size_t{16} << 20;  // of rows in an answer, or a message with some that move
inline constexpr ValueKind kTableKind = value_kind<unsigned char>();

enum class TableAct : std::uint8_t {
  kPull = 1,  // keys: answered with their rows
  kPush,  // keys and rows: answered with the round that they are in, 8 bytes, when this server has applied it
  kFetch,  // keys: as kPull, and under `set` they are hot; their rows are at the workers from now on
  kBring,  // keys and rows that come back: under `set` they are cold, or their worker leaves
  kClose,  // answered when all workers have closed
  kLeave,  // the worker takes no part any more, and for_all nobody does; text: why
  kAsk,  // of the clock (table_clock.h): answered with the round behind `rounds`, 8 bytes, when it is called
  kAskPushed,  // ... and the worker's program has pushed
  kAskCloses,  // ... or closes
};
inline constexpr TableAct kLastTableAct = TableAct::kAskCloses;

// What all workers of a table mean alike: its options but the number.
struct TableTerms {
  std::uint32_t width = 1;
  Rule rule = Rule::kSum;
  float rate = 0;
  std::uint32_t most_hot = 0;
  std::uint64_t every = 0;
  bool hot = false;         // some keys go through a box
  std::uint16_t least = 0;  // workers whose pushes end a round; 0: all
  std::uint32_t age = 0;    // of a round, in milliseconds, that ends it; 0: never
  // Else all workers are in each round.
  [[nodiscard]] bool rounds_end_by_themselves() const noexcept { return age != 0 && !hot; }
  [[nodiscard]] bool rounds_are_called() const noexcept { return age != 0 && hot; }
  bool operator==(const TableTerms&) const noexcept = default;
};
// Of two that differ, in words: "width 8", "width 4".
struct TableDifference {
  std::string one, other;
};
[[nodiscard]] TableDifference difference_of(const TableTerms& one, const TableTerms& other);

struct TableMessage {
  TableAct act = TableAct::kPull;
  int table = 0;
  std::uint64_t life = 0;  // of its Table: greater than any before it in its worker's process; from 1 on
  TableTerms terms{};
  std::uint64_t rounds = 0;     // that have ended for this worker
  std::uint32_t set = 0;        // of hot keys; kLeave: the one whose rows it has brought
  std::span<const Key> keys{};  // ascending
  std::span<const float> rows{};
  bool for_all = false;  // kLeave: the table has failed, and is over at all workers
  std::string_view text{};
  SArray<std::byte> memory{};  // of what was decoded
};

[[nodiscard]] SArray<std::byte> encode(const TableMessage& message);
// Throws a Failure that says what cannot be. bytes aligned to 8; the message shares them.
[[nodiscard]] TableMessage decode_table_message(const SArray<std::byte>& bytes);

}  // namespace tally::kv
