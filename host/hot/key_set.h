#pragma once
// The keys that are summed in the box, and the dense number of each: the row of the hot block it is. Immutable; the
// same at all ranks of a job, which is what the stamp of a sum shows. Any thread may read it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hot/sketch.h"
#include "tally/error.h"

namespace tally::hot {

class KeySet {
 public:
  KeySet() = default;  // number 0, no keys: with it each generation begins
  // keys: by dense number, each once.
  KeySet(std::uint32_t number, std::vector<Key> keys);

  // How many agreements of this generation made it.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::span<const Key> keys() const noexcept { return keys_; }
  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
  [[nodiscard]] std::optional<std::uint32_t> id_of(Key key) const noexcept;
  [[nodiscard]] bool has(Key key) const noexcept { return id_of(key).has_value(); }
  // Of number and keys in their order, 24 bits.
  [[nodiscard]] std::uint32_t digest() const noexcept { return digest_; }

 private:
  std::uint32_t number_ = 0;
  std::uint32_t digest_ = 0;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> places_;  // open addressing: 1 + number, 0 is free
};

// Words that each rank adds to a sum of int32 which rests on the set: the sums tell whether all meant the same.
using Stamp = std::array<std::int32_t, 3>;
[[nodiscard]] Stamp stamp_of(const KeySet& set) noexcept;
// sum: of the stamps of all ranks. The error has both numbers, and how many ranks use the other one.
[[nodiscard]] Result<void> check_stamp(const KeySet& own, const Stamp& sum, std::uint32_t world);

}  // namespace tally::hot
