#pragma once
// The staged execution: the reference. One array per register, the chip's rules asserted on every access, no
// SIMD. Element k of the entry at line L is word k of its value register; it is stored where the fused
// execution would, so both can be compared bit by bit.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "pipeline/decision.h"
#include "pipeline/registers.h"
#include "tally/be.h"
#include "tally/check.h"
#include "tally/wire.h"

namespace tally::pipeline {

template <class R>
struct RegisterArray {
  std::vector<typename R::Word> words;
  std::uint64_t last_pass = 0;
};
template <class List>
struct RegisterArrays;
template <class... R>
struct RegisterArrays<RegisterList<R...>> : RegisterArray<R>... {
  explicit RegisterArrays(std::size_t size) : RegisterArray<R>{std::vector<typename R::Word>(size)}... {}
};

class Staged {
 public:
  // Takes only the size of the region: registers live in arrays of their own. Kernels are not used.
  Staged(jobs::Region region, const kernels::Kernels&)
      : entries_(region.size()),
        ledgers_(region.size() * jobs::kLedgerRowsPerLine),
        paths_(region.size() * jobs::kPathsPerLine),
        rows_(kMaxJobs + 1),
        ranks_((kMaxJobs + 1) * kMaxRanks),
        above_((kMaxJobs + 1) * kMaxShards),
        values_(region.size() * kValuesPerLine),
        value_pass_(kMaxElements),
        unpacked_(4 * kMaxElements) {}

  // A new packet enters the pipe.
  void begin() noexcept {
    ++pass_;
    stage_ = 0;
  }

  template <class R, class F>
  auto rmw(std::size_t index, F f) noexcept {
    auto& array = array_of<R>();
    TALLY_CHECK(R::kStage >= stage_, "a register array before the packet's stage: a chip cannot go back");
    TALLY_CHECK(array.last_pass != pass_, "a register array touched twice in one pass");
    stage_ = R::kStage;
    array.last_pass = pass_;
    return f(array.words[index]);
  }
  // Going back costs a chip one more trip through the pipe.
  void again() noexcept {
    ++recirculations_;
    begin();
  }
  template <class R>
  void undo(std::size_t index, typename R::Word to) noexcept {
    again();
    rmw<R>(index, [&](typename R::Word& word) {
      word = to;
      return 0;
    });
  }
  // Control's accesses, outside any packet.
  template <class R>
  [[nodiscard]] typename R::Word peek(std::size_t index) noexcept {
    return array_of<R>().words[index];
  }
  [[nodiscard]] Head head(std::uint32_t line) noexcept { return peek<HeadReg>(line); }
  void clear(jobs::LineRange range) noexcept;

  template <class Discipline>
  bool is_plain_add(const Contribution&, const jobs::NativeJob&) const noexcept {
    return false;  // the reference checks first, always
  }

  kernels::Sums payload_sums(const Contribution& p) const noexcept;
  kernels::Added values(Op op, const Contribution& p, bool with_sums) noexcept;
  void prefetch_rank(std::uint32_t) const noexcept {}
  void prefetch_row(std::uint32_t) const noexcept {}
  void prefetch(std::uint32_t) const noexcept {}
  void look_ahead(const std::byte*, std::uint32_t) const noexcept {}

  [[nodiscard]] std::uint64_t recirculations() const noexcept { return recirculations_; }

 private:
  static constexpr std::size_t kValuesPerLine = 16;

  template <class R>
  RegisterArray<R>& array_of() noexcept {
    if constexpr (R::kIndex == IndexedBy::kJob) {
      return rows_;
    } else if constexpr (R::kIndex == IndexedBy::kRank) {
      return ranks_;
    } else if constexpr (R::kIndex == IndexedBy::kShardAbove) {
      return above_;
    } else if constexpr (R::kIndex == IndexedBy::kPath) {
      return paths_;
    } else if constexpr (R::kIndex == IndexedBy::kLedgerRow) {
      return ledgers_;
    } else {
      return entries_;
    }
  }
  // The packet's values where none are left out, else a copy that has them all.
  const std::byte* all_values(const Contribution& p) const;

  RegisterArrays<EntryRegisters> entries_;
  RegisterArrays<LedgerRegisters> ledgers_;
  RegisterArrays<PathRegisters> paths_;
  RegisterArrays<JobRegisters> rows_;
  RegisterArrays<RankRegisters> ranks_;
  RegisterArrays<ShardAboveRegisters> above_;
  std::vector<std::int32_t> values_;
  std::vector<std::uint64_t> value_pass_;
  mutable std::vector<std::byte> unpacked_;
  std::uint64_t pass_ = 0;
  std::uint64_t recirculations_ = 0;
  int stage_ = 0;
};

}  // namespace tally::pipeline
