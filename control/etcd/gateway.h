#pragma once
// One connection to one of several etcd servers, and the next one when it fails; with TLS and a token where they are
// asked for. Blocks. Owner: one thread, but for stop().

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "etcd/messages.h"
#include "etcd/settings.h"
#include "fleet/store.h"

namespace httplib {
class Client;
}

namespace tally::etcd {

// Which server the gateways of one store go to: where one failed, the others need not find out. Any thread.
class Choice {
 public:
  explicit Choice(std::size_t servers) noexcept : servers_(servers) {}
  [[nodiscard]] std::size_t now() const noexcept { return now_.load(std::memory_order_relaxed) % servers_; }
  // That one failed. Unless somebody else has said so before.
  void failed(std::size_t server) noexcept { now_.compare_exchange_strong(server, (server + 1) % servers_); }

 private:
  std::size_t servers_;
  std::atomic<std::size_t> now_{0};
};

class Gateway {
 public:
  // Both outlive it.
  Gateway(const Settings& settings, Choice& choice);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  ~Gateway();

  // Until `deadline` of steady_now().
  [[nodiscard]] fleet::StoreResult ask(const fleet::Request& request, TimeNs deadline);

  // A watch, until it ends; `line` is called with each line and says whether to go on. Why it ended.
  using TakeLine = std::function<bool(std::string_view)>;
  [[nodiscard]] std::string stream(const Call& call, const TakeLine& line);
  // The next request shows who it is anew.
  void forget_token() noexcept { token_.clear(); }

  // Ends what is under way, as soon as its connection is made; nothing is begun any more. Any thread, again and again.
  void stop() noexcept;

 private:
  struct Sent;
  [[nodiscard]] Sent post(const Call& call, TimeNs deadline, const TakeLine* line);
  [[nodiscard]] std::shared_ptr<httplib::Client> client_of(std::size_t server);
  // Empty: a token is there, or none is needed.
  [[nodiscard]] std::unique_ptr<fleet::StoreError> show_who(TimeNs deadline);
  [[nodiscard]] fleet::StoreError try_once(const fleet::Request& request, const Call& call, TimeNs deadline,
                                           fleet::Reply& reply, bool& renewed);

  const Settings& settings_;
  Choice& choice_;
  std::size_t server_ = 0;  // of client_
  std::mutex mutex_{};      // of the pointer
  std::shared_ptr<httplib::Client> client_{};
  bool answered_ = false;  // by it, to this client
  std::string token_{};
  bool no_auth_ = false;  // etcd has said that it asks nobody
  std::atomic<bool> stopped_{false};
};

}  // namespace tally::etcd
