#pragma once
// A tallyd, asked over its control socket by a thread of its own: whatever it does, nobody else waits for it.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "client/connection.h"
#include "session_service/service.h"

namespace tally::switchml_service {

class BoxLink {
 public:
  using Report = session_service::BoxSays<session_service::BoxReport>;
  struct Done {  // of an Add or a Remove
    bool add = false;
    std::string name{};
    session_service::BoxSays<void> result{};
  };
  using Said = std::variant<Report, Done>;

  // socket: a path, or empty for the only tallyd of the machine. prefix: of the names of our jobs. wake: from any
  // thread, when there is something to take().
  BoxLink(std::string socket, std::string prefix, std::function<void()> wake);
  BoxLink(const BoxLink&) = delete;
  BoxLink& operator=(const BoxLink&) = delete;
  ~BoxLink();  // waits for the answer under way, some seconds at most

  // Carried out in their order, each with an answer.
  void order(session_service::Order order);
  [[nodiscard]] std::vector<Said> take();

 private:
  template <class T>
  using Answer = tl::expected<T, client::Trouble>;

  void run();
  [[nodiscard]] Said carry_out(const session_service::Order& order);
  [[nodiscard]] Answer<client::Json> ask(const std::string& method, const client::Json& parameters);
  [[nodiscard]] Answer<session_service::BoxReport> look();

  const std::string socket_;
  const std::string prefix_;
  const std::function<void()> wake_;
  std::optional<client::Connection> connection_{};
  std::optional<session_service::BoxAddresses> addresses_{};  // of this connection's tallyd
  bool anew_ = true;                                          // no report over this connection yet
  std::mutex mutex_{};
  std::condition_variable more_{};
  std::vector<session_service::Order> orders_{};
  std::vector<Said> said_{};
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tally::switchml_service
