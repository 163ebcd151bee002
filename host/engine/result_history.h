#pragma once
// The worker's own copy of results, as on the wire: what lies below `lowest` answers peers (at least the last
// span = 2 x largest window, as much as the switch itself may still be asked for), what lies above or just
// below gives exponents to the data chunks that wait for them. Memory is taken once per generation.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tally/wire.h"

namespace tally::engine {

class ResultHistory {
 public:
  // Forgets everything. `largest_window`: a power of two. false: the memory is not to be had, and the history
  // is empty.
  [[nodiscard]] bool start(std::uint32_t largest_window, std::uint32_t elements);

  // Where the values of a result go, the most that one may have. What lay there is forgotten: the result
  // 3 x largest window before it.
  [[nodiscard]] std::byte* room(std::uint64_t index) noexcept {
    const std::size_t at = position(index);
    kept_[at].tag = 0;
    return values_.get() + at * stride_;
  }
  // What lies in room(index), if it is as many as the header of a result with values says.
  [[nodiscard]] std::span<const std::byte> dense(std::uint64_t index, const Header& header) const noexcept {
    return {values_.get() + position(index) * stride_, values_bytes(header)};
  }
  // The values are in room(index). header: the result's; of its flags what is the sum's is kept.
  void keep(std::uint64_t index, const Header& header) noexcept;

  [[nodiscard]] const Header* find(std::uint64_t index) const noexcept {
    if (kept_.empty()) return nullptr;
    const Kept& kept = kept_[position(index)];
    return kept.tag == index + 1 ? &kept.header : nullptr;
  }
  // Only for an index that find() knows.
  [[nodiscard]] std::span<const std::byte> values(std::uint64_t index) const noexcept {
    const std::size_t at = position(index);
    return {values_.get() + at * stride_, values_bytes(kept_[at].header)};
  }

 private:
  struct Kept {
    std::uint64_t tag = 0;  // index + 1; 0: nothing kept here
    Header header;
  };

  // index % (3 x largest window), without a division by what the compiler does not know.
  [[nodiscard]] std::size_t position(std::uint64_t index) const noexcept {
    return ((index >> window_bits_) % 3 << window_bits_) | (index & ((std::uint64_t{1} << window_bits_) - 1));
  }

  std::vector<Kept> kept_;
  std::unique_ptr<std::byte[]> values_;  // NOLINT(modernize-avoid-c-arrays)
  std::size_t stride_ = 0;               // bytes per result
  int window_bits_ = 0;                  // log2 of the largest window
};

}  // namespace tally::engine
