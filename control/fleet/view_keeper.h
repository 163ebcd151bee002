#pragma once
// Keeps a view up to date: read once, watched from there on, read anew when the watch has a gap or the store is not the
// one it was; and looked at from time to time, since a watch that hears nothing looks like a fleet in which nothing
// happens. Owner: one thread.

#include <cstdint>
#include <optional>
#include <string>

#include "fleet/errands.h"
#include "fleet/view.h"

namespace tally::fleet {

class ViewKeeper {
 public:
  static constexpr TimeNs kAudit = 10 * kSecond;

  ViewKeeper(Errands& errands, const std::string& prefix) : errands_(errands), view_(prefix) {}
  ViewKeeper(const ViewKeeper&) = delete;
  ViewKeeper& operator=(const ViewKeeper&) = delete;
  ~ViewKeeper();

  void tick(TimeNs now);
  void give(const Changes& changes);
  void give(const WatchOver& over, TimeNs now);
  // The store's revision in an answer, and the view's when it was asked. One that goes back is not the store it was: it
  // was wiped, or another one took its place; all is read anew.
  void heard(Revision answered, Revision asked_at, TimeNs now);

  // As the store was once, and follows it.
  [[nodiscard]] bool ready() const noexcept { return watch_.has_value(); }
  [[nodiscard]] const View& view() const noexcept { return view_; }
  [[nodiscard]] View& view() noexcept { return view_; }
  // How often all was read.
  [[nodiscard]] std::uint64_t reads() const noexcept { return reads_; }

 private:
  static constexpr TimeNs kPatience = 5 * kSecond;
  static constexpr TimeNs kRetry = 500 * kMillisecond;

  void read(TimeNs now);
  void audit(TimeNs now);
  void judge(const Reply& reply, Revision asked_at);
  void read_anew(TimeNs now);

  Errands& errands_;
  View view_;
  std::optional<WatchId> watch_{};
  bool asking_ = false;
  TimeNs next_ = 0;
  std::uint64_t reads_ = 0;
  Revision behind_ = 0;  // of the last look, which this view has not reached since
};

}  // namespace tally::fleet
