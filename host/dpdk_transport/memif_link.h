#pragma once
// Brings a memif port's link up and keeps it up, on the thread that sends and receives.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dpdk/port.h"
#include "dpdk_transport/memif_relay.h"
#include "tally/error.h"
#include "tally/time.h"
#include "tally/unique_fd.h"

struct rte_intr_handle;

namespace tally::dpdk_transport {

// Waits until EAL's interrupt thread is through with everything that had arrived before. That thread runs the
// drivers' handlers without a lock; memif's frees and maps the memory of a port there. Who knows that no new
// message is on its way to a driver and that the fence has passed may stop, start or close the port.
//
// One turn of the thread handles a batch of file descriptors in no order that we know, so one ping could be
// answered before an older message of the same batch. The second ping is sent after the first was answered,
// is therefore of a later batch, and so comes after all of the first one's.

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
  UniqueFd event_;
  bool registered_ = false;
  unsigned wanted_ = 0;  // answers that let us pass
  unsigned sent_ = 0;
  std::atomic<unsigned> answered_ = 0;
};

class MemifLink {
 public:
  // port: opened with relay's private name; outlives this. relay: outlives the port, or the interrupt thread
  // would see the end of its connection while the port is being closed. random: spreads many workers'
  // attempts.
  [[nodiscard]] static Result<std::unique_ptr<MemifLink>> create(MemifRelay& relay, dpdk::Port& port,
                                                                 std::uint64_t random);
  MemifLink(const MemifLink&) = delete;
  MemifLink& operator=(const MemifLink&) = delete;
  // Waits for EAL's interrupt thread, about 100 us, and at most 100 ms for a daemon that has just been
  // called: afterwards the port may be closed.
  ~MemifLink();

  // One step; never blocks longer than a restart of the port (milliseconds). Nothing may be in a burst.
  void step(TimeNs now);
  // The port may be used until the next step().
  [[nodiscard]] bool up() const noexcept { return state_ == State::kUp; }
  // When step() has something to do again if no message arrives before.
  [[nodiscard]] TimeNs due() const noexcept { return due_; }
  [[nodiscard]] std::uint64_t connections() const noexcept { return connections_; }
  [[nodiscard]] const std::string& why_down() const noexcept { return relay_.why(); }

 private:
  enum class State : std::uint8_t {
    kDown,      // the driver waits for a daemon
    kJoining,   // messages go both ways
    kUp,        // CONNECTED has arrived and the driver is done with it
    kEmptying,  // the daemon is gone; the interrupt thread may still be busy with what it said
  };
  MemifLink(MemifRelay& relay, dpdk::Port& port, std::uint64_t random) noexcept
      : relay_(relay), port_(port), random_(random) {}
  void lost(TimeNs now) noexcept;
  void restart(TimeNs now);
  [[nodiscard]] TimeNs pause() noexcept;

  MemifRelay& relay_;
  std::unique_ptr<InterruptFence> fence_;
  dpdk::Port& port_;
  std::uint64_t random_;
  State state_ = State::kDown;
  TimeNs due_ = 0;
  TimeNs give_up_ = 0;
  std::uint64_t connections_ = 0;
};

}  // namespace tally::dpdk_transport
