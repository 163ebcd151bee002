#include "interrupt_fence.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "thread_hints.h"

#include <rte_interrupts.h>

namespace tally {

Result<std::unique_ptr<InterruptFence>> InterruptFence::create() {
  std::unique_ptr<InterruptFence> fence(new InterruptFence);
  fence->event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  fence->handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (fence->event_ < 0 || fence->handle_ == nullptr) {
    return tl::unexpected(Error{ErrorCode::kSystem,
                                std::string("no event for DPDK's interrupt thread: ") + std::strerror(errno) +
                                    "; raise the limit of open files (ulimit -n)",
                                {},
                                errno});
  }
  rte_intr_fd_set(fence->handle_, fence->event_);
  rte_intr_type_set(fence->handle_, RTE_INTR_HANDLE_EXT);
  handing_over(fence.get());
  if (rte_intr_callback_register(fence->handle_, &InterruptFence::answer, fence.get()) != 0)
    return fail(ErrorCode::kSystem, "DPDK's interrupt thread does not take our event");
  fence->registered_ = true;
  return fence;
}

InterruptFence::~InterruptFence() {
  // -EAGAIN while our own answer() runs.
  while (registered_ && rte_intr_callback_unregister(handle_, &InterruptFence::answer, this) == -EAGAIN)
    std::this_thread::yield();
  rte_intr_instance_free(handle_);
  if (event_ >= 0) close(event_);
}

void InterruptFence::answer(void* self) {
  taking_over(self);
  auto& fence = *static_cast<InterruptFence*>(self);
  std::uint64_t count = 0;
  if (read(fence.event_, &count, sizeof count) == sizeof count)
    fence.answered_.fetch_add(1, std::memory_order_acq_rel);
}

void InterruptFence::ping() noexcept {
  const std::uint64_t one = 1;
  ++sent_;
  // Cannot fail: the counter is 0, every earlier ping having been answered.
  if (write(event_, &one, sizeof one) != sizeof one) --sent_;
}

void InterruptFence::raise() noexcept {
  // An answer still under way does not count: its batch may be older than what we wait for.
  wanted_ = sent_ + 2;
  if (answered_.load(std::memory_order_acquire) == sent_) ping();
}

bool InterruptFence::passed() noexcept {
  const unsigned answered = answered_.load(std::memory_order_acquire);
  if (answered == wanted_) return true;
  if (answered == sent_) ping();
  return false;
}

void InterruptFence::wait() noexcept {
  raise();
  while (!passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace tally
