#pragma once
// The two jobs of the packet sequence target, the pipelines they run on and what is known of them.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "heap_frame.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "pool_oracle.h"

namespace tally {

inline constexpr std::uint16_t kJobs = 2;
inline constexpr std::uint32_t kWindow = 16;
inline constexpr std::uint16_t kMostElements = 32;
inline constexpr std::uint32_t kPlaces = 3;  // ranges of slot memory that jobs move between
inline constexpr std::uint32_t kPlaceLines = 2 * kWindow * (1 + kMostElements / 16);
inline constexpr int kMostOperations = 400;

struct SentFrame {
  std::uint16_t job = 0;  // index
  Epoch epoch{};
  Bytes datagram;
  Offered offered;
  bool header_corrupt = false;
};

struct SentRun {
  std::uint16_t job = 0;  // index
  Epoch epoch{};
  Bytes datagram;
  std::vector<Offered> zeros;
};

// One job id: the row that is or was in the table, and what its workers and members know.
struct Life {
  jobs::NativeJob row;
  bool present = false;
  std::uint32_t place = 0;
  Chunk front{};
  bool rogue = false;  // some rank changed a contribution: results may differ between epochs
  PoolOracle oracle;
  std::map<std::pair<std::uint32_t, std::uint16_t>, Offered> contributions;  // of (chunk, rank)
  std::map<std::pair<std::uint32_t, std::uint32_t>, Delivered> in_epoch;     // by (epoch, chunk)
  std::set<std::pair<std::uint32_t, std::uint32_t>> finished;                // those and wrong sums
  std::map<std::uint32_t, Delivered> in_generation;                          // by chunk, unless rogue
};

class Sequence {
 public:
  explicit Sequence(FuzzInput in);
  void run();

 private:
  void operate();
  // What the fuzzer chooses.
  Life& life() { return lives_[in_.below(kJobs)]; }
  Rank rank(const Life& l) { return Rank{static_cast<std::uint16_t>(in_.below(l.row.world))}; }
  Chunk near(Life& l);
  [[nodiscard]] static jobs::Shape shape_of(const Life& l, Chunk chunk);
  Offered offered(Life& l, Rank rank, Chunk chunk);
  void choose_form(Offered& p);

  void contribute(Life& l, Rank rank, Chunk chunk);
  void whole_chunk(Life& l);
  void poisoned_chunks(Life& l);
  void replay();
  void corrupt(Life& l);
  void forge(Life& l);
  void rogue(Life& l);
  void query(Life& l);
  void answer(Life& l);
  // Zeros that are left out (packet_sequence_runs.cc).
  void leave_out(Life& l, std::uint32_t what);
  void run_of_zeros(Life& l);
  void forge_run(Life& l);
  void forge_rows(Life& l);
  [[nodiscard]] SentRun some_run(Life& l);
  void expect_run(Life& l, const SentRun& run);
  void pass_run(Life& l, const SentRun& run, const std::vector<Expected>& expected);
  void check_run(const Life& l, const pipeline::Outcome& out, const std::vector<Delivered>& told) const;
  void new_epoch(Life& l);
  void move(Life& l);
  void create(Life& l, std::uint32_t place);

  // Through both executions; checks what holds for every packet (packet_sequence_checks.cc).
  pipeline::Outcome pass(const Life& l, const jobs::Binding& from, const Bytes& datagram, bool vouched,
                         const Expected& expected);
  void expect_contribution(Life& l, const Bytes& datagram, const Offered& p, bool vouched);
  void expect_drop(Life& l, const jobs::Binding& from, const Bytes& datagram, bool vouched, Drop why);
  [[nodiscard]] std::optional<Expected> early(const Life& l, Chunk chunk) const;
  void check_counted(const Life& l, const pipeline::Outcome& out, const JobCounters& own,
                     const JobCounters& stray);
  void check_event(const Life& l, pipeline::EventKind expected, Rank sender);
  void check_no_event();
  void check_state();
  void check_result(const Life& l, const pipeline::Outcome& out, const Delivered& expected,
                    bool retransmit) const;
  void check_before(const Life& l, Chunk chunk, std::uint32_t before) const;
  void note(Life& l, const Delivered& result, bool first);

  FuzzInput in_;
  const kernels::Kernels& kernels_;
  SlotMemory memory_{kPlaces * kPlaceLines};
  pipeline::Pipeline<pipeline::Fused> fused_;
  pipeline::Pipeline<pipeline::Staged> staged_;
  std::array<Life, kJobs> lives_;
  std::array<bool, kPlaces> taken_{};
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>();
  std::vector<SentFrame> history_;
  std::vector<SentRun> runs_;
  std::uint32_t last_epoch_ = 0x7000;
  std::uint64_t packets_ = 0;
  TimeNs now_ = kSecond;
  std::vector<std::byte> left_;  // the buffer of the last packet that was not dropped
};

}  // namespace tally
