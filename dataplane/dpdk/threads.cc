#include "dpdk/threads.h"

#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <atomic>
#include <semaphore>

namespace tally::dpdk {
namespace {

std::atomic<bool> memif_opened = false;

struct Job {
  const std::function<void()>& work;
  std::binary_semaphore done{0};
};

}  // namespace

void note_memif() noexcept { memif_opened = true; }
bool memif_was_opened() noexcept { return memif_opened; }

void on_interrupt_thread(const std::function<void()>& work) {
  Job job{.work = work};
  const auto run = [](void* self) {
    taking_over(self);
    auto* mine = static_cast<Job*>(self);
    mine->work();
    mine->done.release();
  };
  handing_over(&job);
  // Alarms ring on that thread.
  if (rte_thread_is_intr() == 0 && rte_eal_alarm_set(1, run, &job) == 0) {
    job.done.acquire();
  } else {
    work();
  }
}

}  // namespace tally::dpdk
