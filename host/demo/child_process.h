#pragma once
// A process that this one started, with the ends of its pipes. It is ended by its pid; it also ends when this
// process dies, however that happens.

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tally/error.h"

namespace tally {

// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }
  void close() noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

struct ChildOptions {
  std::string name{};                                              // for messages
  std::vector<std::string> command{};                              // [0]: path, or name to be found in PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // set; an empty value removes
  std::string network_namespace{};  // a file such as /proc/PID/ns/net; empty: this process's own
  int death_signal = SIGKILL;       // what it gets when this process dies
  int extra_fd = -1;                // >= 3: another pipe, for the child to write to under this number
};

class ChildProcess {
 public:
  // The child has its own process group, so that Ctrl-C on the terminal reaches this process alone; no
  // blocked signals; /dev/null as stdin. Call from the thread that lives as long as the process: the death of
  // that thread is what a child notices. Failing to execute the program is a child that ends with 127.
  [[nodiscard]] static Result<ChildProcess> start(const ChildOptions& options);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool running() const noexcept { return !status_; }
  // Whether it has ended by now; collects it.
  bool ended() noexcept;
  void signal(int number) const noexcept;  // nothing once it has been collected
  // Exit code, or 128 + signal; only when it has ended.
  [[nodiscard]] int code() const noexcept;
  // "ended with exit code 1", "was killed by signal 9 (Killed)"
  [[nodiscard]] std::string how_it_ended() const;

  // Non-blocking ends for reading.
  Descriptor out = Descriptor();
  Descriptor err = Descriptor();
  Descriptor extra = Descriptor();

 private:
  ChildProcess(std::string name, pid_t pid) : name_(std::move(name)), pid_(pid) {}

  std::string name_;
  pid_t pid_;
  std::optional<int> status_{};  // of waitpid
};

}  // namespace tally
