#include "kv/hot_rows.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>

#include "kv/rows.h"
#include "kv/sameness.h"
#include "tally/mix64.h"

namespace tally::kv {
namespace {

// Of a hot block: what a worker does not touch costs it a bit (docs/hot_keys.md, How many).
constexpr std::uint32_t kLeastFill = 2;
// Every batch takes counters from the rarest keys. Are they not many times as many as its keys, a key that is in each
// batch is taken for one that came by; whatever room there is for hot ones.
constexpr std::size_t kCountersOfAKey = 8;
constexpr std::size_t kLeastCounters = std::size_t{1} << 16;
constexpr std::uint64_t kPartSalt = 0xb416;  // not the classes' hash, nor the buckets'

}  // namespace

std::size_t most_hot_of(const TableOptions& options) noexcept {
  constexpr std::size_t kUnsaid = 30'000;
  return options.most_hot.value_or(options.age == std::chrono::milliseconds(0) ? kUnsaid : 0);
}

Result<HotRows> HotRows::create(const TableOptions& options, std::uint32_t rank, std::uint32_t world) {
  const std::size_t most_hot = most_hot_of(options);
  hot::HotOptions hot;
  hot.seat = {rank, world, {.most = static_cast<std::uint32_t>(most_hot), .least_fill = kLeastFill}};
  hot.every = options.every;
  hot.counters = std::max(kLeastCounters, 4 * most_hot);
  hot.counters_of_key = kCountersOfAKey;
  auto set = hot::HotSet::create(hot);
  if (!set) return tl::unexpected(set.error());
  return HotRows(options, std::move(*set), rank, world);
}

HotRows::HotRows(const TableOptions& options, hot::HotSet set, std::uint32_t rank, std::uint32_t world)
    : options_(options), rank_(rank), world_(world), set_(std::move(set)) {}

const float* HotRows::find(Key key) const noexcept {
  const auto id = set().id_of(key);
  return id ? rows_.data() + *id * options_.width : nullptr;
}

std::uint64_t HotRows::name_of_round() const noexcept {
  return mix64(mix64(static_cast<std::uint64_t>(options_.number)) + set_.round());
}

std::vector<std::int32_t> HotRows::words() {
  if (!weights_.empty()) {
    says_ = Says::kWeights;
    return std::exchange(weights_, {});
  }
  if (set_.agreement_is_due()) {
    says_ = Says::kNames;
    return set_.names();
  }
  says_ = Says::kStamp;
  const hot::Stamp stamp = hot::stamp_of(set());
  return {stamp.begin(), stamp.end()};
}

std::shared_ptr<HotSums> HotRows::begin(std::span<const Key> keys, std::span<const float> gradients,
                                        KeyedRows& cold) {
  const std::size_t width = options_.width;
  auto sums = std::make_shared<HotSums>();
  set_.count(keys);
  sums->words = question_of(name_of_round());
  const std::vector<std::int32_t> mine = words();
  sums->words.insert(sums->words.end(), mine.begin(), mine.end());
  sums->table = {static_cast<std::uint32_t>(set().size()), static_cast<std::uint32_t>(width)};

  cold.keys.reserve(keys.size());
  cold.rows.reserve(gradients.size());
  std::vector<std::pair<std::uint32_t, std::size_t>> hot;  // number, and where it is in keys
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (const auto id = set().id_of(keys[i])) {
      hot.emplace_back(*id, i);
      continue;
    }
    const auto row = gradients.subspan(i * width, width);
    cold.keys.push_back(keys[i]);
    cold.rows.insert(cold.rows.end(), row.begin(), row.end());
  }
  std::sort(hot.begin(), hot.end());
  sums->ids.reserve(hot.size());
  sums->values.reserve(hot.size() * width);
  for (const auto& [id, i] : hot) {
    const auto row = gradients.subspan(i * width, width);
    sums->ids.push_back(id);
    sums->values.insert(sums->values.end(), row.begin(), row.end());
  }
  return sums;
}

