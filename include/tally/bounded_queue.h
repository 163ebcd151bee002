#pragma once
// First in, first out, with room for a fixed number: what finds it full is lost and counted. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace tally {

template <class T, std::size_t Room>
class BoundedQueue {
 public:
  static constexpr std::size_t kRoom = Room;

  bool push(T item) noexcept {  // false: it is lost
    if (size_ == Room) {
      ++lost_;
      return false;
    }
    ring_[(first_ + size_++) % Room] = std::move(item);
    return true;
  }
  std::optional<T> pop() noexcept {
    if (size_ == 0) return std::nullopt;
    --size_;
    return std::move(ring_[std::exchange(first_, (first_ + 1) % Room)]);
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
  void clear() noexcept { size_ = 0; }

 private:
  std::array<T, Room> ring_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace tally
