#include "http/http_server.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace tally::http {
namespace {

constexpr int kLongestSleep = 60'000;  // ms; the bell ends it

// The control thread takes the signals.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void keep_off(const std::vector<std::uint16_t>& cpus) noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (const std::uint16_t cpu : cpus) {
    if (cpu < CPU_SETSIZE) CPU_CLR(cpu, &allowed);
  }
  if (CPU_COUNT(&allowed) != 0) (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(Shell::Options options,
                                                      const std::vector<std::uint16_t>& avoid) {
  const Exchange& exchange = options.exchange;
  auto shell = Shell::make(std::move(options));
  if (!shell) return tl::unexpected<Error>(std::move(shell.error()));
  std::unique_ptr<HttpServer> made(new HttpServer(std::move(*shell), exchange));
  const SignalsBlocked blocked;
  try {
    made->thread_ = std::thread([server = made.get(), avoid] { server->run(avoid); });
  } catch (const std::system_error& e) {
    return system_failure("there is no thread for HTTP", e.code().value(), "control.http");
  }
  return made;
}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  over_.store(true, std::memory_order_release);
  exchange_.ring();
  thread_.join();
}

void HttpServer::run(const std::vector<std::uint16_t>& avoid) {
  (void)pthread_setname_np(pthread_self(), "tally-http");
  keep_off(avoid);
  while (!over_.load(std::memory_order_acquire)) shell_->turn(kLongestSleep);
  shell_->begin_to_end();
  const TimeNs until = steady_now() + kFarewell;
  for (TimeNs now = steady_now(); now < until && shell_->counts().connections != 0; now = steady_now())
    shell_->turn(static_cast<int>((until - now) / kMillisecond) + 1);
}

}  // namespace tally::http
