#pragma once
// What the simulator holds against the shared region of one data core after every event: invariants 4 and 6
// of docs/hazards.md, and that free list, ledger and entries tell the same story. It keeps a copy of the
// entries and judges what changed by the packet that came in.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "jobs/job_table.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"

namespace tally::sim {

using AnyPipeline = std::variant<pipeline::Pipeline<pipeline::Fused>, pipeline::Pipeline<pipeline::Staged>>;

// A contribution that reached the registers, and what became of it. Valid while its table is.
struct Arrival {
  const jobs::NativeJob* job = nullptr;
  pipeline::Contribution contribution;
  Drop drop{};
  bool dropped = false;
};

class SharedWatch {
 public:
  using Alarm = std::function<void(const std::string&)>;

  SharedWatch() = default;
  explicit SharedWatch(const jobs::SharedRegion& region) : region_(region), entries_(region.entries) {}

  // arrival: the event was this contribution; else a publication, a sweep or another packet, and no entry may
  // be claimed. table: that was in force.
  void look(AnyPipeline& pipeline, const jobs::JobTable& table, const std::optional<Arrival>& arrival,
            const Alarm& alarm);
  // Filling entries of the region, as of the last look.
  [[nodiscard]] std::uint32_t filling(JobId job) const;
  [[nodiscard]] std::uint32_t filling() const noexcept { return filling_; }

 private:
  struct Entry {
    pipeline::Head head;
    pipeline::Owner owner;      // when it was claimed or swapped in
    std::uint64_t members = 0;  // of the owner then
    bool decays = false;        // its priority may be lowered
    [[nodiscard]] bool filling() const noexcept { return head.tag != 0 && head.contributors != members; }
  };

  template <class P>
  void look_at(P& pipeline, const jobs::JobTable& table, const std::optional<Arrival>& arrival,
               const Alarm& alarm);
  template <class P>
  void compare(P& pipeline, std::uint32_t entry, const jobs::JobTable& table,
               const std::optional<Arrival>& arrival, const Alarm& alarm);
  template <class P>
  void compare_ledger(P& pipeline, std::uint32_t entry, const jobs::JobTable& table, const Alarm& alarm);
  void judge_claim(std::uint32_t entry, const std::optional<Arrival>& arrival, const Alarm& alarm);
  void judge_swap(const Entry& before, const Entry& after, const Arrival& arrival,
                  const jobs::JobTable& table, const Alarm& alarm);
  void remember(const Arrival& arrival);
  [[nodiscard]] static std::uint64_t key(const Arrival& arrival) noexcept {
    return std::uint64_t{raw(arrival.job->epoch)} << 32 | raw(arrival.contribution.chunk);
  }

  jobs::SharedRegion region_;
  std::vector<Entry> entries_;
  std::map<std::uint16_t, std::uint32_t> of_job_;     // filling entries
  std::map<std::uint16_t, std::uint32_t> occupancy_;  // as of the last look
  std::uint32_t filling_ = 0;
  // Discipline shared, by epoch and chunk: what came, and what took an entry within its class.
  std::unordered_set<std::uint64_t> came_;
  std::unordered_set<std::uint64_t> swapped_;
};

}  // namespace tally::sim
