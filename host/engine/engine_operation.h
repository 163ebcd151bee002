#pragma once
// One operation: its spans as one concatenation, and the mapping from its chunks to their elements.
// Chunks are counted here from 0 within the operation (docs/protocol.md, 6): a float operation
// with n data chunks has p = min(n, lookahead) priming chunks 0..p-1, then data chunk j as chunk p + j.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tally/element_type.h"
#include "tally/engine_statistics.h"
#include "tally/float_options.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/priority.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

// What the program tells the worker engine: once when it is created, and with every operation.

inline constexpr TimeNs kPollRtoFloor = kMillisecond;           // the transport spins
inline constexpr TimeNs kAdaptiveRtoFloor = 20 * kMillisecond;  // transport or box may sleep between bursts

struct EngineOptions {
  std::string job;          // name, 1..64 bytes
  std::string token;        // 0..64 bytes
  Rank rank{};              // below world
  std::uint16_t world = 1;  // members of the job, 1..4096; more than 64 only in a job of racks
  std::uint16_t elements =
      352;  // wish: the most elements a packet of this path carries, 16..2224, multiple of 16
  std::uint64_t instance = 0;  // random per process: tells a restarted worker from a repeated JOIN
  std::uint64_t seed = 0;  // of all random words of the engine; the same seed and input give the same output
  TimeNs rto_floor = kAdaptiveRtoFloor;
  TimeNs unreachable_after =
      10 * kSecond;  // silence of control that fails the worker until JOINED says the lease
  std::uint8_t priority = kGreatestPriority;  // 0..254; its class is that of operations that choose none
  bool sparse =
      true;  // says that it understands rows and runs of zeros; the box decides whether they are used
  // Where to join, the first one first: any boxes of the job (IPv4 as ::ffff:a.b.c.d). Empty: one box, whose
  // address only the transport knows.
  std::vector<Ipv6> boxes{};
};

class RowCollector;

struct OperationOptions {
  TimeNs deadline = kNever;  // absolute; passed without all results: kTimeout, and the job is aborted
  Priority priority{};
  bool mean = false;  // float only, as what follows: each sum divided by the number of ranks in it
  WireType wire = WireType::kInt32;
  NonFinite non_finite = NonFinite::kFail;
  // Gets the sums that are not zero, and the segments none; of values of 4 bytes. Lives until the completion.
  RowCollector* rows = nullptr;
};

// As which values of `type` travel. Sums that turn out to be exact travel as kFloat32 too.
constexpr Dtype wire_dtype(ElementType type, WireType wire) noexcept {
  if (!is_float(type)) return Dtype::kInt32;
  return wire == WireType::kInt16 ? Dtype::kInt16 : Dtype::kFloat32;
}

enum class OperationId : std::uint64_t {};  // 1, 2, ... in order of submission

// A span of the caller: input and output of the same length, maybe the same memory.
struct Segment {
  const void* in = nullptr;  // nullptr: zeros
  void* out = nullptr;       // nullptr: nobody wants the sums
  std::uint64_t length = 0;  // elements
  std::uint64_t start = 0;   // elements of the spans before it
};

// Elements first .. first + count - 1 of the concatenation.
struct ElementRange {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

class EngineOperation {
 public:
  // `segments`: in order, `start` is filled in here. dtype: wire_dtype(), or kFarewell.
  EngineOperation(OperationId id, ElementType type, Dtype dtype, std::vector<Segment> segments,
                  const OperationOptions& options, TimeNs now);

  // Gives the chunks their numbers: `first` is the index of chunk 0 within the generation. words: of a
  // packet. world: how many will be in its sums.
  void number(std::uint64_t first, std::uint32_t words, std::uint32_t lookahead,
              std::uint32_t world) noexcept;

