#pragma once
// What tally-kv keeps: rows of floats by key, and what a push does to them. Each row has its length from the first push on.
// One thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tally/kv_merge.h"
#include "tally/kv_table.h"

namespace tally::kv {

// What a rule does to a row of `width` values. In one place, so that rows at servers and at workers come out alike.
void apply(Rule rule, float rate, float* row, const float* pushed, std::size_t width) noexcept;

struct RowsOptions {
  Rule rule = Rule::kSum;
  float rate = 0.01F;          // of kSgd
  std::size_t dimension = 1;   // of a row that is pulled, without lens to go by, before it was pushed: zeros
  std::size_t most_bytes = 0;  // of all rows and their table; 0: no bound
};

class Rows {
 public:
  explicit Rows(const RowsOptions& options);

  // lens empty: `each` values for each key. Throws a Failure, before anything is changed, with the index of the key; `first`
  // is that of keys[0].
  void push(std::span<const Key> keys, std::span<const int> lens, std::size_t each, const float* vals,
            std::size_t first);
  // Appends values and lengths.
  void pull(std::span<const Key> keys, std::vector<float>& vals, std::vector<int>& lens) const;

  // Rows that are elsewhere for a time. Who asks finds out by first_lent(): push and pull do not look.
  // Makes the rows that are not there, as zeros; throws as push.
  void lend(std::span<const Key> keys, std::size_t width);
  void take_back(Key key, const float* row);  // nullptr: as it was. Only of a row that is here or lent
  [[nodiscard]] std::optional<std::size_t> first_lent(std::span<const Key> keys) const noexcept;

  // What may change between two calls.
  void set_rule(Rule rule, float rate) noexcept;
  void set_bound(std::size_t most_bytes) noexcept { options_.most_bytes = most_bytes; }

  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Place {
    Key key = 0;
    float* row = nullptr;  // nullptr: free
    std::uint32_t length = 0;
    bool lent = false;
  };
  static constexpr std::size_t kPageFloats = std::size_t{1} << 16;
  static constexpr std::size_t kLongestPaged = kPageFloats / 4;

  [[nodiscard]] const Place* find(Key key) const noexcept;
  Place& put(Key key, std::size_t length);
  // Rows that are not there yet.
  struct Fresh {
    std::size_t rows = 0;
    std::size_t paged = 0, alone = 0;  // floats, of those in pages and of others
    void add(std::size_t length) noexcept;
  };
  void check_room(const Fresh& fresh, std::size_t first) const;
  [[nodiscard]] float* allocate(std::size_t length);
  void grow();
  [[nodiscard]] std::size_t slot_of(Key key) const noexcept;

  RowsOptions options_;
  std::vector<Place> table_;  // linear probing; a power of two, at most three quarters full
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<float[]>> pages_{};
  std::size_t page_left_ = 0;
  float* page_at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tally::kv
