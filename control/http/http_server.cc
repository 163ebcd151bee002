#include "http/http_server.h"

#include <system_error>
#include <utility>

#include "tally/background_thread.h"

namespace tally::http {
namespace {

constexpr int kLongestSleep = 60'000;  // ms; the bell ends it

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(Shell::Options options,
                                                      const std::vector<std::uint16_t>& avoid) {
  const Exchange& exchange = options.exchange;
  auto shell = Shell::make(std::move(options));
  if (!shell) return tl::unexpected<Error>(std::move(shell.error()));
  std::unique_ptr<HttpServer> made(new HttpServer(std::move(*shell), exchange));
  try {
    made->thread_ = background_thread("tally-http", avoid, [server = made.get()] { server->run(); });
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

void HttpServer::run() {
  while (!over_.load(std::memory_order_acquire)) shell_->turn(kLongestSleep);
  shell_->begin_to_end();
  const TimeNs until = steady_now() + kFarewell;
  for (TimeNs now = steady_now(); now < until && shell_->counts().connections != 0; now = steady_now())
    shell_->turn(static_cast<int>((until - now) / kMillisecond) + 1);
}

}  // namespace tally::http
