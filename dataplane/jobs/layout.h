#pragma once
// What all contributions of a chunk must agree on.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "jobs/job_table.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::jobs {

struct Shape {
  std::uint32_t total = 0;     // elements of the whole operation modulo 2^32
  std::uint16_t elements = 0;  // of this chunk
  std::uint8_t dtype = 0;
  std::uint8_t unused = 0;
  // As one word: default would compare field by field, for every packet.
  constexpr bool operator==(const Shape& other) const noexcept {
    return std::bit_cast<std::uint64_t>(*this) == std::bit_cast<std::uint64_t>(other);
  }
};
static_assert(std::has_unique_object_representations_v<Shape>);

// Words of 4 bytes that a chunk's values fill.
constexpr std::uint32_t words_of(const Shape& shape) noexcept {
  return shape.dtype == static_cast<std::uint8_t>(Dtype::kInt16) ? shape.elements / 2U : shape.elements;
}

// Of a sum, so that those of two or-ed are those of both together.
enum Mark : std::uint8_t {
  kMarkOverflow = kFlagOverflow,
  kMarkValues = kFlagZero,  // not the flag: there are values, which may all be 0 all the same
  // Not the flag: somebody sent all rows. A correct sender has values in each then, so there is nothing to leave out.
  kMarkDense = kFlagSparse,
};

// What goes with a chunk's values, be they of one contribution or the sum of several.
struct Sum {
  Shape shape;
  std::uint32_t sum1 = 0;  // as on the wire: keyed
  std::uint32_t sum2 = 0;
  std::int8_t exponent = 0;
  std::uint8_t marks = kMarkValues | kMarkDense;
};

constexpr bool is_zero(const Sum& sum) noexcept { return (sum.marks & kMarkValues) == 0; }
// Are all of its rows there wherever it is sent?
constexpr bool is_dense(const Sum& sum) noexcept {
  return (sum.marks & (kMarkValues | kMarkDense)) == (kMarkValues | kMarkDense);
}
// As flags of a header.
constexpr std::uint8_t flags_of(const Sum& sum) noexcept {
  constexpr std::uint8_t kNot = kMarkValues | kMarkDense;
  return static_cast<std::uint8_t>((sum.marks ^ kNot) & (kMarkOverflow | kNot));
}
// Words of values behind its header, where no rows are left out.
constexpr std::uint32_t carried_words(const Sum& sum) noexcept {
  return is_zero(sum) ? 0 : words_of(sum.shape);
}
constexpr std::uint32_t datagram_bytes(const Sum& sum) noexcept {
  return static_cast<std::uint32_t>(kHeaderBytes + 4 * carried_words(sum));
}

// As the header of a data packet has it.
inline Sum sum_of(const Header& h) noexcept {
  return {.shape = {.total = h.total.host(), .elements = h.elements.host(), .dtype = h.dtype},
          .sum1 = h.sum1.host(),
          .sum2 = h.sum2.host(),
          .exponent = h.exponent,
          .marks = static_cast<std::uint8_t>((h.flags ^ (kFlagZero | kFlagSparse)) &
                                             (kMarkOverflow | kMarkValues | kMarkDense))};
}

// Time in a register: units of 1,024 ns modulo 2^32, 73 minutes.
constexpr std::uint32_t stamp(TimeNs at) noexcept { return static_cast<std::uint32_t>(at >> 10); }

// Slot memory of one core as the caller lends it: lines of 64 bytes. An entry is a line of registers and then
// its values, 16 to a line.

struct alignas(64) Line {
  std::byte bytes[64];
};
static_assert(sizeof(Line) == 64);

// All zero at start: every entry free. Lives as long as the pipeline; touched by the owner core only.
using Region = std::span<Line>;

// The part of a core's slot memory that jobs of the disciplines `shared`, `fcfs` and `preemptive` share:
// entries of one size at the end of the region. What lies in front of it goes to pools and ledgers in ranges.

struct SharedRegion {
  std::uint32_t first = 0;    // line of entry 0
  std::uint32_t entries = 0;  // 0: there is none
  std::uint32_t step = 0;     // lines of an entry

  [[nodiscard]] constexpr std::uint32_t line_of(std::uint32_t entry) const noexcept {
    return first + entry * step;
  }
  [[nodiscard]] constexpr std::uint32_t elements() const noexcept { return step == 0 ? 0 : 16 * (step - 1); }
};

// Lines of `entries` shared entries of `elements` values.
constexpr std::uint64_t shared_lines(std::uint32_t entries, std::uint32_t elements) noexcept {
  return std::uint64_t{entries} * entry_lines(elements);
}
// slot_lines: of the core, at least shared_lines(entries, elements).
constexpr SharedRegion shared_region(std::uint32_t slot_lines, std::uint32_t entries,
                                     std::uint32_t elements) noexcept {
  if (entries == 0) return {};
  return {slot_lines - static_cast<std::uint32_t>(shared_lines(entries, elements)), entries,
          entry_lines(elements)};
}

// The ledger of a job of the discipline `shared` on one core: a row of 16 bytes for each chunk in flight
// whose slot the core owns.
inline constexpr std::uint32_t kLedgerRowsPerLine = 4;
constexpr std::uint32_t ledger_lines(std::uint32_t span, std::uint32_t shards) noexcept {
  const std::uint32_t rows = (span + shards - 1) / shards;
  return (rows + kLedgerRowsPerLine - 1) / kLedgerRowsPerLine;
}

}  // namespace tally::jobs
