#include "kv/sameness.h"

namespace tally::kv {
namespace {

constexpr int kPieces = 5;
constexpr int kPieceBits = 12;  // squares of 4,096 workers stay below 2^36, so they are taken modulo 2^32
static_assert(kQuestionWords == 2 * kPieces);

}  // namespace

std::vector<std::int32_t> question_of(std::uint64_t name) {
  std::vector<std::int32_t> words;
  for (int i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<std::int32_t>((name >> (kPieceBits * i)) & ((1U << kPieceBits) - 1));
    words.push_back(piece);
    words.push_back(piece * piece);
  }
  return words;
}

// By Cauchy and Schwarz, workers times the sum of squares is the square of the sum if and only if all are equal. The sum of
// squares arrives modulo 2^32: it is below 2^32 up to 256 workers, and beyond it two that differ by a multiple of 2^32 would
// have to be met.
bool all_equal(std::span<const std::int32_t> sums, int workers) {
  for (std::size_t i = 0; i + 1 < sums.size(); i += 2) {
    const auto sum = static_cast<std::uint64_t>(static_cast<std::uint32_t>(sums[i]));
    const auto squares = static_cast<std::uint64_t>(static_cast<std::uint32_t>(sums[i + 1]));
    const auto count = static_cast<std::uint64_t>(workers);
    if (static_cast<std::uint32_t>(count * squares) != static_cast<std::uint32_t>(sum * sum)) return false;
    if (workers <= 256 && count * squares != sum * sum) return false;
  }
  return true;
}

}  // namespace tally::kv
