#pragma once
// EAL's interrupt thread, on which drivers handle what arrives on their control sockets, without a lock. What
// a memif's stop, start and removal do to the same records is therefore done on that thread too.

#include <sanitizer/tsan_interface.h>
#include <functional>

#if defined(__SANITIZE_THREAD__)
#define TALLY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TALLY_THREAD_SANITIZER 1
#endif
#endif

namespace tally::dpdk {

// Runs `work` on the interrupt thread and waits for it; at once if this is that thread, or there is no EAL.
void on_interrupt_thread(const std::function<void()>& work);

// Whether that thread may hold pointers into a memif for good: EAL must not be cleaned up.
void note_memif() noexcept;
[[nodiscard]] bool memif_was_opened() noexcept;

// Tells ThreadSanitizer what it cannot see: memory that goes from one thread to another through a library of
// DPDK, which is not instrumented. Nothing in other builds.

// What this thread did before precedes what another one does after taking_over() of the same address.
inline void handing_over([[maybe_unused]] const void* address) noexcept {
#ifdef TALLY_THREAD_SANITIZER
  __tsan_release(const_cast<void*>(address));
#endif
}

inline void taking_over([[maybe_unused]] const void* address) noexcept {
#ifdef TALLY_THREAD_SANITIZER
  __tsan_acquire(const_cast<void*>(address));
#endif
}

}  // namespace tally::dpdk
