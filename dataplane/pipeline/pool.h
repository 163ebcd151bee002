#pragma once
// The `pool` discipline (SwitchML, NSDI'21, with protocol_box.md's order rules): every job owns W slots in
// two versions, so a conflict between jobs cannot happen. A discipline is this file: where a chunk's entry
// lies, how far a chunk may be from `high`, and `decide`.

#include <cstdint>
#include <vector>

#include "jobs/job_table.h"
#include "pipeline/decision.h"
#include "pipeline/registers.h"

namespace tally::pipeline {

struct Pool {
  static constexpr bool kWhole =
      true;  // whose bits are all there is finished, and needs no entry if that is one

  static SlotIndex slot_of(Chunk chunk, const jobs::NativeJob& job) noexcept {
    return SlotIndex{raw(chunk) & (job.window - 1)};
  }

  // entry = slot + W * ((chunk / W) mod 2), where this core holds every shards-th slot.
  static std::uint32_t line_of(Chunk chunk, const jobs::NativeJob& job) noexcept {
    const std::uint32_t place = raw(chunk) & (2 * job.window - 1);
    const std::uint32_t lines = jobs::entry_lines(job.elements);
    if (job.shards == 1) [[likely]]
      return job.slots.first + place * lines;
    const std::uint32_t version = place / job.window;
    const std::uint32_t per_version = jobs::pool_entries(job.window, job.shards) / 2;
    return job.slots.first + (place % job.window / job.shards + version * per_version) * lines;
  }

  // One read-modify-write of `high`. A contribution of c proves that everyone holds all up to c - 2W, so what
  // is a span behind can only be a replay, and what is a span ahead comes from no worker of this generation.
  // kOneHasEntries: also of a job of one member.
  template <bool kOneHasEntries = false>
  static Decision order(High& high, const Contribution& p, const jobs::NativeJob& job) noexcept {
    if (high.epoch == raw(p.epoch)) {
      const std::int32_t d = serial_difference(p.chunk, Chunk{high.chunk});
      const auto span = static_cast<std::int32_t>(job.span);
      if (d <= -span) return {.drop = Drop::kStale};
      if (d >= span) return {.drop = Drop::kAhead};
      if (d <= 0) return {.op = Op::kRead};
    }
    if (p.direct || (!kOneHasEntries && job.world == 1))
      return {.op = Op::kRead};  // never absorbed: `high` does not move
    high = {raw(p.epoch), raw(p.chunk)};
    return {.op = Op::kWrite};
  }

  static Decision decide(Head& head, const Contribution& p, const jobs::NativeJob& job) noexcept {
    const bool this_epoch = head.tag == raw(p.epoch);
    const bool filling = head.tag != 0 && head.contributors != job.members;
    if (this_epoch && head.chunk == raw(p.chunk)) {
      if ((head.contributors & p.bit) != 0) {
        if (filling) return {.drop = Drop::kDuplicate, .entry_is_ours = true};
        return {.op = Op::kRead, .entry_is_ours = true};
      }
      head.contributors |= p.bit;
      if (head.contributors == job.members)
        return {.op = Op::kAddEmit, .entry_is_ours = true, .occupancy = -1};
      return {.op = Op::kAdd, .entry_is_ours = true};
    }
    // Filling or complete, before any claim: an older chunk never destroys a newer one.
    if (this_epoch && serial_difference(Chunk{head.chunk}, p.chunk) > 0) return {.drop = Drop::kStale};
    head = {raw(p.epoch), raw(p.chunk), p.bit};
    return {.op = Op::kWrite, .occupancy = static_cast<std::int8_t>(filling ? 0 : 1)};
  }
};

// Which entry of the jobs with stragglers the age sweep looks at next: one job's entries after the other's,
// all of them in turn. Jobs without stragglers are not in its list. Owner: the core.

class LateSweep {
 public:
  LateSweep() { jobs_.reserve(kMaxJobs); }

  // Between bursts; `table` as for Pipeline::adopt.
  void adopt(const jobs::JobTable* table) {
    jobs_.clear();
    forget();
    for (std::uint32_t id = 1; table != nullptr && id <= kMaxJobs; ++id) {
      const jobs::NativeJob* const job = table->find(JobId{static_cast<std::uint16_t>(id)});
      if (job != nullptr && job->stragglers.timeout != 0 && job->slots.count != 0) jobs_.push_back(job);
    }
    at_ = offset_ = 0;  // where it was may be behind the end of what is another job's now
  }
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }

  // Only when not empty.
  [[nodiscard]] const jobs::NativeJob& job() const noexcept { return *jobs_[at_]; }
  [[nodiscard]] std::uint32_t line() const noexcept { return job().slots.first + offset_; }
  // The entry behind it; false: the next is another round's, or another job's.
  bool step() noexcept {
    const std::uint32_t lines = jobs::entry_lines(job().elements);
    offset_ += lines;
    if (offset_ + lines <= job().slots.count) return true;
    skip();
    return false;
  }
  void skip() noexcept {
    offset_ = 0;
    if (++at_ >= jobs_.size()) at_ = 0;
  }

  // An entry was found: it stays where the sweep is until it is finished or forgotten.
  void find() noexcept { found_ = true; }
  void forget() noexcept { found_ = false; }
  [[nodiscard]] bool found() const noexcept { return found_; }

 private:
  std::vector<const jobs::NativeJob*> jobs_;
  std::size_t at_ = 0;
  std::uint32_t offset_ = 0;  // lines behind the job's first
  bool found_ = false;
};

}  // namespace tally::pipeline
