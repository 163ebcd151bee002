#pragma once
// The `pool` discipline (SwitchML, NSDI'21, with protocol_box.md's order rules): every job owns W slots in
// two versions, so a conflict between jobs cannot happen. A discipline is this file: where a chunk's entry
// lies, how far a chunk may be from `high`, and `decide`.

#include <cstdint>

#include "decision.h"
#include "job_table.h"
#include "registers.h"

namespace tally {

struct Pool {
  static SlotIndex slot_of(Chunk chunk, const Job& job) noexcept {
    return SlotIndex{raw(chunk) & (job.window - 1)};
  }

  // entry = slot + W * ((chunk / W) mod 2), where this core holds every shards-th slot.
  static std::uint32_t line_of(Chunk chunk, const Job& job) noexcept {
    const std::uint32_t slot = raw(chunk) & (job.window - 1);
    const std::uint32_t version = (raw(chunk) & job.window) != 0 ? 1 : 0;
    const std::uint32_t local = job.shards == 1 ? slot : slot / job.shards;
    const std::uint32_t per_version = pool_entries(job.window, job.shards) / 2;
    return job.slots.first + (local + version * per_version) * entry_lines(job.elements);
  }

  // One read-modify-write of `high`. A contribution of c proves that everyone holds all up to c - 2W, so what
  // is a span behind can only be a replay, and what is a span ahead comes from no worker of this generation.
  static Decision order(High& high, const Contribution& p, const Job& job) noexcept {
    if (high.epoch == raw(p.epoch)) {
      const std::int32_t d = serial_difference(p.chunk, Chunk{high.chunk});
      const auto span = static_cast<std::int32_t>(job.span);
      if (d <= -span) return {.drop = Drop::kStale};
      if (d >= span) return {.drop = Drop::kAhead};
      if (d <= 0) return {.op = Op::kRead};
    }
    if (p.direct || job.world == 1) return {.op = Op::kRead};  // never absorbed: `high` does not move
    high = {raw(p.epoch), raw(p.chunk)};
    return {.op = Op::kWrite};
  }

  static Decision decide(Head& head, const Contribution& p, const Job& job) noexcept {
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

}  // namespace tally
