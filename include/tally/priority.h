#pragma once
// How urgent an operation is. It matters on a box whose slots several jobs share: when they run short,
// packets of a higher class take slots from lower ones, and what goes to the server instead goes by priority.
// Jobs with slots of their own (discipline pool) ignore it. Ranks may choose differently for the same
// operation: that changes who waits, never a sum.

#include <cstdint>

namespace tally {

struct Priority {
  enum class Kind : std::uint8_t {
    kOfWorker,  // the class of WorkerOptions::priority
    kClass,     // `number` is a class, 0..3
    kValue,     // `number` is the value in every packet, 0..254; its class is number / 64
  };
  Kind kind = Kind::kOfWorker;
  int number = 0;

  // Classes: 0 gives way to all, 3 to none. Inside its class an operation rises as fewer of its chunks are
  // left, in steps of a fifth or so: who is nearly done is done first.
  [[nodiscard]] static constexpr Priority in_class(int number) noexcept { return {Kind::kClass, number}; }
  // The same value from the first chunk to the last.
  [[nodiscard]] static constexpr Priority exactly(int number) noexcept { return {Kind::kValue, number}; }

  constexpr bool operator==(const Priority&) const noexcept = default;
};

inline constexpr int kGreatestClass = 3;
inline constexpr int kGreatestPriority = 254;

}  // namespace tally
