#include "kv/rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tally/mix64.h"
#include "text/text.h"

namespace tally::kv {
namespace {

constexpr std::size_t kFirstPlaces = 1024;

std::size_t length_of(std::span<const int> lens, std::size_t each, std::size_t i) noexcept {
  return lens.empty() ? each : static_cast<std::size_t>(lens[i]);
}

}  // namespace

void apply(Rule rule, float rate, float* row, const float* pushed, std::size_t width) noexcept {
  if (rule == Rule::kSum) {
    for (std::size_t i = 0; i < width; ++i) row[i] += pushed[i];
  } else {
    for (std::size_t i = 0; i < width; ++i) row[i] -= rate * pushed[i];
  }
}

Rows::Rows(const RowsOptions& options) : options_(options), table_(kFirstPlaces) {
  bytes_ = kFirstPlaces * sizeof(Place);
}

std::size_t Rows::slot_of(Key key) const noexcept {
  std::size_t slot = mix64(key) & (table_.size() - 1);
  while (table_[slot].row != nullptr && table_[slot].key != key) slot = (slot + 1) & (table_.size() - 1);
  return slot;
}

const Rows::Place* Rows::find(Key key) const noexcept {
  const Place& place = table_[slot_of(key)];
  return place.row == nullptr ? nullptr : &place;
}

void Rows::push(std::span<const Key> keys, std::span<const int> lens, std::size_t each, const float* vals,
                std::size_t first) {
  Fresh fresh;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t length = length_of(lens, each, i);
    const Place* const place = find(keys[i]);
    if (place == nullptr) {
      fresh.add(length);
    } else if (place->length != length) {
      throw Failure(ErrorCode::kInvalidArgument,
                    "the row of key " + std::to_string(keys[i]) + " has " + std::to_string(place->length) +
                        " values, and " + std::to_string(length) + " are pushed",
                    static_cast<std::int64_t>(first + i));
    }
  }
  check_room(fresh, first);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t length = length_of(lens, each, i);
    float* const row = put(keys[i], length).row;
    apply(options_.rule, options_.rate, row, vals, length);
    vals += length;
  }
}

void Rows::Fresh::add(std::size_t length) noexcept {
  ++rows;
  (length > kLongestPaged ? alone : paged) += std::max<std::size_t>(length, 1);
}

void Rows::check_room(const Fresh& fresh, std::size_t first) const {
  if (options_.most_bytes == 0 || fresh.rows == 0) return;
  std::size_t places = table_.size();
  while ((used_ + fresh.rows) * 4 > places * 3) places *= 2;
  // A page is full when the next row does not fit: to three quarters at least.
  constexpr std::size_t kLeastFloats = kPageFloats - kLongestPaged;
  const std::size_t pages = fresh.paged <= page_left_ ? 0 : (fresh.paged + kLeastFloats - 1) / kLeastFloats;
  const std::size_t bytes =
      (places - table_.size()) * sizeof(Place) + (pages * kPageFloats + fresh.alone) * sizeof(float);
  if (bytes_ + bytes > options_.most_bytes)
    throw Failure(ErrorCode::kRefused,
                  "this server has no room for more rows: " + text::counted(used_, "row") +
                      " and their index have " + text::with_commas(bytes_) + " bytes, and " +
                      text::with_commas(options_.most_bytes) + " are for them (tally-kv --memory)",
                  static_cast<std::int64_t>(first));
}

void Rows::lend(std::span<const Key> keys, std::size_t width) {
  Fresh fresh;
  for (const Key key : keys) {
    if (find(key) == nullptr) fresh.add(width);
  }
  check_room(fresh, 0);
  for (const Key key : keys) put(key, width).lent = true;
}

void Rows::take_back(Key key, const float* row) {
  Place& place = table_[slot_of(key)];
  place.lent = false;
  if (row != nullptr) std::copy_n(row, place.length, place.row);
}

std::optional<std::size_t> Rows::first_lent(std::span<const Key> keys) const noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (table_[slot_of(keys[i])].lent) return i;
  }
  return std::nullopt;
}

void Rows::set_rule(Rule rule, float rate) noexcept {
  options_.rule = rule;
  options_.rate = rate;
}

void Rows::pull(std::span<const Key> keys, std::vector<float>& vals, std::vector<int>& lens) const {
  for (const Key key : keys) {
    const Place* const place = find(key);
    if (place == nullptr) {
      vals.insert(vals.end(), options_.dimension, 0.F);
      lens.push_back(static_cast<int>(options_.dimension));
    } else {
      vals.insert(vals.end(), place->row, place->row + place->length);
      lens.push_back(static_cast<int>(place->length));
    }
  }
}

Rows::Place& Rows::put(Key key, std::size_t length) {
  std::size_t slot = slot_of(key);
  if (table_[slot].row != nullptr) return table_[slot];
  if ((used_ + 1) * 4 > table_.size() * 3) {
    grow();
    slot = slot_of(key);
  }
  ++used_;
  table_[slot] = {key, allocate(length), static_cast<std::uint32_t>(length), false};
  return table_[slot];
}

void Rows::grow() {
  std::vector<Place> before(table_.size() * 2);
  before.swap(table_);
  bytes_ += before.size() * sizeof(Place);
  for (const Place& place : before) {
    if (place.row != nullptr) table_[slot_of(place.key)] = place;
  }
}

// From pages that are never given back; a row that fills most of one has memory of its own.
float* Rows::allocate(std::size_t length) {
  const std::size_t room = std::max<std::size_t>(length, 1);  // a row without values is a row
  if (room > kLongestPaged) {
    bytes_ += room * sizeof(float);
    return pages_.emplace_back(std::make_unique<float[]>(room)).get();
  }
  if (page_left_ < room) {
    page_at_ = pages_.emplace_back(std::make_unique<float[]>(kPageFloats)).get();
    page_left_ = kPageFloats;
    bytes_ += kPageFloats * sizeof(float);
  }
  page_left_ -= room;
  return std::exchange(page_at_, page_at_ + room);
}

}  // namespace tally::kv
