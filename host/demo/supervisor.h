#pragma once
// The children of the demo: what they say, when they end, and that they do end. One thread, one poll loop.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "child_process.h"

namespace tally {

class Supervisor {
 public:
  enum class Stream : std::uint8_t { kOut, kErr };

  struct Child {
    ChildProcess process;
    // Called by turn(). Lines are without their ends.
    std::function<void(Stream, std::string_view)> on_line{};
    std::function<void(std::span<const std::byte>)> on_extra{};
    std::function<void()> on_end{};      // after its last line
    std::string out_line{}, err_line{};  // begun, not ended
    bool told = false;                   // on_end was called
  };

  // Takes SIGINT, SIGTERM, SIGHUP and SIGCHLD of this thread: before other threads exist.
  [[nodiscard]] static Result<std::unique_ptr<Supervisor>> create();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();  // kills what still runs

  // Valid until the end of this.
  [[nodiscard]] Result<Child*> start(const ChildOptions& options);
  // Waits until something happens, at most so long; also for `other_fd` to be readable, if it is one.
  void turn(std::chrono::milliseconds longest, int other_fd = -1);

  // Ends the children by SIGTERM, and those that are still there after `patience` by SIGKILL. A further
  // Ctrl-C meanwhile ends the patience.
  void end(std::span<Child* const> children, std::chrono::milliseconds patience);

  // How often a person or another program wanted this to end; the newest signal.
  [[nodiscard]] int interrupts() const noexcept { return interrupts_; }
  [[nodiscard]] int interrupt_signal() const noexcept { return signal_; }

 private:
  explicit Supervisor(Descriptor signals) : signals_(std::move(signals)) {}
  void read_signals();
  void read_child(Child& child);

  Descriptor signals_;
  std::vector<std::unique_ptr<Child>> children_{};
  int interrupts_ = 0;
  int signal_ = 0;
};

}  // namespace tally
