#pragma once
// What the original's clients ask their session service, in its order: Broadcast; rank 0 UdpSession and Barrier, the others
// Barrier and UdpSession; Barrier. Each on a connection of its own, without a deadline, and never again.

#include <memory>
#include <string>
#include <vector>

#include "stock_session.h"
#include "tally/error.h"

namespace tally::stock {

// The clients of one session; their connections are open as long as this is there.
class ServiceCalls {
 public:
  // target: HOST:PORT.
  ServiceCalls(const std::string& target, std::size_t members);
  ServiceCalls(ServiceCalls&&) noexcept;
  ServiceCalls& operator=(ServiceCalls&&) noexcept;
  ServiceCalls(const ServiceCalls&) = delete;
  ServiceCalls& operator=(const ServiceCalls&) = delete;
  ~ServiceCalls();

  // All members at once, each in a thread. Writes the box's addresses into `session.members`. An error: what the
  // first rank was told that did not get its session.
  [[nodiscard]] Result<void> ask(SessionOptions& session);

 private:
  class Client;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace tally::stock