Result<void> HotRows::end(const HotSums& sums) {
  const std::span<const std::int32_t> words(sums.words);
  if (!all_equal(words.first(kQuestionWords), static_cast<int>(world_)))
    return fail(ErrorCode::kInvalidArgument, "the workers are not all in round " +
                                                 std::to_string(set_.round()) + " of table " +
                                                 std::to_string(options_.number) +
                                                 "; calls of tables come in the same order at all of them");
  const auto said = words.subspan(kQuestionWords);
  if (says_ == Says::kNames) {
    auto weights = set_.take_names(said);
    if (!weights) return tl::unexpected(weights.error());
    weights_ = std::move(*weights);
  } else if (says_ == Says::kWeights) {
    if (auto taken = set_.take_weights(said); !taken) return taken;
  } else {
    hot::Stamp stamp{};
    std::copy_n(said.begin(), stamp.size(), stamp.begin());
    if (auto checked = hot::check_stamp(set(), stamp, world_); !checked) return checked;
  }
  const std::size_t width = options_.width;
  for (std::size_t i = 0; i < sums.sums.ids.size(); ++i)
    apply(options_.rule, options_.rate, rows_.data() + sums.sums.ids[i] * width,
          sums.sums.values.data() + i * width, width);
  set_.end_round();
  last_set_ = nullptr;
  last_rows_ = {};
  left_.clear();
  return {};
}

Result<std::optional<HotRows::Change>> HotRows::begin_next() {
  auto before = set_.shared_set();
  auto begun = set_.begin_round();
  if (!begun) return tl::unexpected(begun.error());
  if (!*begun) return std::optional<Change>{};
  const std::size_t width = options_.width;
  last_set_ = std::move(before);
  last_rows_ = std::exchange(rows_, std::vector<float>(set().size() * width));
  for (std::uint32_t id = 0; id < set().size(); ++id) {
    if (const auto old = last_set_->id_of(set().keys()[id]))
      std::copy_n(last_rows_.begin() + static_cast<std::ptrdiff_t>(*old * width), width,
                  rows_.begin() + static_cast<std::ptrdiff_t>(id * width));
  }
  Change change;
  change.came = std::move((*begun)->came);
  std::sort(change.came.begin(), change.came.end());
  left_ = std::move((*begun)->left);
  std::vector<Key> mine;
  std::copy_if(left_.begin(), left_.end(), std::back_inserter(mine),
               [this](Key key) { return is_mine(key); });
  change.left = rows_of(std::move(mine));
  change.moves = change.came.size() + change.left.keys.size();
  return std::optional(std::move(change));
}

void HotRows::take(const KeyedRows& came) {
  const std::size_t width = options_.width;
  for (std::size_t i = 0; i < came.keys.size(); ++i)
    std::copy_n(came.rows.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                rows_.begin() + static_cast<std::ptrdiff_t>(*set().id_of(came.keys[i]) * width));
  set_.rows_are_here();
}

bool HotRows::is_mine(Key key) const noexcept { return mix64(key ^ kPartSalt) % world_ == rank_; }

KeyedRows HotRows::rows_of(std::vector<Key> keys) const {
  const std::size_t width = options_.width;
  KeyedRows out{std::move(keys), {}};
  std::sort(out.keys.begin(), out.keys.end());
  for (const Key key : out.keys) {
    const float* row = set_.may_contribute() ? find(key) : nullptr;
    if (row == nullptr) row = last_rows_.data() + *last_set_->id_of(key) * width;
    out.rows.insert(out.rows.end(), row, row + width);
  }
  return out;
}

KeyedRows HotRows::part() const {
  std::vector<Key> mine;
  std::copy_if(set().keys().begin(), set().keys().end(), std::back_inserter(mine),
               [this](Key key) { return is_mine(key); });
  return rows_of(std::move(mine));
}

HotRows::Leftover HotRows::leftover() const {
  const hot::Leftover has = set_.leftover();
  std::vector<Key> keys = has.bring;
  if (set_.may_contribute()) keys.insert(keys.end(), left_.begin(), left_.end());
  return {rows_of(std::move(keys)), has.set};
}

}  // namespace tally::kv
