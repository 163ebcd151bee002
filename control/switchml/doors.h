#pragma once
// The TCP ports of the session service, and the connections that came through them. gRPC does not tell when one ends,
// which is the only farewell of a client: so each is watched through a descriptor of our own.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session_service/requests.h"
#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::switchml_service {

class Doors {
 public:
  struct Came {
    session_service::ConnectionId connection = 0;
    std::size_t port = 0;  // its place in the list
    std::string where{};   // "10.0.0.12:40822"
    int fd = -1;           // for gRPC, which owns it from now on
  };

  // address: "any", or an IP address. An error names the port.
  [[nodiscard]] static Result<Doors> open(const std::string& address,
                                          const std::vector<std::uint16_t>& ports);

  // Becomes readable when somebody came or went.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  // What happened since, for one round.
  struct News {
    std::vector<Came> came{};
    std::vector<session_service::ConnectionId> gone{};
    std::string trouble{};  // nobody could be taken
  };
  [[nodiscard]] News look(TimeNs now);
  // Who has the descriptor that gRPC calls "fd:12".
  [[nodiscard]] std::optional<session_service::ConnectionId> connection_of(const std::string& peer) const;
  [[nodiscard]] std::size_t connections() const noexcept { return open_.size(); }
  // Both ends learn it; look() does not tell of it.
  void hang_up(session_service::ConnectionId connection);

 private:
  Doors() = default;
  void forget(session_service::ConnectionId connection);
  [[nodiscard]] Result<void> listen(const std::string& address, std::uint16_t port);
  [[nodiscard]] std::optional<std::string> take(std::size_t port, News& news);

  UniqueFd epoll_{};
  std::vector<UniqueFd> listening_{};
  std::map<session_service::ConnectionId, UniqueFd> open_{};  // our descriptors
  std::map<int, session_service::ConnectionId> by_fd_{};      // of gRPC's
  session_service::ConnectionId last_ = 0;
  TimeNs paused_until_ = 0;
};

}  // namespace tally::switchml_service
