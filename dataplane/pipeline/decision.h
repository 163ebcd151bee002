#pragma once
// What a discipline's `decide` says after its one read-modify-write of the head, and what it is told.

#include <cstddef>
#include <cstdint>

#include "pipeline/registers.h"
#include "tally/counters.h"
#include "tally/ids.h"

namespace tally::pipeline {

// What the later registers do with the packet's field.
enum class Op : std::uint8_t {
  kNone,      // the packet stops at the head
  kWrite,     // first of its chunk: the entry takes the packet's
  kAdd,       // merge into the entry
  kAddEmit,   // merge, and the packet carries the outcome on
  kRead,      // the packet carries the entry's
  kSubtract,  // undoes kAdd of a packet that turned out corrupted
  kSwap,      // the packet and the entry change places
};

struct Decision {
  Op op = Op::kNone;
  Drop drop{};                 // why, with kNone
  bool entry_is_ours = false;  // the entry already was of this (tag, chunk): its shape must match
  std::int8_t occupancy = 0;   // change of the job's filling entries
};

// How a packet has its values, for whoever adds them.
enum class Form : std::uint8_t {
  kWords,   // 32 bits each
  kHalves,  // two in a word
  kZero,    // they are 0, and not there
  kRows,    // some rows of 16 words, behind which is said which (tally/rows.h)
};
constexpr bool leaves_out(Form form) noexcept { return form >= Form::kZero; }
constexpr Form form_of(const jobs::Sum& sum) noexcept {
  if (jobs::is_zero(sum)) return Form::kZero;
  return values_per_word(sum.shape.dtype) == 2 ? Form::kHalves : Form::kWords;
}

// A contribution as the program sees it. `values` lie in the packet, big-endian; after kAddEmit, kRead and
// kSwap they and `sum` are what the entry held.
struct Contribution {
  std::byte* values = nullptr;
  std::uint32_t line = 0;  // of the entry, in the core's region
  Chunk chunk{};
  SlotIndex slot{};
  Epoch epoch{};
  Rank rank{};
  std::uint8_t priority = 0;  // clamped to the job's maximum
  bool verify = false;        // nobody vouches for the payload: check sum1 and sum2 before anything changes
  bool direct = false;
  Form form{};            // as the packet came
  std::uint64_t bit = 0;  // of the sender
  std::uint32_t key = 0;  // k[rank]
  jobs::Sum sum;
  std::uint32_t sequence = 0;  // on the wire
  std::uint32_t number = 0;    // of job and rank: where their register lies
  std::uint64_t missing =
      0;  // (out, 0 before) bit i: the contribution sequence - i has not come, and is told now
  std::uint32_t row = 0;      // discipline shared: of the ledger
  std::uint32_t room = 0;     // words that `values` can take
  std::uint32_t swapped = 0;  // kSwap: words of the longer of the two
  std::uint32_t packed = 0;   // kRows: bytes of the rows and what is behind them
  std::uint32_t before = 0;   // (out) of what is complete now: what finish() says
};

}  // namespace tally::pipeline
