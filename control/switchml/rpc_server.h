#pragma once
// gRPC as the session service sees it: calls come as requests with a number, and are answered by it. Its callbacks run
// in threads of gRPC's pool (2 to 16 of them, however many calls wait) and only put down what came.

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "session_service/requests.h"

namespace tally::switchml_service {

class PendingCall;  // of any method

class RpcServer {
 public:
  struct Asked {
    session_service::CallId call = 0;
    std::string peer{};  // "fd:12", of the connection that was given
    session_service::Request request{};
  };
  struct Cancelled {
    session_service::CallId call = 0;
  };
  using Event = std::variant<Asked, Cancelled>;

  // wake: from any thread, when there is something to take().
  explicit RpcServer(std::function<void()> wake);
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;
  ~RpcServer();  // ends all connections

  // A TCP connection, which does not block; it is gRPC's from now on.
  void serve(int fd);
  [[nodiscard]] std::vector<Event> take();
  // Of a call that has been answered: nothing happens.
  void answer(const session_service::Answer& answer);

  // For calls. Threads of gRPC.
  void add(PendingCall& call, std::string peer, const session_service::Request& request);
  void cancelled(session_service::CallId call);

 private:
  class Methods;

  const std::function<void()> wake_;
  std::mutex mutex_{};
  std::vector<Event> events_{};
  std::map<session_service::CallId, PendingCall*> pending_{};
  session_service::CallId last_ = 0;
  bool ended_ = false;  // who calls now is told so at once
  std::unique_ptr<Methods> methods_;
  std::unique_ptr<grpc::Server> server_{};
};

}  // namespace tally::switchml_service
