// Stands in front of allocators and locks (call_watch.h): each counts, then does what it always did. The
// dynamic linker finds these first, for libraries and drivers too.

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "call_watch.h"

#include <rte_malloc.h>

namespace {

using tally::e2e::count_function;
using tally::e2e::WatchedFunction;

// The next definition of the name, looked up once. Constant-initialised: libraries lock before main().
template <class F>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  F* operator()() {
    void* at = at_.load(std::memory_order_relaxed);
    if (at == nullptr) at_.store(at = dlsym(RTLD_NEXT, name_), std::memory_order_relaxed);
    return reinterpret_cast<F*>(at);
  }

 private:
  const char* name_;
  std::atomic<void*> at_{nullptr};
};

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): glibc's
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) {
  count_function(WatchedFunction::kMalloc);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  count_function(WatchedFunction::kCalloc);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count_function(WatchedFunction::kRealloc);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count_function(WatchedFunction::kAligned);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_function(WatchedFunction::kAligned);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count_function(WatchedFunction::kAligned);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  count_function(WatchedFunction::kFree);
  __libc_free(memory);
}

#define TALLY_WATCHED(result, name, function, parameters, arguments) \
  result name parameters {                                           \
    static constinit Next<result parameters> next(#name);            \
    count_function(WatchedFunction::function);                       \
    return next() arguments;                                         \
  }

TALLY_WATCHED(int, pthread_mutex_lock, kMutex, (pthread_mutex_t * lock), (lock))
TALLY_WATCHED(int, pthread_mutex_trylock, kMutex, (pthread_mutex_t * lock), (lock))
TALLY_WATCHED(int, pthread_mutex_timedlock, kMutex, (pthread_mutex_t * lock, const timespec* until),
              (lock, until))
TALLY_WATCHED(int, pthread_rwlock_rdlock, kReadWriteLock, (pthread_rwlock_t * lock), (lock))
TALLY_WATCHED(int, pthread_rwlock_wrlock, kReadWriteLock, (pthread_rwlock_t * lock), (lock))
TALLY_WATCHED(int, pthread_rwlock_tryrdlock, kReadWriteLock, (pthread_rwlock_t * lock), (lock))
TALLY_WATCHED(int, pthread_rwlock_trywrlock, kReadWriteLock, (pthread_rwlock_t * lock), (lock))
TALLY_WATCHED(int, pthread_spin_lock, kSpinLock, (pthread_spinlock_t * lock), (lock))
TALLY_WATCHED(int, pthread_spin_trylock, kSpinLock, (pthread_spinlock_t * lock), (lock))
TALLY_WATCHED(int, sem_wait, kSemaphore, (sem_t * semaphore), (semaphore))
TALLY_WATCHED(int, sem_post, kSemaphore, (sem_t * semaphore), (semaphore))

TALLY_WATCHED(void*, rte_malloc, kRteMalloc, (const char* type, std::size_t bytes, unsigned align),
              (type, bytes, align))
TALLY_WATCHED(void*, rte_zmalloc, kRteMalloc, (const char* type, std::size_t bytes, unsigned align),
              (type, bytes, align))
TALLY_WATCHED(void*, rte_calloc, kRteMalloc,
              (const char* type, std::size_t count, std::size_t bytes, unsigned align),
              (type, count, bytes, align))
TALLY_WATCHED(void*, rte_malloc_socket, kRteMalloc,
              (const char* type, std::size_t bytes, unsigned align, int socket), (type, bytes, align, socket))
TALLY_WATCHED(void*, rte_zmalloc_socket, kRteMalloc,
              (const char* type, std::size_t bytes, unsigned align, int socket), (type, bytes, align, socket))
TALLY_WATCHED(void*, rte_realloc, kRteMalloc, (void* memory, std::size_t bytes, unsigned align),
              (memory, bytes, align))
TALLY_WATCHED(void, rte_free, kRteFree, (void* memory), (memory))

}  // extern "C"
