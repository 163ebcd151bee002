#pragma once
// Tells ThreadSanitizer what it cannot see: memory that goes from one thread to another through a library of
// DPDK, which is not instrumented. Nothing in other builds.

#if defined(__SANITIZE_THREAD__)
#define TALLY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TALLY_THREAD_SANITIZER 1
#endif
#endif
#ifdef TALLY_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace tally {

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

}  // namespace tally
