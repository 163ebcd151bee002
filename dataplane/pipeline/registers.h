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

enum class IndexedBy : std::uint8_t { kJob, kRank, kShardAbove, kLedgerRow, kPath, kEntry };

// What each array has beside its name.
template <class W, int Stage, IndexedBy Index>
struct Register {
  using Word = W;
  static constexpr int kStage = Stage;
  static constexpr IndexedBy kIndex = Index;
};

// Highest chunk absorbed or bypassed, per job. The pair is keyed by epoch, so a new epoch starts unset.
struct High {
  std::uint32_t epoch = 0;
  std::uint32_t chunk = 0;
};
struct HighReg : Register<High, 0, IndexedBy::kJob> {
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
struct SequenceReg : Register<Came, 0, IndexedBy::kRank> {
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
struct LedgerReg : Register<LedgerRow, 1, IndexedBy::kLedgerRow> {
  static constexpr std::string_view kName = "ledger";
};

// The one register that decides. tag = epoch, 0 = free; complete = contributors == members.
struct Head {
  std::uint32_t tag = 0;
  std::uint32_t chunk = 0;
  std::uint64_t contributors = 0;
};
struct HeadReg : Register<Head, 2, IndexedBy::kEntry> {
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
struct OwnerReg : Register<Owner, 2, IndexedBy::kEntry> {
  static constexpr std::string_view kName = "owner";
};

// Of sessions only: the operation of the entry's chunk, as SessionRun counts them. To a chip this and the
// head are one word.
struct OperationReg : Register<std::uint32_t, 2, IndexedBy::kEntry> {
  static constexpr std::string_view kName = "operation";
};

// Of sessions only: where the reply to a member goes, one word for each rank behind the entry's registers.
// Written by its contribution; the frames of a result read a word each, on their way out.
struct ReturnPath {
  std::uint16_t udp_port = 0;  // host order: where its last packet for the entry came from
  PortIndex port{};            // the box's port that it came in by
};
using ReturnPaths = std::array<ReturnPath, kMaxRanks>;
struct PathReg : Register<ReturnPath, 3, IndexedBy::kPath> {
  static constexpr std::string_view kName = "path";
};

// Of jobs with stragglers only: since when an entry fills, and whom a result that could not wait lacks. Such
// an entry's head names all members, as of any complete entry, so that nothing is ever added to it again.
struct ClaimedReg : Register<std::uint32_t, 3, IndexedBy::kEntry> {  // stamp() of the claim
  static constexpr std::string_view kName = "claimed";
};
struct MissingReg
    : Register<std::uint64_t, 3, IndexedBy::kEntry> {  // bitmap of ranks; 0: filling, or everybody is in it
  static constexpr std::string_view kName = "missing";
};

// Of racked jobs these two say whether a sum that is whole here has the job's result yet, and when it last left for
// the parent: `missing` is then of racks, all of them until the result has come, and `claimed` the stamp of the sending.

// Of racked jobs only: what this core has sent to a shard of the parent. Keyed by epoch, as `high`.
struct SentAbove {
  std::uint32_t epoch = 0;
  std::uint32_t count = 0;
};
struct SentAboveReg : Register<SentAbove, 3, IndexedBy::kShardAbove> {
  static constexpr std::string_view kName = "sent";
};

// Which of a job's chunks were finished on this core: the newest, and which of the 32 before it, `shards`
// apart as the core's chunks are. Keyed by epoch, as `high`.
struct Finished {
  std::uint32_t epoch = 0;
  std::uint32_t chunk = 0;
  std::uint32_t before = 0;  // bit i: chunk - (i + 1) x shards
};
struct FinishedReg : Register<Finished, 4, IndexedBy::kJob> {
  static constexpr std::string_view kName = "finished";
};

struct ShapeReg : Register<jobs::Shape, 3, IndexedBy::kEntry> {
  static constexpr std::string_view kName = "shape";
};

struct ExponentReg : Register<std::int8_t, 4, IndexedBy::kEntry> {  // maximum over the contributions
  static constexpr std::string_view kName = "exponent";
};
struct Exponent1Reg
    : Register<std::int8_t, 4, IndexedBy::kEntry> {  // of sessions: their second exponent, maximum too
  static constexpr std::string_view kName = "exponent1";
};
struct MarksReg : Register<std::uint8_t, 4, IndexedBy::kEntry> {  // of the contributions, or-ed (jobs::Mark)
  static constexpr std::string_view kName = "marks";
};
struct Sum1Reg : Register<std::uint32_t, 4, IndexedBy::kEntry> {
  static constexpr std::string_view kName = "sum1";
};
struct Sum2Reg : Register<std::uint32_t, 4, IndexedBy::kEntry> {
  static constexpr std::string_view kName = "sum2";
};

inline constexpr int kFirstValueStage = 5;  // element k lives in stage 5 + k / (arrays per stage)

template <class... R>
struct RegisterList {};

using JobRegisters = RegisterList<HighReg, FinishedReg>;
using RankRegisters = RegisterList<SequenceReg>;
using ShardAboveRegisters = RegisterList<SentAboveReg>;
using LedgerRegisters = RegisterList<LedgerReg>;
using PoolRegisters = RegisterList<HeadReg, ShapeReg, ExponentReg, MarksReg, Sum1Reg, Sum2Reg>;
using StragglerRegisters =
    RegisterList<HeadReg, ClaimedReg, MissingReg, ShapeReg, ExponentReg, MarksReg, Sum1Reg, Sum2Reg>;
using RackRegisters = StragglerRegisters;
using PathRegisters = RegisterList<PathReg>;
using EntryRegisters = RegisterList<HeadReg, MissingReg, OwnerReg, ClaimedReg, ShapeReg, ExponentReg,
                                    MarksReg, Exponent1Reg, Sum1Reg, Sum2Reg, OperationReg>;

}  // namespace tally::pipeline
