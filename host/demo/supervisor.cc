#include "supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tally {
namespace {

using Clock = std::chrono::steady_clock;

// Reads all there is now. False at its end: nobody can write any more.
bool read_all(const Descriptor& from, const std::function<void(std::span<const std::byte>)>& use) {
  std::array<std::byte, 16384> buffer;
  while (true) {
    const ssize_t n = read(from.get(), buffer.data(), buffer.size());
    if (n > 0)
      use(std::span(buffer).first(static_cast<std::size_t>(n)));
    else if (n == 0 || errno != EINTR)
      return n < 0 && errno == EAGAIN;
  }
}

void take_lines(Descriptor& from, std::string& line, const std::function<void(std::string_view)>& use) {
  if (!from.open()) return;
  const bool more = read_all(from, [&](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      if (byte != std::byte{'\n'}) {
        line += static_cast<char>(byte);
        continue;
      }
      use(line);
      line.clear();
    }
  });
  if (more) return;
  if (!line.empty()) use(std::exchange(line, {}));
  from.close();
}

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::create() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Descriptor signals(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals.open())
    return fail(ErrorCode::kSystem, std::string("cannot take signals: ").append(std::strerror(errno)));
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(signals)));
}

Supervisor::~Supervisor() {
  std::vector<Child*> all;
  for (const auto& child : children_) {
    child->on_line = nullptr;  // whom they would tell may be gone
    child->on_extra = nullptr;
    child->on_end = nullptr;
    all.push_back(child.get());
  }
  end(all, std::chrono::milliseconds(0));
}

Result<Supervisor::Child*> Supervisor::start(const ChildOptions& options) {
  auto process = ChildProcess::start(options);
  if (!process) return tl::unexpected<Error>(process.error());
  children_.push_back(std::make_unique<Child>(Child{.process = std::move(*process)}));
  return children_.back().get();
}

void Supervisor::turn(std::chrono::milliseconds longest, int other_fd) {
  std::vector<pollfd> wanted{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                             {.fd = other_fd, .events = POLLIN, .revents = 0}};
  for (const auto& child : children_) {
    for (const auto* pipe : {&child->process.out, &child->process.err, &child->process.extra})
      wanted.push_back({.fd = pipe->get(), .events = POLLIN, .revents = 0});
  }
  poll(wanted.data(), wanted.size(), static_cast<int>(longest.count()));
  read_signals();
  for (const auto& child : children_) read_child(*child);
}

void Supervisor::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    signal_ = static_cast<int>(info.ssi_signo);
    ++interrupts_;
  }
}

void Supervisor::read_child(Child& child) {
  // Asked first, read afterwards: what it wrote before its end is in the pipes then.
  const bool ended = child.process.ended();
  take_lines(child.process.out, child.out_line, [&](std::string_view line) {
    if (child.on_line) child.on_line(Stream::kOut, line);
  });
  take_lines(child.process.err, child.err_line, [&](std::string_view line) {
    if (child.on_line) child.on_line(Stream::kErr, line);
  });
  const auto extra = [&](std::span<const std::byte> bytes) {
    if (child.on_extra) child.on_extra(bytes);
  };
  if (child.process.extra.open() && !read_all(child.process.extra, extra)) child.process.extra.close();
  if (ended && !child.told) {
    child.told = true;
    if (child.on_end) child.on_end();
  }
}

void Supervisor::end(std::span<Child* const> children, std::chrono::milliseconds patience) {
  const auto running = [&] {
    return std::any_of(children.begin(), children.end(), [](const Child* c) { return c->process.running(); });
  };
  const auto signal_all = [&](int number) {
    for (const Child* child : children) child->process.signal(number);
  };
  if (patience.count() > 0) signal_all(SIGTERM);
  const int before = interrupts_;
  const auto until = Clock::now() + patience;
  while (running() && Clock::now() < until && interrupts_ == before) turn(std::chrono::milliseconds(50));
  signal_all(SIGKILL);
  while (running()) turn(std::chrono::milliseconds(50));  // SIGKILL cannot be refused
}

}  // namespace tally
