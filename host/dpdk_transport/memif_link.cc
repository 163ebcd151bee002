#include "dpdk_transport/memif_link.h"

#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "dpdk/threads.h"
#include "tally/mix64.h"

namespace tally::dpdk_transport {

Result<std::unique_ptr<InterruptFence>> InterruptFence::create() {
  std::unique_ptr<InterruptFence> fence(new InterruptFence);
  fence->event_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  fence->handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (!fence->event_ || fence->handle_ == nullptr) {
    return system_failure("no event for DPDK's interrupt thread; raise the limit of open files (ulimit -n)",
                          errno);
  }
  rte_intr_fd_set(fence->handle_, fence->event_.get());
  rte_intr_type_set(fence->handle_, RTE_INTR_HANDLE_EXT);
  dpdk::handing_over(fence.get());
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
}

void InterruptFence::answer(void* self) {
  dpdk::taking_over(self);
  auto& fence = *static_cast<InterruptFence*>(self);
  eventfd_t count = 0;
  if (eventfd_read(fence.event_.get(), &count) == 0) fence.answered_.fetch_add(1, std::memory_order_acq_rel);
}

void InterruptFence::ping() noexcept {
  ++sent_;
  // Cannot fail: the counter is 0, every earlier ping having been answered.
  if (eventfd_write(event_.get(), 1) != 0) --sent_;
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

namespace {

// Between two attempts: a daemon that comes back is found soon, and eight waiting workers cost nothing.
constexpr TimeNs kLeastPause = 50 * kMillisecond;
constexpr TimeNs kJitter = 50 * kMillisecond;
// The introduction takes some ten messages; a daemon that falls silent in the middle is called again. One
// that has not even said HELLO is waited for without end: the driver of 22.11 at its end, when it accepts a
// connection whose other side has gone, fails to send, frees the record but leaves the descriptor with EAL,
// and EAL's interrupt thread then ends the process ('Error adding fd'). A stopped daemon must survive its
// waking up.
constexpr TimeNs kIntroduction = 2 * kSecond;
// For the same reason we do not leave without a HELLO at once: so many milliseconds.
constexpr int kFarewellTries = 100;
constexpr TimeNs kMessagePeriod = 200 * kMicrosecond;
// How soon a daemon's end is seen while packets flow: one recvmsg() per period.
constexpr TimeNs kWatchPeriod = kMillisecond;

}  // namespace

Result<std::unique_ptr<MemifLink>> MemifLink::create(MemifRelay& relay, dpdk::Port& port,
                                                     std::uint64_t random) {
  std::unique_ptr<MemifLink> link(new MemifLink(relay, port, random));
  auto fence = InterruptFence::create();
  if (!fence) return tl::unexpected(fence.error());
  link->fence_ = std::move(*fence);
  return link;
}

MemifLink::~MemifLink() {
  for (int i = 0; i < kFarewellTries && state_ == State::kJoining && !relay_.driver_involved(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!relay_.pump()) break;
  }
  if (fence_ != nullptr) fence_->wait();
}

TimeNs MemifLink::pause() noexcept {
  random_ = mix64(random_ + 1);
  return kLeastPause + random_ % kJitter;
}

void MemifLink::lost(TimeNs now) noexcept {
  relay_.hang_up();
  if (!relay_.driver_involved()) {
    state_ = State::kDown;
    due_ = now + pause();
    return;
  }
  state_ = State::kEmptying;
  fence_->raise();
  due_ = now;
}

void MemifLink::restart(TimeNs now) {
  // Stops the port on this thread: memory is unmapped here and nowhere else. A failure leaves the driver
  // without a connection to us, and the next turn comes back here.
  if (!port_.restart()) {
    due_ = now + pause();
    return;
  }
  relay_.new_driver();
  state_ = State::kDown;
  due_ = now + pause();
}

void MemifLink::step(TimeNs now) {
  if (now < due_) return;
  switch (state_) {
    case State::kDown:
      if (!relay_.call_daemon()) {
        due_ = now + pause();
        return;
      }
      state_ = State::kJoining;
      give_up_ = now + kIntroduction;
      [[fallthrough]];
    case State::kJoining:
      due_ = now + kMessagePeriod;
      if (!relay_.pump() || (relay_.driver_involved() && now >= give_up_)) return lost(now);
      if (!relay_.driver_involved()) give_up_ = now + kIntroduction;
      if (!relay_.introduced() || !port_.link_up()) return;
      state_ = State::kUp;
      ++connections_;
      return;
    case State::kUp:
      due_ = now + kWatchPeriod;
      if (!relay_.pump()) lost(now);
      return;
    case State::kEmptying:
      due_ = now + kMessagePeriod;
      if (fence_->passed()) restart(now);
      return;
  }
}

}  // namespace tally::dpdk_transport