  [[nodiscard]] OperationId id() const noexcept { return id_; }
  [[nodiscard]] ElementType type() const noexcept { return type_; }  // in the caller's spans
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }      // on the wire
  // Floats, which need the exponents of their blocks.
  [[nodiscard]] bool quantised() const noexcept {
    return !exact_ && (dtype_ == Dtype::kFloat32 || dtype_ == Dtype::kInt16);
  }
  // Floats that travel as digits, which need none. Known with the numbers.
  [[nodiscard]] bool exact() const noexcept { return exact_; }
  [[nodiscard]] std::uint32_t values_of_word() const noexcept {
    return values_per_word(static_cast<std::uint8_t>(dtype_));
  }
  [[nodiscard]] const OperationOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t total() const noexcept { return static_cast<std::uint32_t>(stats.elements); }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return first_ + stats.chunks; }

  // Data chunk that chunk m carries; nothing in a priming chunk, a barrier or an empty operation.
  [[nodiscard]] std::optional<std::uint64_t> data_chunk(std::uint64_t m) const noexcept {
    if (m < priming_ || data_chunks_ == 0) return std::nullopt;
    return m - priming_;
  }
  // Whether chunk m carries the block exponent of data chunk m.
  [[nodiscard]] bool primes(std::uint64_t m) const noexcept { return quantised() && m < data_chunks_; }
  [[nodiscard]] std::uint64_t priming() const noexcept { return priming_; }

  // First element of a data chunk, also of one behind the last.
  [[nodiscard]] std::uint64_t start_of(std::uint64_t data_chunk) const noexcept {
    return data_chunk * per_chunk_;
  }
  [[nodiscard]] ElementRange range(std::uint64_t data_chunk) const noexcept {
    const std::uint64_t at = start_of(data_chunk);
    return {at, static_cast<std::uint32_t>(std::min<std::uint64_t>(per_chunk_, stats.elements - at))};
  }
  // Whether all of the caller's values are zeros. Looks no further than the first that is not.
  [[nodiscard]] bool all_zero(ElementRange range) const noexcept;

  // Elements of chunk m as its header has them, padding included.
  [[nodiscard]] std::uint32_t wire_elements(std::uint64_t m) const noexcept;

  // Calls piece(segment, offset in it, elements) for each part of the range, in order.
  template <class Piece>
  void for_each_piece(ElementRange range, Piece piece) const;

  [[nodiscard]] const Segment& segment(std::size_t span) const noexcept { return segments_[span]; }

  // Span of the caller's list that holds an element, and the offset in it.
  struct Place {
    std::size_t span = 0;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] Place place_of(std::uint64_t element) const noexcept {
    for (const std::size_t span : last_spans_) {
      if (span >= segments_.size()) break;
      const Segment& last = segments_[span];
      if (element - last.start < last.length) return {span, element - last.start};
    }
    return find_place(element);
  }

  // All results are in: puts together what `partial` holds in order of arrival.
  void name_contributors(std::uint64_t members);

  OperationStats stats;         // kept by the stream
  std::uint64_t remaining = 0;  // chunks without a result
  bool reported = true;         // false: the engine's own, no completion for the program

 private:
  [[nodiscard]] Place find_place(std::uint64_t element) const noexcept;

  OperationId id_;
  ElementType type_;
  Dtype dtype_;
  std::vector<Segment> segments_;
  OperationOptions options_;
  std::uint64_t first_ = 0;
  std::uint64_t data_chunks_ = 0;
  std::uint64_t priming_ = 0;
  std::uint32_t per_chunk_ = 0;
  bool exact_ = false;
  // Where the last places were: the next one is mostly there, too. Two, because exponents are sought a window
  // ahead of values.
  mutable std::array<std::size_t, 2> last_spans_{};
};

template <class Piece>
void EngineOperation::for_each_piece(ElementRange range, Piece piece) const {
  std::size_t at = place_of(range.first).span;
  std::uint64_t offset = range.first - segments_[at].start;
  for (std::uint32_t left = range.count; left != 0; ++at, offset = 0) {
    const Segment& segment = segments_[at];
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, segment.length - offset));
    if (n != 0) piece(segment, offset, n);
    left -= n;
  }
}

// The priority byte of a packet: two bits of class, six bits that say how little its operation has left.

// 63 with one chunk left, four steps lower with each doubling (linear in between), 0 from 57,344 on.
constexpr std::uint32_t urgency(std::uint64_t chunks_left) noexcept {
  constexpr std::uint32_t kMost = 63;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(chunks_left | 1)) - 1;
  const auto quarter = static_cast<std::uint32_t>((chunks_left << 2 >> octave) & 3);
  return kMost - std::min(4 * octave + quarter, kMost);
}

// `of_worker`: the worker's default. `maximum`: of the job; the box lowers what is above it to it, which
// would make all of an operation's packets equal. So the urgency is scaled to what the maximum leaves of the
// class.
constexpr std::uint8_t packet_priority(Priority chosen, std::uint8_t of_worker, std::uint8_t maximum,
                                       std::uint64_t chunks_left) noexcept {
  if (chosen.kind == Priority::Kind::kValue) return static_cast<std::uint8_t>(chosen.number);
  const std::uint32_t lowest_of_class = chosen.kind == Priority::Kind::kClass
                                            ? static_cast<std::uint32_t>(chosen.number) << 6
                                            : of_worker & 0xC0U;
  const std::uint32_t top = std::min<std::uint32_t>(lowest_of_class | 0x3F, maximum);
  return static_cast<std::uint8_t>((top & 0xC0) | urgency(chunks_left) * ((top & 0x3F) + 1) / 64);
}

// Why a program may not choose it; empty if it may.
[[nodiscard]] std::string objection_to(Priority chosen);

}  // namespace tally::engine
