#pragma once
// The numbers by which programs and replies name requests of a KVWorker, as PS-lite's do: 0, 1, 2... Behind the last one they
// begin again, which a program that runs for weeks comes to. Pure.

#include <limits>
#include <string>

namespace tally::kv {

class Timestamps {
 public:
  static constexpr int kLast = std::numeric_limits<int>::max();

  // first: behind those of one of the same name that is gone.
  explicit Timestamps(int first = 0) noexcept : first_(first), next_(first) {}

  // in_use(timestamp): its request is not over.
  template <class InUse>
  [[nodiscard]] int take(InUse in_use) {
    int taken = step();
    while (in_use(taken)) taken = step();
    return taken;
  }
  [[nodiscard]] int next() const noexcept { return next_; }
  [[nodiscard]] bool has_given(int timestamp) const noexcept {
    return timestamp >= 0 && (began_again_ || (timestamp >= first_ && timestamp < next_));
  }
  // What to say of one that it has not given.
  [[nodiscard]] std::string given() const {
    if (began_again_) return "they are 0.." + std::to_string(kLast);
    if (next_ == first_) return "it has made none";
    return "they are " + std::to_string(first_) + ".." + std::to_string(next_ - 1);
  }

 private:
  int step() noexcept {
    const int taken = next_;
    began_again_ |= taken == kLast;
    next_ = taken == kLast ? 0 : taken + 1;
    return taken;
  }

  int first_;
  int next_;
  bool began_again_ = false;
};

}  // namespace tally::kv
