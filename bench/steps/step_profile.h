#pragma once
// Where the cycles of a loop go: a stopwatch that always runs, and whose time belongs to one row of a table
// at a time. So the rows add up to the whole. Pure: the TSC is an argument.

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tally::bench {

// What a packet is to its chunk.
enum class PacketKind : std::uint8_t {
  kFirst,  // its values overwrite the entry
  kAdd,
  kLast,   // its values are added, and the sums take their place in the frame
  kOther,  // its values were not touched
};
inline constexpr std::size_t kPacketKinds = 4;

// Rows from kRegisters on have one for each kind, in the order of PacketKind.
enum class StepRow : std::uint8_t {
  kPortReceive,
  kIngress,
  kParse,
  kConclude,
  kGiveBack,
  kEgress,
  kPortTransmit,
  kRest,
  kRegisters,
  kValues = kRegisters + kPacketKinds,
  kVerdict = kValues + kPacketKinds,
  kEnd = kVerdict + kPacketKinds
};
inline constexpr std::size_t kStepRows = static_cast<std::size_t>(StepRow::kEnd);

constexpr StepRow row_of(StepRow first, PacketKind kind) noexcept {
  return static_cast<StepRow>(static_cast<std::size_t>(first) + static_cast<std::size_t>(kind));
}

class StepProfile {
 public:
  struct Cell {
    std::uint64_t cycles = 0;  // of the TSC, stamps included
    std::uint64_t stamps = 0;  // each ended one stretch of this row
  };

  // Forgets everything; from `now` on time is kRest's.
  void start(std::uint64_t now) noexcept {
    *this = {};
    last_ = now;
  }
  // From now on time is `next`'s. Returns whose it was.
  StepRow enter(StepRow next, std::uint64_t now) noexcept {
    Cell& cell = cells_[static_cast<std::size_t>(current_)];
    cell.cycles += now - last_;
    ++cell.stamps;
    last_ = now;
    const StepRow before = current_;
    current_ = next;
    return before;
  }
  // A packet's values come next: what has been its registers so far now has a kind.
  void enter_values(PacketKind kind, std::uint64_t now) noexcept {
    current_ = row_of(StepRow::kRegisters, kind);
    ++packets_[static_cast<std::size_t>(kind)];
    enter(row_of(StepRow::kValues, kind), now);
  }
  void leave_values(PacketKind kind, std::uint64_t now) noexcept {
    enter(row_of(StepRow::kVerdict, kind), now);
  }
  // packets: all that came since start().
  void stop(std::uint64_t now, std::uint64_t packets) noexcept {
    enter(StepRow::kRest, now);
    const std::uint64_t with_values = this->packets();
    packets_[static_cast<std::size_t>(PacketKind::kOther)] += packets - with_values;
  }

  [[nodiscard]] const Cell& cell(StepRow row) const noexcept { return cells_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] std::uint64_t packets(PacketKind kind) const noexcept {
    return packets_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::uint64_t packets() const noexcept;
  // Of all rows.
  [[nodiscard]] Cell total() const noexcept;
  StepProfile& operator+=(const StepProfile& other) noexcept;

 private:
  std::array<Cell, kStepRows> cells_{};
  std::array<std::uint64_t, kPacketKinds> packets_{};
  StepRow current_ = StepRow::kRest;
  std::uint64_t last_ = 0;
};

// The sum of the rounds without the quarter that was fastest and the one that was slowest, by cycles for each
// packet. rounds: not empty, each with packets.
[[nodiscard]] StepProfile middle_half(std::vector<StepProfile> rounds);

// Cycles that a stamp takes, from one to the next with nothing between them: the middle of several series.
// clock(): the TSC, as the loop's stamps read it.
template <class Clock>
double stamp_cycles(Clock clock) {
  constexpr int kSeries = 21;
  constexpr int kPairs = 64;
  std::vector<StepProfile> series(kSeries);
  for (StepProfile& s : series) {
    s.start(clock());
    for (int i = 0; i < kPairs; ++i) {
      s.enter_values(PacketKind::kAdd, clock());
      s.leave_values(PacketKind::kAdd, clock());
    }
  }
  const StepProfile::Cell total = middle_half(std::move(series)).total();
  return static_cast<double>(total.cycles) / static_cast<double>(total.stamps);
}

// A profile of the loop for people and programs. Pure.
struct StepLine {
  std::string key{};         // for programs
  std::string name{};        // for people
  std::uint64_t events = 0;  // packets of its kind, results, or all contributions
  double each = 0;           // cycles of one of these, stamps taken off
  double share = 0;          // cycles for each contribution of the whole loop
};

struct StepFigures {
  std::vector<StepLine> lines{};  // whose shares add up to `total`; rows without events are left out
  std::uint64_t contributions = 0;
  double total = 0;        // cycles for each contribution, stamps taken off
  double with_stamps = 0;  // the same with them
  double unprofiled = 0;   // of the loop as it is in the product, measured in turn
  double stamp = 0;        // cycles taken off for each stamp
  double stamps = 0;       // for each contribution
  double tsc_hz = 0;
};

// rounds: as middle_half() wants them. stamp: as stamp_cycles() says. unprofiled: cycles for each
// contribution.
[[nodiscard]] StepFigures step_figures(std::vector<StepProfile> rounds, double stamp, double unprofiled,
                                       double tsc_hz);

// Heads, a line for each step, and the sum beside the loop that was not profiled.
[[nodiscard]] std::string step_table(const StepFigures& figures);
[[nodiscard]] std::string step_csv(const StepFigures& figures);
[[nodiscard]] nlohmann::json step_json(const StepFigures& figures);

}  // namespace tally::bench
