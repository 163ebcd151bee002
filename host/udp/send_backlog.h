#pragma once
// How many of a worker's datagrams may wait in its own machine for the wire. A chunk that is sent again waits
// behind all of them, and meanwhile the window moves on by as many: with a whole window in the queue each
// loss costs the link a whole window's time, and on a slow link the queue alone outlasts the RTO. What waits
// beyond that waits in the engine, where repairs go first. Pure.

#include <cstddef>
#include <cstdint>

#include "tally/time.h"

namespace tally {

// Two bursts: one leaves while the next is made. A quarter of the default window, so that a loss can show and
// be repaired before the window is at its end.
inline constexpr std::uint32_t kLeastBacklog = 64;
// A thread that was told that there is room may come so late; what is on the wire until then must be there
// already.
inline constexpr TimeNs kBacklogTime = kMillisecond;

class SendBacklog {
 public:
  // Starts anew with the window of an epoch; 0: for who has none (a server), no limit.
  void start(std::uint32_t window) noexcept;

  // The socket had no room at `now`, `sent` datagrams after the beginning: from one such moment to another
  // one, some milliseconds later, as many left as were added. True: limit() has changed.
  bool full(TimeNs now, std::uint64_t sent) noexcept;

  // Datagrams; 0: no limit. kLeastBacklog, or as many as leave in kBacklogTime, in powers of two up to the
  // window.
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

 private:
  std::uint32_t window_ = 0;
  std::uint32_t limit_ = 0;
  bool measures_ = false;
  TimeNs since_ = 0;
  std::uint64_t sent_then_ = 0;
};

// What to ask of SO_SNDBUF for so many datagrams; the kernel doubles that, and counts memory and not bytes of
// data: a power of two with room for its headers and its own records, and a descriptor. Where it keeps the
// data in pages (network cards that gather) up to half as many more find room.
[[nodiscard]] std::size_t send_buffer_of(std::uint32_t datagrams, std::size_t bytes_each) noexcept;

}  // namespace tally
