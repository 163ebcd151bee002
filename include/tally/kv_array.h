#pragma once
// The arrays of the key-value interface: memory that several share. Copying one copies no element; what one writes
// the others see. The surface is PS-lite's SArray, so that its programs compile. One thread at a time per array.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ostream>
#include <type_traits>
#include <utility>
#include <vector>

namespace tally::kv {

// NOLINTBEGIN(readability-identifier-naming): PS-lite's names.

// Indices or keys from begin() to the one before end().
class Range {
 public:
  constexpr Range() noexcept = default;
  constexpr Range(std::uint64_t begin, std::uint64_t end) noexcept : begin_(begin), end_(end) {}
  [[nodiscard]] constexpr std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] constexpr std::uint64_t end() const noexcept { return end_; }
  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return end_ - begin_; }
  constexpr bool operator==(const Range&) const noexcept = default;

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

template <class V>
class SArray {
  static_assert(std::is_trivially_copyable_v<V>, "arrays travel as bytes");

 public:
  using value_type = V;

  SArray() noexcept = default;
  explicit SArray(std::size_t size, V value = V{}) { resize(size, value); }
  SArray(std::initializer_list<V> list) { CopyFrom(list.begin(), list.end()); }
  // A copy of the elements.
  explicit SArray(const std::vector<V>& vector) { CopyFrom(vector.data(), vector.size()); }
  // The vector's own memory, which lives on with the array.
  explicit SArray(const std::shared_ptr<std::vector<V>>& vector)
      : memory_(vector, vector->data()), size_(vector->size()), capacity_(size_) {}
  // The caller's memory, alive as long as any copy of the array; deletable: made by new[], and given away.
  SArray(V* data, std::size_t size, bool deletable = false) {
    if (deletable)
      reset(data, size, [](V* own) { delete[] own; });
    else
      reset(data, size, [](V*) {});
  }
  // The same memory read as another type; what does not fill an element is left out.
  template <class W>
  explicit SArray(const SArray<W>& other) {
    *this = other;
  }
  template <class W>
  SArray& operator=(const SArray<W>& other) {
    memory_ = std::shared_ptr<V>(other.ptr(), reinterpret_cast<V*>(other.data()));
    size_ = other.size() * sizeof(W) / sizeof(V);
    capacity_ = other.capacity() * sizeof(W) / sizeof(V);
    return *this;
  }
  // Memory of `owner`, which lives on with the array.
  SArray(const std::shared_ptr<void>& owner, V* data, std::size_t size)
      : memory_(owner, data), size_(size), capacity_(size) {}

  void CopyFrom(const V* data, std::size_t size) {
    SArray fresh;
    fresh.grow(size);
    if (size != 0) std::memcpy(fresh.data(), data, size * sizeof(V));
    fresh.size_ = size;
    *this = std::move(fresh);
  }
  void CopyFrom(const SArray& other) {
    if (this != &other) CopyFrom(other.data(), other.size());
  }
  template <class Iterator>
  void CopyFrom(Iterator first, Iterator last) {
    SArray fresh;
    fresh.grow(static_cast<std::size_t>(std::distance(first, last)));
    fresh.size_ = fresh.capacity_;
    std::copy(first, last, fresh.data());
    *this = std::move(fresh);
  }
  template <class Deleter>
  void reset(V* data, std::size_t size, Deleter deleter) {
    memory_ = std::shared_ptr<V>(data, deleter);
    size_ = capacity_ = size;
  }

  // Beyond the capacity the array gets memory of its own; those that shared the old keep it.
  void resize(std::size_t size, V value = V{}) {
    if (size > capacity_) grow(size);
    if (size > size_) std::fill(data() + size_, data() + size, value);
    size_ = size;
  }
  void reserve(std::size_t size) {
    if (size > capacity_) grow(size);
  }
  void clear() noexcept { *this = SArray(); }
  void push_back(const V& value) {
    const V kept = value;
    if (size_ == capacity_) grow(std::max<std::size_t>(8, 2 * size_));
    data()[size_++] = kept;
  }
  void pop_back() noexcept {
    if (size_ != 0) --size_;
  }
  // other: may be this array.
  void append(const SArray& other) {
    const std::size_t before = size_;
    const std::size_t more = other.size();
    if (before + more > capacity_) grow(before + more);
    std::copy_n(other.data(), more, data() + before);
    size_ = before + more;
  }
  // Elements begin .. end - 1, the same memory.
  [[nodiscard]] SArray segment(std::size_t begin, std::size_t end) const {
    SArray part;
    part.memory_ = std::shared_ptr<V>(memory_, data() + begin);
    part.size_ = part.capacity_ = end - begin;
    return part;
  }

  [[nodiscard]] V* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] V* begin() const noexcept { return data(); }
  [[nodiscard]] V* end() const noexcept { return data() + size_; }
  [[nodiscard]] V& front() const noexcept { return data()[0]; }
  [[nodiscard]] V& back() const noexcept { return data()[size_ - 1]; }
  V& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] const std::shared_ptr<V>& ptr() const noexcept { return memory_; }

 private:
  void grow(std::size_t capacity) {
    std::shared_ptr<V> memory(new V[capacity], [](V* own) { delete[] own; });
    if (size_ != 0) std::memcpy(memory.get(), data(), size_ * sizeof(V));
    memory_ = std::move(memory);
    capacity_ = capacity;
  }

  std::shared_ptr<V> memory_{};
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Where the elements of a sorted array lie that are at least lower and below upper.
template <class V>
[[nodiscard]] Range FindRange(const SArray<V>& sorted, V lower, V upper) {
  if (!(lower < upper)) return {};
  const auto at = [&sorted](V bound) {
    return static_cast<std::uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), bound) - sorted.begin());
  };
  return {at(lower), at(upper)};
}

// NOLINTEND(readability-identifier-naming)

template <class V>
std::ostream& operator<<(std::ostream& out, const SArray<V>& array) {
  constexpr std::size_t kShown = 10;
  out << "[" << array.size() << "]:";
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (i == kShown / 2 && array.size() > kShown) {
      out << " ...";
      i = array.size() - kShown / 2;
    }
    out << ' ' << array[i];
  }
  return out;
}

}  // namespace tally::kv
