#pragma once
// What a thread asks of the kernel, of allocators and of locks, counted and named.
//
// System calls: the thread gets a seccomp filter of its own that traps every call, whichever code makes it,
// but those from one address: there the handler of the trap makes the call in the thread's place, after
// counting it, so a call is found and yet does what it should. (A clock read through the vDSO is no call.)
// Functions: watched_functions.cc stands in front of malloc and its like, DPDK's own allocator, and the
// locks of pthreads, sem_wait and sem_post, for this program and every library it loads. Locks that are
// inlined (rte_spinlock_t) are out of its reach.

#include <cstdint>
#include <string>

namespace tally::e2e {

enum class WatchedFunction : std::uint8_t {
  kMalloc,
  kCalloc,
  kRealloc,
  kAligned,  // memalign, aligned_alloc, posix_memalign
  kFree,
  kRteMalloc,  // and its variants
  kRteFree,
  kMutex,
  kReadWriteLock,
  kSpinLock,
  kSemaphore,  // sem_wait and sem_post
  kCount,
};
inline constexpr auto kFirstLock = WatchedFunction::kMutex;

struct WatchedCounts {
  std::uint64_t system_calls = 0;
  std::uint64_t allocations = 0;  // calls of allocators, also to free
  std::uint64_t locks = 0;
  std::string names{};  // each with its count: "getppid 3, malloc 1"; calls without a name here by number
};

// Watches the calling thread from now on; nothing is counted yet. There is no way back: it makes every system
// call through the trap until it ends. Empty, or why this process may not.
[[nodiscard]] std::string watch_this_thread();

// Between these two, what watched threads do is counted, all together. Any thread; not nested.
void begin_counting() noexcept;
[[nodiscard]] WatchedCounts end_counting();
// System calls of that number counted so far.
[[nodiscard]] std::uint64_t counted_calls(long number) noexcept;

// For watched_functions.cc.
void count_function(WatchedFunction function) noexcept;

}  // namespace tally::e2e
