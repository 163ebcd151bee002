#pragma once
// The arrays of a request: whether they agree, and which server gets what of them. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tally/kv_core.h"

namespace tally::kv {

// What is wrong with arrays, in words, and at which key; -1: at none.
struct Objection {
  std::string text;
  std::int64_t index = -1;
};

// keys: unique and ascending, at least one.
[[nodiscard]] std::optional<Objection> objection_to_keys(std::span<const Key> keys);
// lens: none, or one for each key, none negative. vals: how many they share out; nullopt: unknown. Without lens all keys
// have as many.
[[nodiscard]] std::optional<Objection> objection_to_lens(std::size_t keys, std::span<const int> lens,
                                                         std::optional<std::size_t> vals);

// All keys, in equal ranges, one for each server; the last one has kMaxKey, too.
[[nodiscard]] std::vector<Range> ranges_of(int servers);

// Arrays to which nobody objects, by range. vals: 0 for a pull.
[[nodiscard]] std::vector<Slice> slices_of(std::span<const Key> keys, std::span<const int> lens,
                                           std::size_t vals, std::span<const Range> ranges);

}  // namespace tally::kv
