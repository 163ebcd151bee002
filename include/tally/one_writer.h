#pragma once
// A word that one thread writes and any thread may read at any time: counters and times of a data core, which
// control prints. Relaxed: no two words have to agree. No read-modify-write is atomic, so it costs what a
// plain word costs, and a second writer would lose counts.

#include <atomic>
#include <concepts>

namespace tally {

template <std::unsigned_integral T>
class OneWriter {
 public:
  constexpr OneWriter(T value = 0) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor): a word
  OneWriter(const OneWriter& other) noexcept : value_(other.get()) {}
  OneWriter& operator=(const OneWriter& other) noexcept { return *this = other.get(); }
  OneWriter& operator=(T value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  ~OneWriter() = default;

  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  operator T() const noexcept { return get(); }  // NOLINT(google-explicit-constructor): a word

  [[gnu::always_inline]] OneWriter& operator+=(T n) noexcept { return *this = static_cast<T>(get() + n); }
  OneWriter& operator++() noexcept { return *this += 1; }
  OneWriter& operator--() noexcept { return *this = static_cast<T>(get() - 1); }

 private:
  std::atomic<T> value_;
};

}  // namespace tally
