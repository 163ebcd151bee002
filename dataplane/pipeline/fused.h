#pragma once
// The fused execution: the product. One cache-friendly entry per slot, the program inlined around one kernel
// call per packet. Measured against hand-written code by bench/pipeline_bench.cc.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "pipeline/decision.h"
#include "pipeline/registers.h"
#include "tally/rows.h"

namespace tally::pipeline {

template <class R>
struct Cell {
  typename R::Word word{};
};
template <class List>
struct Cells;
template <class... R>
struct Cells<RegisterList<R...>> : Cell<R>... {};

class Fused {
 public:
  // region: zeroed, outlives this object. kernels: of this CPU.
  Fused(jobs::Region region, const kernels::Kernels& kernels)
      : lines_(region.data()),
        kernels_(&kernels),
        rows_(std::make_unique<Cells<JobRegisters>[]>(kMaxJobs + 1)),
        ranks_(std::make_unique<RankLine[]>((kMaxJobs + 1) * kMaxRanks / kRanksPerLine)),
        above_(std::make_unique<Cells<ShardAboveRegisters>[]>((kMaxJobs + 1) * kMaxShards)) {}

  template <class R, class F>
  auto rmw(std::size_t index, F f) noexcept {
    return f(cell<R>(index).word);
  }
  template <class R>
  void undo(std::size_t index, typename R::Word to) noexcept {
    cell<R>(index).word = to;
  }

  // The packet goes through the pipe once more: costs a chip something, and us nothing.
  void again() noexcept {}

  // Control's accesses, outside any packet. Clearing wipes values too: the next job's entries may have
  // another size, so that its register lines fall on what were values.
  template <class R>
  [[nodiscard]] typename R::Word peek(std::size_t index) noexcept {
    return cell<R>(index).word;
  }
  [[nodiscard]] Head head(std::uint32_t line) noexcept { return peek<HeadReg>(line); }
  void clear(jobs::LineRange range) noexcept {
    std::memset(lines_ + range.first, 0, std::size_t{range.count} * sizeof(jobs::Line));
  }

  // Would p, if nothing is wrong with it, be added to a filling entry that it does not finish?
  template <class Discipline>
  bool is_plain_add(const Contribution& p, const jobs::NativeJob& job) noexcept {
    Head copy = cell<HeadReg>(p.line).word;
    return job.world > 1 && Discipline::decide(copy, p, job).op == Op::kAdd;
  }

  kernels::Sums payload_sums(const Contribution& p) const noexcept {
    if (p.form != Form::kWords) [[unlikely]]
      return other_sums(p);
    return kernels_->sums(p.values, p.sum.shape.elements);
  }

  // What a packet brings is added as its form says; kRead and kSwap move words, whatever they mean.
  [[gnu::always_inline]] kernels::Added values(Op op, const Contribution& p, bool with_sums) noexcept {
    std::int32_t* const entry = values_of(p.line);
    const std::uint32_t n = p.sum.shape.elements;
    const bool words = p.form == Form::kWords;
    switch (op) {
      case Op::kAdd:
        if (!words) [[unlikely]]
          break;
        if (with_sums) return kernels_->fetching.add_sums(entry, p.values, n, ahead_);
        return {.overflow = kernels_->fetching.add(entry, p.values, n, ahead_)};
      case Op::kAddEmit:
        if (!words) [[unlikely]]
          break;
        return kernels_->fetching.add_emit(entry, p.values, n, ahead_);
      case Op::kWrite:
        if (!words) [[unlikely]]
          break;
        kernels_->fetching.write(entry, p.values, n, ahead_);
        return {};
      case Op::kRead:
        if (!jobs::is_zero(p.sum)) kernels_->read(entry, p.values, jobs::words_of(p.sum.shape));
        return {};
      case Op::kSubtract:
        if (!words) break;
        kernels_->subtract(entry, p.values, n);
        return {};
      case Op::kSwap:
        kernels_->swap(entry, p.values, p.swapped);
        return {};
      case Op::kNone:
        return {};
    }
    return other_values(op, p, with_sums);
  }

  void prefetch_rank(std::uint32_t number) const noexcept {
    __builtin_prefetch(&ranks_[number / kRanksPerLine], 1);
  }
  void prefetch_row(std::uint32_t row) const noexcept {
    __builtin_prefetch(lines_ + row / jobs::kLedgerRowsPerLine, 1);
  }
  // Registers and, for packets that are the first of a burst, some values.
  void prefetch(std::uint32_t line) const noexcept {
    __builtin_prefetch(lines_ + line, 1);
    __builtin_prefetch(lines_ + line + 1, 1);
  }
  // What the kernels fetch as they go, from now on: values, of which the first line is here with the packet's
  // header, and those of the entry at `line`. A packet without values has null: then any address of ours
  // does.
  void look_ahead(const std::byte* values, std::uint32_t line) noexcept {
    const std::byte* const from = values != nullptr ? values : reinterpret_cast<const std::byte*>(lines_);
    ahead_ = {from + sizeof(jobs::Line), values_of(line)};
  }

 private:
  [[gnu::noinline]] kernels::Sums other_sums(const Contribution& p) const noexcept {
    if (p.form == Form::kZero) return {};
    if (p.form == Form::kHalves) return kernels_->halves.sums(p.values, p.sum.shape.elements);
    const PackedRows rows(p);
    return rows_of_form(p).sums(rows.some());
  }

