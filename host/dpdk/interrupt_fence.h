#pragma once
// Waits until EAL's interrupt thread is through with everything that had arrived before. That thread runs the
// drivers' handlers without a lock; memif's frees and maps the memory of a port there. Who knows that no new
// message is on its way to a driver and that the fence has passed may stop, start or close the port.
//
// One turn of the thread handles a batch of file descriptors in no order that we know, so one ping could be
// answered before an older message of the same batch. The second ping is sent after the first was answered,
// is therefore of a later batch, and so comes after all of the first one's.

#include <atomic>
#include <memory>

#include "tally/error.h"

struct rte_intr_handle;

namespace tally {

class InterruptFence {
 public:
  // Needs EAL. Owner: one thread.
  [[nodiscard]] static Result<std::unique_ptr<InterruptFence>> create();
  InterruptFence(const InterruptFence&) = delete;
  InterruptFence& operator=(const InterruptFence&) = delete;
  ~InterruptFence();

  void raise() noexcept;                 // starts, or starts anew
  [[nodiscard]] bool passed() noexcept;  // since the last raise(); never blocks
  void wait() noexcept;                  // raise() and passed(), sleeping; not on the interrupt thread

 private:
  InterruptFence() = default;
  static void answer(void* self);
  void ping() noexcept;

  rte_intr_handle* handle_ = nullptr;
  int event_ = -1;
  bool registered_ = false;
  unsigned wanted_ = 0;  // answers that let us pass
  unsigned sent_ = 0;
  std::atomic<unsigned> answered_ = 0;
};

}  // namespace tally
