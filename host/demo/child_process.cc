#include "child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tally {
namespace {

struct Pipe {
  Descriptor reading = Descriptor();
  Descriptor writing = Descriptor();
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return tl::unexpected<Error>(Error{
        ErrorCode::kSystem, std::string("cannot make a pipe: ").append(std::strerror(errno)), {}, errno});
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

void set_environment(const ChildOptions& options) {
  for (const auto& [key, value] : options.environment) {
    if (value.empty())
      unsetenv(key.c_str());
    else
      setenv(key.c_str(), value.c_str(), 1);
  }
}

// In the child.
void enter(const std::string& network_namespace) {
  if (network_namespace.empty()) return;
  const int fd = open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && setns(fd, CLONE_NEWNET) == 0) return;
  dprintf(STDERR_FILENO, "cannot enter the network namespace %s: %s\n", network_namespace.c_str(),
          std::strerror(errno));
  _exit(127);
}

// In the child; it has one thread, as the parent has, so ordinary functions may be used.
[[noreturn]] void become(const ChildOptions& options, pid_t parent, int out, int err, int extra) {
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(127);  // it died before the line above
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (extra >= 0) {
    // dup2 onto itself would keep close-on-exec.
    if (extra == options.extra_fd)
      fcntl(extra, F_SETFD, 0);
    else
      dup2(extra, options.extra_fd);
  }
  enter(options.network_namespace);
  set_environment(options);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<std::string> command = options.command;
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (auto& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
  auto out = make_pipe();
  auto err = make_pipe();
  auto extra = options.extra_fd >= 0 ? make_pipe() : Result<Pipe>(Pipe{});
  for (const auto* one : {&out, &err, &extra}) {
    if (!*one) return tl::unexpected<Error>(one->error());
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return tl::unexpected<Error>(Error{
        ErrorCode::kSystem, std::string("cannot start a process: ").append(std::strerror(errno)), {}, errno});
  }
  if (pid == 0) become(options, parent, out->writing.get(), err->writing.get(), extra->writing.get());
  ChildProcess child(options.name, pid);
  child.out = std::move(out->reading);
  child.err = std::move(err->reading);
  child.extra = std::move(extra->reading);
  return child;
}

bool ChildProcess::ended() noexcept {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

void ChildProcess::signal(int number) const noexcept {
  if (!status_) kill(pid_, number);  // not collected: the pid is still its own
}

int ChildProcess::code() const noexcept {
  if (!status_) return -1;
  return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

std::string ChildProcess::how_it_ended() const {
  if (!status_) return "is running";
  if (!WIFSIGNALED(*status_)) return "ended with exit code " + std::to_string(WEXITSTATUS(*status_));
  const int number = WTERMSIG(*status_);
  return "was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

}  // namespace tally
