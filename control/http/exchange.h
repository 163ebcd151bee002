#pragma once
// Where the control thread and the HTTP thread meet, and the only place where they do: snapshots and events go one
// way, the wish for a snapshot goes the other. Neither waits for the other for longer than a few pointers take to move.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "api/snapshot.h"
#include "tally/time.h"
#include "tally/unique_fd.h"

namespace tally::http {

// A snapshot as all of HTTP answers from it.
struct Published {
  std::uint64_t number = 0;  // from 1 on, one more for each
  TimeNs at = 0;             // when it was made
  std::shared_ptr<const api::Snapshot> box{};
};

// An event as api::event_text() makes it.
struct ToldEvent {
  std::uint64_t number = 0;
  std::string text{};
};

class Exchange {
 public:
  // No more than five snapshots a second, however many ask.
  static constexpr TimeNs kBetween = 200 * kMillisecond;
  // Who asked so long ago has gone.
  static constexpr TimeNs kPatience = 2 * kSecond;
  // Events that wait for a thread that does not come; of more, the oldest are lost, which their numbers tell.
  static constexpr std::size_t kMostWaiting = 1024;

  Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // The control thread's side.

  // Somebody wants a snapshot, and it is time for one. Takes the wish away: publish() is to follow.
  [[nodiscard]] bool take_wish(TimeNs now) noexcept;
  // box: not null, and of now.
  void publish(std::shared_ptr<const api::Snapshot> box, TimeNs now);
  void tell(std::uint64_t number, std::string text);
  // Somebody follows events.
  [[nodiscard]] bool followed() const noexcept { return followed_.load(std::memory_order_relaxed); }

  // The HTTP thread's side.

  void ask(TimeNs now) noexcept { asked_.store(now, std::memory_order_release); }
  // Empty until the first.
  [[nodiscard]] std::shared_ptr<const Published> newest() const;
  // Those that came since the last call, in their order.
  [[nodiscard]] std::deque<ToldEvent> take_events();
  void set_followed(bool followed) noexcept { followed_.store(followed, std::memory_order_relaxed); }

  // Any thread's: readable when there is news. -1: this process has no descriptor left.
  [[nodiscard]] int bell() const noexcept { return bell_.get(); }
  void ring() const noexcept;
  void silence() const noexcept;

 private:
  UniqueFd bell_;
  std::atomic<TimeNs> asked_{0};  // 0: nobody did
  std::atomic<bool> followed_{false};
  TimeNs taken_ = 0;  // control's: the last wish
  mutable std::mutex mutex_{};
  std::shared_ptr<const Published> newest_{};
  std::deque<ToldEvent> events_{};
};

}  // namespace tally::http
