#pragma once
// Brings a memif port's link up and keeps it up, on the thread that sends and receives.

#include <cstdint>
#include <memory>
#include <string>

#include "interrupt_fence.h"
#include "memif_relay.h"
#include "port.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally {

class MemifLink {
 public:
  // port: opened with relay's private name; outlives this. relay: outlives the port, or the interrupt thread
  // would see the end of its connection while the port is being closed. random: spreads many workers'
  // attempts.
  [[nodiscard]] static Result<std::unique_ptr<MemifLink>> create(MemifRelay& relay, Port& port,
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
  MemifLink(MemifRelay& relay, Port& port, std::uint64_t random) noexcept
      : relay_(relay), port_(port), random_(random) {}
  void lost(TimeNs now) noexcept;
  void restart(TimeNs now);
  [[nodiscard]] TimeNs pause() noexcept;

  MemifRelay& relay_;
  std::unique_ptr<InterruptFence> fence_;
  Port& port_;
  std::uint64_t random_;
  State state_ = State::kDown;
  TimeNs due_ = 0;
  TimeNs give_up_ = 0;
  std::uint64_t connections_ = 0;
};

}  // namespace tally
