#pragma once
// Three jobs in one small shared region, on both executions, with the embedded server or with two external
// ones (shared_scene_server.cc), and what must hold whatever is sent: a delivered sum is the sum of what the
// ranks sent for the chunk, each exactly once.

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

namespace tally {

inline constexpr std::uint16_t kSharedJobs = 3;
inline constexpr std::uint32_t kSharedWindow = 16;
inline constexpr std::uint32_t kSharedElements = 32;  // of an entry; a job's may be half of it
inline constexpr std::uint32_t kLedgerPlace = 16;     // lines

struct SharedLife {
  jobs::NativeJob row;
  bool present = false;
  Chunk front{};
  bool rogue = false;    // some rank sent another total or dtype: a chunk may be refused for ever
  bool corrupt = false;  // some rank's values were flipped on the way
  std::set<std::pair<std::uint32_t, std::uint32_t>> finished;  // (epoch, chunk)
};

class SharedScene {
 public:
  explicit SharedScene(FuzzInput& in);

  // What a job is, and when.
  void join(std::uint16_t index, std::uint8_t how);  // another generation, after leave()
  void leave(SharedLife& l);
  void new_epoch(SharedLife& l);
  void pass_time(TimeNs by) { now_ += by; }

  // The contribution of a rank to a chunk, the same whenever it is sent in the generation.
  [[nodiscard]] ContributionSpec contribution(const SharedLife& l, Rank rank, Chunk chunk) const;
  // From the rank, through both executions; what comes out was checked.
  pipeline::Outcome send(SharedLife& l, Rank rank, const Bytes& datagram, bool vouched);
  // One entry or none; false: none was found.
  bool sweep();
  void check_state();
  // Every chunk that is not over completes when its ranks send again often enough.
  void expect_progress(SharedLife& l);

  [[nodiscard]] SharedLife& life(std::uint32_t index) { return lives_[index]; }

 private:
  static jobs::SharedRegion region_of(std::uint32_t entries);
  void publish(const std::shared_ptr<const jobs::JobTable>& next);
  void release_ledger(const SharedLife& l);
  pipeline::Outcome pass(const jobs::NativeJob& row, const jobs::Binding& from, const Bytes& datagram,
                         bool vouched);
  // What leaves for an external server is merged there, and what the server says comes back at once.
  void depart(const pipeline::Outcome& out);
  void asked(const jobs::NativeJob& row, const Header& h);
  void give(const jobs::NativeJob& row, const server::Partial& p, std::uint64_t ranks, bool complete);
  void say(const jobs::NativeJob& row, const Bytes& datagram);
  void check_result(const pipeline::Outcome& out);
  void check_entry(std::uint32_t entry);

  const kernels::Kernels& kernels_;
  jobs::SharedRegion region_;
  std::uint32_t server_states_;
  SlotMemory memory_;
  SlotMemory server_;
  SlotMemory reference_server_;
  pipeline::Pipeline<pipeline::Fused> fused_;
  pipeline::Pipeline<pipeline::Staged> staged_;
  SlotMemory external_memory_{256 * jobs::entry_lines(kSharedElements)};
  server::MergeTable external_{external_memory_.region(), kSharedElements, kernels_, server::Share::kNone};
  std::array<SharedLife, kSharedJobs> lives_;
  // Of which chunk expect_progress() waits for a RESULT, and who got it.
  JobId awaited_job_{};
  Chunk awaited_{};
  std::uint64_t received_ = 0;
  std::array<std::uint32_t, kSharedJobs + 1> filling_{};  // check_state's count
  std::map<std::uint32_t, std::uint64_t> members_;        // of every epoch there ever was
  std::shared_ptr<jobs::SharedCaps> caps_ = std::make_shared<jobs::SharedCaps>();
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>(caps_);
  std::uint32_t last_epoch_ = 0x7000;
  TimeNs now_ = kSecond;
};

}  // namespace tally
