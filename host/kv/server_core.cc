// A KVServer without its type: requests in their order, answers to whom they are due.

#include <utility>

#include "kv/inbox.h"
#include "kv/node_impl.h"
#include "tally/kv_core.h"

namespace tally::kv {
namespace {

constexpr std::size_t kMostWaiting = std::size_t{64}
                                     << 20;  // bytes of requests, beyond which connections are held

int id_of_worker(int rank) noexcept { return 9 + 2 * rank; }

}  // namespace

class ServerCore::Impl final : public RequestTaker, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<NodeImpl> node, int app)
      : node_(std::move(node)),
        app_(app),
        inbox_("tally-kv-serve", kMostWaiting, [this] { node_->resume_all(); }) {}

  void enter() { node_->enter_server(app_, weak_from_this()); }
  void leave() {
    node_->leave_server(app_);
    inbox_.stop();
  }

  void serve(ValueKind kind, std::function<void(Arrival)> handle, std::function<void(int)> gone) {
    kind_ = kind;
    handle_ = std::move(handle);
    gone_ = std::move(gone);
    inbox_.begin();
  }

  bool take_request(int worker, Frame frame) override {
    const std::size_t bytes = kFrameHeaderBytes + sizes_of(frame).total();
    return inbox_.post([this, worker, frame = std::move(frame)] { handle(worker, frame); }, bytes);
  }
  void worker_lost(int worker) override {
    inbox_.post([this, worker] { gone_(worker); });
  }

  void set_alarm(TimeNs when, std::function<void()> work) { inbox_.set_alarm(when, std::move(work)); }
  void respond(const KVMeta& request, const Payload& data) {
    if (request.merged) {
      for (const KVMeta& part : *request.merged) respond(part, data);
      return;
    }
    Frame reply = reply_to(request);
    reply.pull = request.pull;
    if (request.pull) reply.data = data;
    node_->send_to_worker(request.rank(), std::move(reply));
  }

  void refuse(const KVMeta& request, const std::string& why, std::int64_t index) {
    if (request.merged) {
      for (const KVMeta& part : *request.merged) refuse(part, why, index);
      return;
    }
    Frame reply = reply_to(request);
    reply.failed = true;
    reply.text = why;
    reply.index = index;
    node_->send_to_worker(request.rank(), std::move(reply));
  }

  [[nodiscard]] int workers() const noexcept { return node_->options().workers; }

 private:
  [[nodiscard]] Frame reply_to(const KVMeta& request) const {
    Frame reply;
    reply.type = FrameType::kReply;
    reply.kind = kind_;
    reply.app = app_;
    reply.customer = request.customer_id;
    reply.timestamp = request.timestamp;
    reply.cmd = request.cmd;
    return reply;
  }

  // On this server's thread.
  void handle(int worker, const Frame& frame) {
    KVMeta meta;
    meta.cmd = frame.cmd;
    meta.push = frame.push;
    meta.pull = frame.pull;
    meta.sender = id_of_worker(worker);
    meta.timestamp = frame.timestamp;
    meta.customer_id = frame.customer;
    if (frame.kind != kind_)
      return refuse(meta, "this server's values are of another type", Failure::kNoIndex);
    try {
      handle_({meta, frame.kind, frame.data});
    } catch (const Failure& failure) {
      refuse(meta, failure.what(), failure.index());
    } catch (const std::exception& error) {
      refuse(meta, error.what(), Failure::kNoIndex);
    }
  }

  const std::shared_ptr<NodeImpl> node_;
  const int app_;
  ValueKind kind_{};
  std::function<void(Arrival)> handle_{};
  std::function<void(int)> gone_{};
  Inbox inbox_;  // the last: it uses the others
};

ServerCore::ServerCore(Node& node, int app_id) : impl_(std::make_shared<Impl>(node.impl_, app_id)) {
  impl_->enter();
}
ServerCore::~ServerCore() { impl_->leave(); }

void ServerCore::serve(ValueKind kind, std::function<void(Arrival)> handle, std::function<void(int)> gone) {
  impl_->serve(kind, std::move(handle), std::move(gone));
}
void ServerCore::set_alarm(TimeNs when, std::function<void()> work) {
  impl_->set_alarm(when, std::move(work));
}
void ServerCore::respond(const KVMeta& request, const Payload& data) { impl_->respond(request, data); }
void ServerCore::refuse(const KVMeta& request, const std::string& why, std::int64_t index) {
  impl_->refuse(request, why, index);
}
int ServerCore::workers() const noexcept { return impl_->workers(); }

}  // namespace tally::kv
