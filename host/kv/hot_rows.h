#pragma once
// The hot rows of a table at one worker: its replica of each, the words and sums of a round that go through the box, and
// what comes and leaves when another set comes into force. Who may use which set when is HotSet's (hot/hot_set.h). All
// workers have the same sums, which are exact, so their replicas are the same to the bit. Pure; one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hot/hot_set.h"
#include "tally/kv_table.h"
#include "tally/sparse.h"

namespace tally::kv {

// Two sums of one round, issued one behind the other: words that say what the rows mean, and hot rows.
struct HotSums {
  std::vector<std::int32_t> words{};  // summed in place
  TableShape table{};                 // without rows: there is no second sum
  std::vector<std::uint32_t> ids{};
  std::vector<float> values{};
  SparseSums<float> sums{};
};

// How many keys of such a table may be hot at a time. Hot keys of an asynchronous table bind its workers to one another
// (docs/kv.md, Rounds that are called), so they are asked for by name.
[[nodiscard]] std::size_t most_hot_of(const TableOptions& options) noexcept;

// The way to the box.
class HotPath {
 public:
  virtual ~HotPath() = default;
  // done: when both are over, with the first failure; once, on a thread that must not wait.
  virtual void sum_hot(std::shared_ptr<HotSums> what, std::function<void(std::optional<Failure>)> done) = 0;
  // The table has not ended by close. A sum may be under way that others never issue, or was not right here and waits for this
  // worker's next at others: what comes behind it would be added to theirs out of step. So all of this path fails, here and
  // at the others, now and later.
  virtual void give_up(const std::string& why) = 0;
};

// Rows with their keys, which ascend.
struct KeyedRows {
  std::vector<Key> keys{};
  std::vector<float> rows{};
};

class HotRows {
 public:
  // Errors: HotSet's.
  static Result<HotRows> create(const TableOptions& options, std::uint32_t rank, std::uint32_t world);

  [[nodiscard]] const hot::KeySet& set() const noexcept { return set_.set(); }
  // nullptr: the key is cold.
  [[nodiscard]] const float* find(Key key) const noexcept;

  // A round: what this worker pushes, ascending. cold: what is not hot of it.
  [[nodiscard]] std::shared_ptr<HotSums> begin(std::span<const Key> keys, std::span<const float> gradients,
                                               KeyedRows& cold);
  // The servers have the round, and these are its sums. Errors: workers that do not mean the same; nothing is changed.
  Result<void> end(const HotSums& sums);

  // The next round. A change: `came` are to be fetched and given to take(); `left` are brought back, by one worker each.
  struct Change {
    std::vector<Key> came{};
    KeyedRows left{};  // this worker's part
    std::size_t moves = 0;
  };
  Result<std::optional<Change>> begin_next();
  void take(const KeyedRows& came);

  // What this worker brings back: when all close, its part; or all that it has, if it leaves.
  [[nodiscard]] KeyedRows part() const;
  struct Leftover {
    KeyedRows rows{};
    std::uint32_t set = 0;
  };
  // Rows that have left, too, while it is not known whether who was to bring them did.
  [[nodiscard]] Leftover leftover() const;

 private:
  HotRows(const TableOptions& options, hot::HotSet set, std::uint32_t rank, std::uint32_t world);
  [[nodiscard]] std::vector<std::int32_t> words();
  [[nodiscard]] std::uint64_t name_of_round() const noexcept;
  [[nodiscard]] bool is_mine(Key key) const noexcept;
  [[nodiscard]] KeyedRows rows_of(std::vector<Key> keys) const;

  TableOptions options_;
  std::uint32_t rank_;
  std::uint32_t world_;
  hot::HotSet set_;
  std::vector<float> rows_{};  // by number in the set
  // While a change is not over, and until the round after it has ended.
  std::shared_ptr<const hot::KeySet> last_set_{};
  std::vector<float> last_rows_{};
  std::vector<Key> left_{};
  enum class Says : std::uint8_t { kStamp, kNames, kWeights } says_ = Says::kStamp;
  std::vector<std::int32_t> weights_{};
};

}  // namespace tally::kv
