#pragma once
// The lease under which all keys of a member are: taken, kept alive, taken again when it was lost. Owner: one thread.

#include <cstdint>
#include <string>

#include "fleet/errands.h"

namespace tally::fleet {

class LeaseKeeper {
 public:
  // ttl: whole seconds, 2 or more.
  LeaseKeeper(Errands& errands, TimeNs ttl) noexcept : errands_(errands), ttl_(ttl) {}

  void tick(TimeNs now);
  // Gives it up; the store forgets its keys at once, if it hears of it.
  void release(TimeNs now);
  [[nodiscard]] bool released() const noexcept { return step_ == Step::kReleased; }

  // 0: none, or the store has said that it is over.
  [[nodiscard]] LeaseId id() const noexcept { return lease_; }
  // By this clock it cannot have ended: it was kept alive less than its time ago.
  [[nodiscard]] bool holds(TimeNs now) const noexcept { return now < until(); }
  // Until when.
  [[nodiscard]] TimeNs until() const noexcept { return lease_ != 0 ? until_ : 0; }
  // How many were lost.
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  enum class Step : std::uint8_t { kIdle, kGranting, kHeld, kBeating, kReleasing, kReleased };
  static constexpr TimeNs kRetry = 250 * kMillisecond;

  void granted(const Errands::Result& result, TimeNs sent, TimeNs now);
  void beaten(const Errands::Result& result, TimeNs sent, TimeNs now);

  Errands& errands_;
  TimeNs ttl_;
  Step step_ = Step::kIdle;
  LeaseId lease_ = 0;
  TimeNs until_ = 0;
  TimeNs next_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace tally::fleet