  // Values of 16 bits, some rows, or none. Out of the way of the others.
  [[gnu::noinline]] kernels::Added other_values(Op op, const Contribution& p, bool with_sums) noexcept {
    std::int32_t* const entry = values_of(p.line);
    const std::uint32_t n = p.sum.shape.elements;
    const std::uint32_t words = jobs::words_of(p.sum.shape);
    const bool zero = p.form == Form::kZero;
    if (p.form == Form::kRows) return some_rows(op, p, with_sums);
    switch (op) {
      case Op::kAdd:
        if (zero) break;
        if (with_sums) return kernels_->halves.add_sums(entry, p.values, n, ahead_);
        return {.overflow = kernels_->halves.add(entry, p.values, n, ahead_)};
      case Op::kAddEmit:
        if (!zero) return kernels_->halves.add_emit(entry, p.values, n, ahead_);
        if (jobs::is_zero(p.sum)) break;
        return {.sums = emit(p)};
      case Op::kWrite:
        if (zero) {
          std::memset(entry, 0, std::size_t{4} * words);
        } else {
          kernels_->fetching.write(entry, p.values, words, ahead_);
        }
        break;
      case Op::kSubtract:
        if (!zero) kernels_->halves.subtract(entry, p.values, n);
        break;
      case Op::kRead:
      case Op::kSwap:
      case Op::kNone:
        break;
    }
    return {};
  }

  [[nodiscard]] const kernels::RowsKernels& rows_of_form(const Contribution& p) const noexcept {
    return values_per_word(p.sum.shape.dtype) == 2 ? kernels_->half_rows : kernels_->rows;
  }
  // Where the rows of a packet lie, as the kernels are told.
  struct PackedRows {
    explicit PackedRows(const Contribution& p) noexcept
        : values(p.values),
          rows(rows_of(p.sum.shape.elements, p.sum.shape.dtype)),
          bits(bitmap_of(p.values, rows, p.packed)) {}
    [[nodiscard]] kernels::SomeRows some() const noexcept { return {values, bits.words.data(), rows}; }

    const std::byte* values;
    std::uint32_t rows;
    RowBitmap bits;
  };
  kernels::Added some_rows(Op op, const Contribution& p, bool with_sums) noexcept {
    std::int32_t* const entry = values_of(p.line);
    const kernels::RowsKernels& kernels = rows_of_form(p);
    const PackedRows rows(p);
    switch (op) {
      case Op::kAdd:
        if (with_sums) return kernels.add_sums(entry, rows.some());
        return {.overflow = kernels.add(entry, rows.some())};
      case Op::kAddEmit: {
        const bool overflow = kernels.add(entry, rows.some());
        return {.sums = emit(p), .overflow = overflow};
      }
      case Op::kWrite:
        kernels.write(entry, rows.some());
        break;
      case Op::kSubtract:
        kernels.subtract(entry, rows.some());
        break;
      case Op::kRead:
      case Op::kSwap:
      case Op::kNone:
        break;
    }
    return {};
  }
  // The entry's values to the packet, and their sums.
  kernels::Sums emit(const Contribution& p) noexcept {
    const std::uint32_t n = p.sum.shape.elements;
    kernels_->read(values_of(p.line), p.values, jobs::words_of(p.sum.shape));
    return values_per_word(p.sum.shape.dtype) == 2 ? kernels_->halves.sums(p.values, n)
                                                   : kernels_->sums(p.values, n);
  }

  struct alignas(64) Registers : Cells<EntryRegisters> {};
  static_assert(sizeof(Registers) == sizeof(jobs::Line));
  static constexpr std::size_t kRanksPerLine = 4;
  struct alignas(64) RankLine {
    std::array<Cells<RankRegisters>, kRanksPerLine> ranks;
  };
  static_assert(sizeof(RankLine) == sizeof(jobs::Line));
  static_assert(sizeof(Cell<LedgerReg>) * jobs::kLedgerRowsPerLine == sizeof(jobs::Line));
  static_assert(sizeof(Cell<PathReg>) * jobs::kPathsPerLine == sizeof(jobs::Line));

  template <class R>
  Cell<R>& cell(std::size_t index) noexcept {
    if constexpr (R::kIndex == IndexedBy::kJob) {
      return rows_[index];
    } else if constexpr (R::kIndex == IndexedBy::kRank) {
      return ranks_[index / kRanksPerLine].ranks[index % kRanksPerLine];
    } else if constexpr (R::kIndex == IndexedBy::kShardAbove) {
      return above_[index];
    } else if constexpr (R::kIndex == IndexedBy::kLedgerRow || R::kIndex == IndexedBy::kPath) {
      return reinterpret_cast<Cell<R>*>(lines_)[index];
    } else {
      return *std::launder(reinterpret_cast<Registers*>(lines_ + index));
    }
  }
  std::int32_t* values_of(std::uint32_t line) noexcept {
    return reinterpret_cast<std::int32_t*>(lines_ + line + 1);
  }

  jobs::Line* lines_;
  const kernels::Kernels* kernels_;
  std::unique_ptr<Cells<JobRegisters>[]> rows_;
  std::unique_ptr<RankLine[]> ranks_;
  std::unique_ptr<Cells<ShardAboveRegisters>[]> above_;
  kernels::Ahead ahead_;
};

}  // namespace tally::pipeline
