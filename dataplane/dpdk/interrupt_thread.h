#pragma once
// EAL's interrupt thread, on which drivers handle what arrives on their control sockets, without a lock. What
// a memif's stop, start and removal do to the same records is therefore done on that thread too.

#include <functional>

namespace tally {

// Runs `work` on the interrupt thread and waits for it; at once if this is that thread, or there is no EAL.
void on_interrupt_thread(const std::function<void()>& work);

// Whether that thread may hold pointers into a memif for good: EAL must not be cleaned up.
void note_memif() noexcept;
[[nodiscard]] bool memif_was_opened() noexcept;

}  // namespace tally
