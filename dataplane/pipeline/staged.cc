#include "pipeline/staged.h"

#include <algorithm>
#include <type_traits>

#include "tally/be.h"

namespace tally::pipeline {
namespace {

std::uint32_t load(const std::byte* at) noexcept { return wire_at<Be<std::uint32_t>>(at).host(); }
void store(std::byte* at, std::uint32_t value) noexcept { wire_put(at, Be{value}); }
void count(kernels::Sums& sums, std::uint32_t k, std::uint32_t value) noexcept {
  sums.sum1 += value;
  sums.sum2 += (k + 1) * value;
}

template <class... R>
void clear_words(RegisterArrays<RegisterList<R...>>& arrays, jobs::LineRange range) {
  const auto wipe = [&](auto& words) {
    std::fill_n(words.begin() + range.first, range.count,
                typename std::decay_t<decltype(words)>::value_type{});
  };
  (wipe(static_cast<RegisterArray<R>&>(arrays).words), ...);
}

}  // namespace

void Staged::clear(jobs::LineRange range) noexcept {
  clear_words(entries_, range);
  clear_words(ledgers_, {range.first * jobs::kLedgerRowsPerLine, range.count * jobs::kLedgerRowsPerLine});
  clear_words(paths_, {range.first * jobs::kPathsPerLine, range.count * jobs::kPathsPerLine});
  std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(range.first * kValuesPerLine),
              range.count * kValuesPerLine, 0);
}

kernels::Sums Staged::payload_sums(const Contribution& p) const noexcept {
  kernels::Sums sums;
  for (std::uint32_t k = 0; k < p.sum.shape.elements; ++k) count(sums, k, load(p.values + 4 * k));
  return sums;
}

// One value register after the other, each once per pass. `with_sums` is never asked of the reference: it
// checks payloads before the first register.
kernels::Added Staged::values(Op op, const Contribution& p, bool with_sums) noexcept {
  TALLY_CHECK(!with_sums, "the reference folds no check into the add");
  TALLY_CHECK(stage_ <= kFirstValueStage, "values before the packet's stage: a chip cannot go back");
  stage_ = kFirstValueStage;
  std::int32_t* const entry = values_.data() + (std::size_t{p.line} + 1) * kValuesPerLine;
  kernels::Added out;
  const std::uint32_t n = op == Op::kSwap ? p.swapped : p.sum.shape.elements;
  for (std::uint32_t k = 0; k < n; ++k) {
    TALLY_CHECK(value_pass_[k] != pass_, "a value register touched twice in one pass");
    value_pass_[k] = pass_;
    std::byte* const wire = p.values + 4 * k;
    std::int32_t& word = entry[k];
    const auto in = static_cast<std::int32_t>(load(wire));
    if (op == Op::kSwap) store(wire, static_cast<std::uint32_t>(word));
    if (op == Op::kWrite || op == Op::kSwap) word = in;
    if (op == Op::kAdd || op == Op::kAddEmit) out.overflow |= __builtin_add_overflow(word, in, &word);
    if (op == Op::kAddEmit || op == Op::kRead) store(wire, static_cast<std::uint32_t>(word));
    if (op == Op::kAddEmit) count(out.sums, k, static_cast<std::uint32_t>(word));
  }
  return out;
}

}  // namespace tally::pipeline
