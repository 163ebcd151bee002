#include "switchml/rpc_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <session_service.grpc.pb.h>

#include <chrono>
#include <utility>

namespace tally::switchml_service {

using session_service::Answer;
using session_service::CallId;

// Lives until gRPC is done with it. Finished once, by whoever takes it out of the server's map.
class PendingCall : public grpc::ServerUnaryReactor {
 public:
  explicit PendingCall(RpcServer& server) : server_(server) {}
  void numbered(CallId id) noexcept { id_ = id; }
  void finish(const Answer& answer) {
    if (answer.status.ok()) {
      fill(answer);
      return Finish(grpc::Status::OK);
    }
    Finish({static_cast<grpc::StatusCode>(answer.status.code), answer.status.text});
  }

 private:
  virtual void fill(const Answer& answer) = 0;
  void OnCancel() override { server_.cancelled(id_); }
  void OnDone() override { delete this; }

  RpcServer& server_;
  CallId id_ = 0;
};

namespace {

Answer stopping(CallId call) {
  return {.call = call,
          .status = {session_service::Code::kUnavailable,
                     "the session service is stopping: start the clients again"}};
}

constexpr int kMostRequestBytes = 4'096;
constexpr int kMostCallsOfAConnection = 4;                  // clients make one after the other
constexpr std::size_t kMostBytes = std::size_t{64} << 20U;  // of all connections

void put(const Answer& answer, switchml_proto::UdpSessionResponse& to) {
  to.set_session_id(answer.value);
  to.set_mac(answer.mac);
  to.set_ipv4(answer.ipv4);
}
void put(const Answer& answer, switchml_proto::BroadcastResponse& to) { to.set_value(answer.value); }
void put(const Answer& /*answer*/, switchml_proto::BarrierResponse& /*to*/) {}
void put(const Answer& /*answer*/, switchml_proto::RdmaSessionResponse& /*to*/) {}

template <class Response>
class CallOf final : public PendingCall {
 public:
  CallOf(RpcServer& server, Response& response) : PendingCall(server), response_(response) {}

 private:
  void fill(const Answer& answer) override { put(answer, response_); }
  Response& response_;
};

template <class Response>
grpc::ServerUnaryReactor* begin(RpcServer& server, grpc::CallbackServerContext& context, Response& response,
                                const session_service::Request& request) {
  auto* const call = new CallOf<Response>(server, response);  // OnDone() deletes it
  server.add(*call, context.peer(), request);
  return call;
}

namespace proto = switchml_proto;

class SessionMethods final : public proto::Session::CallbackService {
 public:
  explicit SessionMethods(RpcServer& server) : server_(server) {}
  grpc::ServerUnaryReactor* UdpSession(grpc::CallbackServerContext* context,
                                       const proto::UdpSessionRequest* r,
                                       proto::UdpSessionResponse* response) override {
    return begin(server_, *context, *response,
                 session_service::UdpSession{r->session_id(), r->rank(), r->num_workers(), r->mac(),
                                             r->ipv4(), static_cast<std::uint32_t>(r->packet_size())});
  }
  grpc::ServerUnaryReactor* RdmaSession(grpc::CallbackServerContext* context,
                                        const proto::RdmaSessionRequest* /*request*/,
                                        proto::RdmaSessionResponse* response) override {
    return begin(server_, *context, *response, session_service::RdmaSession{});
  }

 private:
  RpcServer& server_;
};

class SyncMethods final : public proto::Sync::CallbackService {
 public:
  explicit SyncMethods(RpcServer& server) : server_(server) {}
  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context,
                                    const proto::BarrierRequest* request,
                                    proto::BarrierResponse* response) override {
    return begin(server_, *context, *response, session_service::Barrier{request->num_workers()});
  }
  grpc::ServerUnaryReactor* Broadcast(grpc::CallbackServerContext* context, const proto::BroadcastRequest* r,
                                      proto::BroadcastResponse* response) override {
    return begin(server_, *context, *response,
                 session_service::Broadcast{r->value(), r->rank(), r->num_workers(), r->root()});
  }

 private:
  RpcServer& server_;
};

}  // namespace

class RpcServer::Methods {
 public:
  explicit Methods(RpcServer& server)
      : session(std::make_unique<SessionMethods>(server)), sync(std::make_unique<SyncMethods>(server)) {}
  std::unique_ptr<proto::Session::CallbackService> session;
  std::unique_ptr<proto::Sync::CallbackService> sync;
};

RpcServer::RpcServer(std::function<void()> wake)
    : wake_(std::move(wake)), methods_(std::make_unique<Methods>(*this)) {
  grpc::ServerBuilder builder;  // without a port of its own: Doors knows who came through which
  builder.RegisterService(methods_->session.get());
  builder.RegisterService(methods_->sync.get());
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCallsOfAConnection);
  builder.SetResourceQuota(grpc::ResourceQuota("clients").Resize(kMostBytes));
  server_ = builder.BuildAndStart();
}

RpcServer::~RpcServer() {
  if (!server_) return;
  // gRPC waits for each call that has no answer, also for one that came after the last take().
  std::map<CallId, PendingCall*> left;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    left.swap(pending_);
  }
  for (const auto& [id, call] : left) call->finish(stopping(id));
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void RpcServer::serve(int fd) { grpc::AddInsecureChannelFromFd(server_.get(), fd); }

std::vector<RpcServer::Event> RpcServer::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

void RpcServer::answer(const Answer& answer) {
  PendingCall* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(answer.call);
    if (found == pending_.end()) return;
    call = found->second;
    pending_.erase(found);
  }
  call->finish(answer);
}

void RpcServer::add(PendingCall& call, std::string peer, const session_service::Request& request) {
  bool ended = false;
  CallId id = 0;
  {
    const std::lock_guard lock(mutex_);
    call.numbered(id = ++last_);
    ended = ended_;
    if (!ended) {
      pending_.emplace(id, &call);
      events_.emplace_back(Asked{id, std::move(peer), request});
    }
  }
  if (ended) return call.finish(stopping(id));
  wake_();
}

void RpcServer::cancelled(CallId call) {
  {
    const std::lock_guard lock(mutex_);
    events_.emplace_back(Cancelled{call});
  }
  wake_();
}

}  // namespace tally::switchml_service
