#pragma once
// The register arrays of the aggregation program. Each names its word and its stage; this list is all that
// the program, both executions and the fit report share. Source: protocol.md, Slot entry; pipeline.md.
// To add a register: a struct here, its place in the list, its line in the program.

#include <cstdint>
#include <string_view>

namespace tally {

enum class IndexedBy : std::uint8_t { kJob, kEntry };

// Highest chunk absorbed, per job. The pair is keyed by epoch, so a new epoch starts unset.
struct High {
  std::uint32_t epoch = 0;
  std::uint32_t chunk = 0;
};
struct HighReg {
  using Word = High;
  static constexpr int kStage = 0;
  static constexpr IndexedBy kIndex = IndexedBy::kJob;
  static constexpr std::string_view kName = "high";
};

// The one register that decides. tag = epoch, 0 = free; complete = contributors == members.
struct Head {
  std::uint32_t tag = 0;
  std::uint32_t chunk = 0;
  std::uint64_t contributors = 0;
};
struct HeadReg {
  using Word = Head;
  static constexpr int kStage = 1;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "head";
};

// What all contributions of a chunk must agree on.
struct Shape {
  std::uint32_t total = 0;
  std::uint16_t elements = 0;
  std::uint8_t dtype = 0;
  std::uint8_t unused = 0;
  constexpr bool operator==(const Shape&) const noexcept = default;
};
struct ShapeReg {
  using Word = Shape;
  static constexpr int kStage = 2;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "shape";
};

struct ExponentReg {  // maximum over the contributions
  using Word = std::int8_t;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "exponent";
};
struct OverflowReg {  // the senders' OVERFLOW flags, or-ed
  using Word = std::uint8_t;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "overflow";
};
struct Sum1Reg {
  using Word = std::uint32_t;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "sum1";
};
struct Sum2Reg {
  using Word = std::uint32_t;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "sum2";
};

inline constexpr int kFirstValueStage = 4;  // element k lives in stage 4 + k / (arrays per stage)

template <class... R>
struct RegisterList {};

using JobRegisters = RegisterList<HighReg>;
using EntryRegisters = RegisterList<HeadReg, ShapeReg, ExponentReg, OverflowReg, Sum1Reg, Sum2Reg>;

}  // namespace tally
