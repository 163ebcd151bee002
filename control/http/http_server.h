#pragma once
// The HTTP thread: a Shell, its turns and its end. It sleeps while nobody asks, runs on no CPU of a data core where
// there is another, and never touches the state of the daemon. Owner: the control thread.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "http/shell.h"
#include "tally/error.h"

namespace tally::http {

class HttpServer {
 public:
  // avoid: CPUs of the data cores. Fails where a thread or a descriptor cannot be had.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> start(Shell::Options options,
                                                                 const std::vector<std::uint16_t>& avoid);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Event streams get their end, answers that are under way kFarewell to be read; then the thread is joined.
  ~HttpServer();

 private:
  static constexpr TimeNs kFarewell = 300 * kMillisecond;

  HttpServer(std::unique_ptr<Shell> shell, const Exchange& exchange) noexcept
      : shell_(std::move(shell)), exchange_(exchange) {}
  void run();

  std::unique_ptr<Shell> shell_;
  const Exchange& exchange_;
  std::atomic<bool> over_{false};
  std::thread thread_{};
};

}  // namespace tally::http
