#pragma once
// The register arrays of the aggregation program. Each names its word and its stage; this list is all that
// the program, both executions and the fit report share (docs/protocol_box.md, 11.1 and 11.5).
// To add a register: a struct here, its place in the list, its line in the program.

#include <array>
#include <cstdint>
#include <string_view>

#include "jobs/layout.h"
#include "tally/ids.h"

namespace tally::pipeline {

enum class IndexedBy : std::uint8_t { kJob, kRank, kLedgerRow, kPath, kEntry };

// Highest chunk absorbed or bypassed, per job. The pair is keyed by epoch, so a new epoch starts unset.
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

// Which contributions of a rank came, by their sequence (RFC 4303, 3.4.3): the newest, and which of the 63
// before it did not. Keyed by epoch, as `high`: in a new one nothing came yet, and nothing before 1 ever
// will.
struct Came {
  std::uint32_t epoch = 0;
  std::uint32_t newest = 0;
  std::uint64_t missing = 0;  // bit i: newest - i
};
static_assert(sizeof(Came) == 16, "four ranks in a line");
struct SequenceReg {
  using Word = Came;
  static constexpr int kStage = 0;
  static constexpr IndexedBy kIndex = IndexedBy::kRank;
  static constexpr std::string_view kName = "sequence";
};

// What the discipline `shared` remembers of a chunk in flight: the ranks whose contribution was seen,
// wherever it went, and the entry that was claimed for it. The entry may be somebody else's by now: only one
// whose head has the chunk's epoch and number is its own. seen == 0: the row is empty.
//
// A row is *asking* when everybody's contribution was seen and neither entry nor server knows of the chunk
// any more: most likely it was finished long ago, and who still sends it lost the result. Then `seen` is of
// those for whom a peer was asked since.
struct LedgerRow {
  std::uint64_t seen = 0;
  std::uint32_t chunk = 0;
  std::uint32_t entry = 0;  // number in the shared region + 1; 0: none; kAsking

  static constexpr std::uint32_t kAsking = 0xFFFF'FFFF;
};
struct LedgerReg {
  using Word = LedgerRow;
  static constexpr int kStage = 1;
  static constexpr IndexedBy kIndex = IndexedBy::kLedgerRow;
  static constexpr std::string_view kName = "ledger";
};

// The one register that decides. tag = epoch, 0 = free; complete = contributors == members.
struct Head {
  std::uint32_t tag = 0;
  std::uint32_t chunk = 0;
  std::uint64_t contributors = 0;
};
struct HeadReg {
  using Word = Head;
  static constexpr int kStage = 2;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "head";
};

// Shared entries only: whose it is and how it may be taken. On a chip these bits would be part of head.
struct Owner {
  std::uint32_t touched = 0;  // stamp() of the last claim, swap or add
  std::uint32_t claimed = 0;  // stamp() of the claim or swap
  std::uint16_t job = 0;
  std::uint8_t priority = 0;  // of the packet that claimed it, clamped to the job's maximum
  std::uint8_t unused = 0;
};
struct OwnerReg {
  using Word = Owner;
  static constexpr int kStage = 2;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "owner";
};

// Of sessions only: the operation of the entry's chunk, as SessionRun counts them. To a chip this, `touched`
// of owner and head are one word.
struct OperationReg {
  using Word = std::uint32_t;
  static constexpr int kStage = 2;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "operation";
};

// Of sessions only: where the reply to a member goes, one word for each rank behind the entry's registers.
// Written by its contribution; the frames of a result read a word each, on their way out.
struct ReturnPath {
  std::uint16_t udp_port = 0;  // host order: where its last packet for the entry came from
  PortIndex port{};            // the box's port that it came in by
};
using ReturnPaths = std::array<ReturnPath, kMaxRanks>;
struct PathReg {
  using Word = ReturnPath;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kPath;
  static constexpr std::string_view kName = "path";
};

// Of jobs with stragglers only: since when an entry fills, and whom a result that could not wait lacks. Such
// an entry's head names all members, as of any complete entry, so that nothing is ever added to it again.
struct ClaimedReg {
  using Word = std::uint32_t;  // stamp() of the claim
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "claimed";
};
struct MissingReg {
  using Word = std::uint64_t;  // bitmap of ranks; 0: filling, or everybody is in it
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "missing";
};

struct ShapeReg {
  using Word = jobs::Shape;
  static constexpr int kStage = 3;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "shape";
};

struct ExponentReg {  // maximum over the contributions
  using Word = std::int8_t;
  static constexpr int kStage = 4;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "exponent";
};
struct Exponent1Reg {  // of sessions: their second exponent, maximum too
  using Word = std::int8_t;
  static constexpr int kStage = 4;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "exponent1";
};
struct OverflowReg {  // the senders' OVERFLOW flags, or-ed
  using Word = std::uint8_t;
  static constexpr int kStage = 4;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "overflow";
};
struct Sum1Reg {
  using Word = std::uint32_t;
  static constexpr int kStage = 4;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "sum1";
};
struct Sum2Reg {
  using Word = std::uint32_t;
  static constexpr int kStage = 4;
  static constexpr IndexedBy kIndex = IndexedBy::kEntry;
  static constexpr std::string_view kName = "sum2";
};

inline constexpr int kFirstValueStage = 5;  // element k lives in stage 5 + k / (arrays per stage)

template <class... R>
struct RegisterList {};

using JobRegisters = RegisterList<HighReg>;
using RankRegisters = RegisterList<SequenceReg>;
using LedgerRegisters = RegisterList<LedgerReg>;
using PoolRegisters = RegisterList<HeadReg, ShapeReg, ExponentReg, OverflowReg, Sum1Reg, Sum2Reg>;
using StragglerRegisters =
    RegisterList<HeadReg, ClaimedReg, MissingReg, ShapeReg, ExponentReg, OverflowReg, Sum1Reg, Sum2Reg>;
using PathRegisters = RegisterList<PathReg>;
using EntryRegisters = RegisterList<HeadReg, MissingReg, OwnerReg, ClaimedReg, ShapeReg, ExponentReg,
                                    OverflowReg, Exponent1Reg, Sum1Reg, Sum2Reg, OperationReg>;

}  // namespace tally::pipeline
