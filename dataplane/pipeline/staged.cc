#include "pipeline/staged.h"

#include <algorithm>
#include <type_traits>

#include "tally/be.h"
#include "tally/rows.h"

namespace tally::pipeline {
namespace {

std::uint32_t load(const std::byte* at) noexcept { return wire_at<Be<std::uint32_t>>(at).host(); }
void store(std::byte* at, std::uint32_t value) noexcept { wire_put(at, Be{value}); }

// A word as its values, sign-extended: one, or two of which the upper half is the first.
void count(kernels::Sums& sums, std::uint32_t k, std::uint32_t word, bool halves) noexcept {
  const auto take = [&sums](std::uint32_t i, std::uint32_t value) {
    sums.sum1 += value;
    sums.sum2 += (i + 1) * value;
  };
  const auto extended = [](std::uint32_t half) {
    return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(half)});
  };
  if (!halves) return take(k, word);
  take(2 * k, extended(word >> 16));
  take(2 * k + 1, extended(word));
}

// Each half for itself: no carry between them.
bool add(std::int32_t& word, std::uint32_t in, bool halves) noexcept {
  if (!halves) return __builtin_add_overflow(word, static_cast<std::int32_t>(in), &word);
  const auto old = static_cast<std::uint32_t>(word);
  std::uint16_t upper = 0;
  std::uint16_t lower = 0;
  const auto add_half = [](std::uint32_t a, std::uint32_t b, std::uint16_t& sum) {
    std::int16_t wrapped = 0;
    const bool out =
        __builtin_add_overflow(static_cast<std::int16_t>(a), static_cast<std::int16_t>(b), &wrapped);
    sum = static_cast<std::uint16_t>(wrapped);
    return out;
  };
  const bool first = add_half(old >> 16, in >> 16, upper);
  const bool second = add_half(old, in, lower);
  word = static_cast<std::int32_t>(std::uint32_t{upper} << 16 | lower);
  return first || second;
}

// A loop for each of the two forms, so that it does not ask at each word.
template <class Loop>
void with_form(const Contribution& p, Loop loop) noexcept {
  values_per_word(p.sum.shape.dtype) == 2 ? loop(std::true_type{}) : loop(std::false_type{});
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

const std::byte* Staged::all_values(const Contribution& p) const {
  if (p.form != Form::kRows) return p.values;
  unpack_rows(p.values, unpacked_.data(), rows_of(p.sum.shape.elements, p.sum.shape.dtype), p.packed);
  return unpacked_.data();
}

kernels::Sums Staged::payload_sums(const Contribution& p) const noexcept {
  kernels::Sums sums;
  const std::byte* const from = all_values(p);
  const std::uint32_t words = p.form == Form::kZero ? 0 : jobs::words_of(p.sum.shape);
  with_form(p, [&](auto halves) {
    for (std::uint32_t k = 0; k < words; ++k) count(sums, k, load(from + 4 * k), halves);
  });
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
  // The marks were here before the values: what is all zero is neither read nor sent.
  const std::uint32_t n = op == Op::kSwap                         ? p.swapped
                          : op == Op::kRead || op == Op::kAddEmit ? jobs::carried_words(p.sum)
                                                                  : jobs::words_of(p.sum.shape);
  const bool zero = p.form == Form::kZero && op != Op::kRead && op != Op::kSwap;
  const std::byte* const from = op == Op::kRead ? p.values : all_values(p);
  with_form(p, [&](auto halves) {
    for (std::uint32_t k = 0; k < n; ++k) {
      TALLY_CHECK(value_pass_[k] != pass_, "a value register touched twice in one pass");
      value_pass_[k] = pass_;
      std::byte* const wire = p.values + 4 * k;
      std::int32_t& word = entry[k];
      const std::uint32_t in = zero ? 0 : load(from + 4 * k);
      if (op == Op::kSwap) store(wire, static_cast<std::uint32_t>(word));
      if (op == Op::kWrite || op == Op::kSwap) word = static_cast<std::int32_t>(in);
      if (op == Op::kAdd || op == Op::kAddEmit) out.overflow |= add(word, in, halves) ? 1U : 0U;
      if (op == Op::kAddEmit || op == Op::kRead) store(wire, static_cast<std::uint32_t>(word));
      if (op == Op::kAddEmit) count(out.sums, k, static_cast<std::uint32_t>(word), halves);
    }
  });
  return out;
}

}  // namespace tally::pipeline
