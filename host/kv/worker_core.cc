// A KVWorker without its type: what is under way, who answered, when it is done.

#include <algorithm>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "kv/inbox.h"
#include "kv/node_impl.h"
#include "kv/slicing.h"
#include "kv/timestamps.h"
#include "tally/kv_core.h"

namespace tally::kv {
namespace {

constexpr std::size_t kKeptFailures = 65'536;  // of requests that nobody waited for yet
constexpr auto kLookAgain = std::chrono::milliseconds(1);

void throw_objection(const std::optional<Objection>& objection) {
  if (objection) throw Failure(ErrorCode::kInvalidArgument, objection->text, objection->index);
}

}  // namespace

class WorkerCore::Impl final : public ReplyTaker, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<NodeImpl> node, int app, int customer)
      : node_(std::move(node)), app_(app), customer_(customer) {}

  void enter() {
    timestamps_ = Timestamps(node_->enter(app_, customer_, weak_from_this()));
    inbox_.begin();
  }
  void leave() {
    inbox_.stop();
    const std::lock_guard lock(mutex_);
    node_->leave(app_, customer_, timestamps_.next());
  }

  int send(Request request) {
    if (request.parts.empty()) throw Failure(ErrorCode::kUnreachable, "this key-value system has no servers");
    std::vector<std::pair<int, Frame>> frames;
    Pending pending;
    for (Part& part : request.parts) {
      if (part.server < 0 || part.server >= static_cast<int>(node_->ranges().size()))
        throw Failure(ErrorCode::kInvalidArgument, "there is no server " + std::to_string(part.server));
      pending.asked[part.server] = {part.data.keys.size(), part.first};
      Frame frame;
      frame.type = FrameType::kRequest;
      frame.push = request.push;
      frame.pull = request.pull;
      frame.kind = request.kind;
      frame.app = app_;
      frame.customer = customer_;
      frame.cmd = request.cmd;
      frame.priority = request.priority;
      frame.data = std::move(part.data);
      if (!wait_for_room(request, part.server, kFrameHeaderBytes + sizes_of(frame).total()))
        throw_no_room(part, kFrameHeaderBytes + sizes_of(frame).total());
      frames.emplace_back(part.server, std::move(frame));
    }
    pending.pull = request.pull;
    pending.kind = request.kind;
    pending.gather = std::move(request.gather);
    pending.callback = std::move(request.callback);
    const int timestamp = begin(std::move(pending));
    for (auto& [server, frame] : frames) {
      frame.timestamp = timestamp;
      Sent sent = node_->send_to_server(server, frame);
      while (sent == Sent::kNoRoom && request.waits_for_room) {
        std::this_thread::sleep_for(kLookAgain);
        sent = node_->send_to_server(server, frame);
      }
      if (sent == Sent::kTaken) continue;
      const std::string why = sent == Sent::kLost
                                  ? node_->why_lost(server)
                                  : "what waits for server " + std::to_string(server) + " is too much";
      inbox_.post([this, timestamp, to = server, why] {
        fail_part(timestamp, to, Failure(ErrorCode::kUnreachable, why));
      });
    }
    return timestamp;
  }

  std::optional<int> send_to_box(DenseRequest request) {
    const auto box = node_->box();
    if (box == nullptr || !BoxPath::takes(request)) return std::nullopt;
    Pending pending;
    pending.asked[kBox] = {};
    pending.callback = std::move(request.callback);
    const int timestamp = begin(std::move(pending));
    box->sum(std::move(request), [self = weak_from_this(), timestamp](std::optional<Failure> failure) {
      const auto here = self.lock();
      if (!here) return;
      here->inbox_.post([core = here.get(), timestamp, failure = std::move(failure)] {
        if (failure) return core->fail_part(timestamp, kBox, *failure);
        core->answered(timestamp, kBox, {});
      });
    });
    return timestamp;
  }

  void wait(int timestamp) {
    if (inbox_.here())
      throw Failure(ErrorCode::kInvalidArgument,
                    "Wait in a callback would wait for itself; issue the next request instead");
    std::unique_lock lock(mutex_);
    check_timestamp(timestamp);
    done_.wait(lock, [this, timestamp] { return !pending_.contains(timestamp); });
    throw_failure(timestamp);
  }

  bool wait_for(int timestamp, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    check_timestamp(timestamp);
    if (inbox_.here()) patience = std::chrono::milliseconds(0);
    if (!done_.wait_for(lock, patience, [this, timestamp] { return !pending_.contains(timestamp); }))
      return false;
    throw_failure(timestamp);
    return true;
  }

  void on_failure(std::function<void(int, const Failure&)> handle) {
    const std::lock_guard lock(mutex_);
    on_failure_ = std::move(handle);
  }

  void take_reply(int server, Frame frame) override {
    inbox_.post([this, server, frame = std::move(frame)] { judge(server, frame); });
  }
  void server_lost(int server) override {
    inbox_.post([this, server] {
      std::vector<int> failed;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& [timestamp, pending] : pending_) {
          if (pending.asked.contains(server)) failed.push_back(timestamp);
        }
      }
      const std::string why = node_->why_lost(server);
      for (const int timestamp : failed) fail_part(timestamp, server, Failure(ErrorCode::kUnreachable, why));
    });
  }

  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return node_->ranges(); }

 private:
  static constexpr int kBox = -1;  // among servers
  struct Asked {
    std::size_t keys = 0;
    std::size_t first = 0;
  };
  struct Pending {
    bool pull = false;
    ValueKind kind{};
    std::map<int, Asked> asked{};  // who has not answered
    std::vector<Reply> replies{};
    std::optional<Failure> failure{};  // the first
    Gather gather{};
    std::function<void()> callback{};
  };

  // Queues are of the node: others of this process may have filled one. They drain in milliseconds, or the server is lost.
  [[nodiscard]] bool wait_for_room(const Request& request, int server, std::size_t bytes) const {
    while (!node_->has_room(server, bytes)) {
      if (!request.waits_for_room || bytes > node_->options().queue_bytes) return false;
      std::this_thread::sleep_for(kLookAgain);
    }
    return true;
  }

  [[noreturn]] void throw_no_room(const Part& part, std::size_t bytes) const {
    const std::size_t most = node_->options().queue_bytes;
    const std::string server = "server " + std::to_string(part.server);
    throw Failure(ErrorCode::kInvalidArgument,
                  bytes > most
                      ? "a request of " + std::to_string(bytes) + " bytes to " + server +
                            " is more than may wait for it, " + std::to_string(most) + " (TALLY_KV_QUEUE)"
                      : "what waits for " + server + " would be more than " + std::to_string(most) +
                            " bytes (TALLY_KV_QUEUE); Wait before the next request",
                  static_cast<std::int64_t>(part.first));
  }

  int begin(Pending pending) {
    const std::lock_guard lock(mutex_);
    const int timestamp = timestamps_.take([this](int used) { return pending_.contains(used); });
    failures_.erase(timestamp);
    pending_.emplace(timestamp, std::move(pending));
    return timestamp;
  }

  void check_timestamp(int timestamp) const {
    if (!timestamps_.has_given(timestamp))
      throw Failure(ErrorCode::kInvalidArgument, "no request of this KVWorker has timestamp " +
                                                     std::to_string(timestamp) + "; " + timestamps_.given());
  }
  void throw_failure(int timestamp) const {
    if (const auto at = failures_.find(timestamp); at != failures_.end()) throw at->second;
  }

  // The rest on this worker's thread.

  void judge(int server, const Frame& frame) {
    Asked asked;
    bool pull = false;
    ValueKind kind{};
    {
      const std::lock_guard lock(mutex_);
      const auto at = pending_.find(frame.timestamp);
      if (at == pending_.end() || !at->second.asked.contains(server)) return node_->count_dropped();
      asked = at->second.asked[server];
      pull = at->second.pull;
      kind = at->second.kind;
    }
    const std::string whose = name_of(Role::kServes, server) + ": ";
    if (frame.failed) {
      const auto index = frame.index < 0 ? frame.index : frame.index + static_cast<std::int64_t>(asked.first);
      return fail_part(frame.timestamp, server, Failure(ErrorCode::kRefused, whose + frame.text, index));
    }
    auto objection = objection_to_reply(frame, asked.keys, pull);
    if (!objection && pull && frame.kind != kind)
      objection = Objection{"the answer has values of another type"};
    if (objection)
      return fail_part(frame.timestamp, server, Failure(ErrorCode::kCorrupt, whose + objection->text));
    answered(frame.timestamp, server, frame.data);
  }

  void answered(int timestamp, int server, const Payload& data) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = pending_.find(timestamp);
      if (at == pending_.end() || at->second.asked.erase(server) == 0) return;
      if (at->second.pull) at->second.replies.push_back({server, data});
      if (!at->second.asked.empty()) return;
    }
    complete(timestamp);
  }

  void fail_part(int timestamp, int server, const Failure& failure) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = pending_.find(timestamp);
      if (at == pending_.end() || at->second.asked.erase(server) == 0) return;
      if (!at->second.failure) at->second.failure = failure;
      if (!at->second.asked.empty()) return;
    }
    complete(timestamp);
  }

  // It stays pending while its callback runs, so that Wait comes after it.
  void complete(int timestamp) {
    std::unique_lock lock(mutex_);
    Pending pending = std::move(pending_.at(timestamp));
    const auto on_failure = on_failure_;
    lock.unlock();
    std::sort(pending.replies.begin(), pending.replies.end(),
              [](const Reply& a, const Reply& b) { return a.server < b.server; });
    if (!pending.failure) {
      try {
        if (pending.gather) pending.gather(pending.replies);
        if (pending.callback) pending.callback();
      } catch (const Failure& failure) {
        pending.failure = failure;
      } catch (const std::exception& error) {
        pending.failure = Failure(ErrorCode::kAborted, std::string("its callback threw: ") + error.what());
      }
    }
    if (pending.failure && on_failure) on_failure(timestamp, *pending.failure);
    lock.lock();
    if (pending.failure) {
      failures_.emplace(timestamp, *pending.failure);
      if (failures_.size() > kKeptFailures) failures_.erase(failures_.begin());
    }
    pending_.erase(timestamp);
    done_.notify_all();
  }

  const std::shared_ptr<NodeImpl> node_;
  const int app_;
  const int customer_;
  std::mutex mutex_{};
  std::condition_variable done_{};
  Timestamps timestamps_{};
  std::map<int, Pending> pending_{};
  std::map<int, Failure> failures_{};
  std::function<void(int, const Failure&)> on_failure_{};
  Inbox inbox_{"tally-kv-worker", std::numeric_limits<std::size_t>::max(),
               [] {}};  // the last: it uses the others
};

WorkerCore::WorkerCore(Node& node, int app_id, int customer_id)
    : impl_(std::make_shared<Impl>(node.impl_, app_id, customer_id)) {
  impl_->enter();
}

WorkerCore::~WorkerCore() { impl_->leave(); }

void WorkerCore::check_keys(std::span<const Key> keys) { throw_objection(objection_to_keys(keys)); }

void WorkerCore::check_lens(std::size_t keys, std::span<const int> lens, std::optional<std::size_t> pushed) {
  throw_objection(objection_to_lens(keys, lens, pushed));
}

std::vector<Slice> WorkerCore::slices(std::span<const Key> keys, std::span<const int> lens, std::size_t vals,
                                      std::span<const Range> ranges) {
  return slices_of(keys, lens, vals, ranges);
}

int WorkerCore::send(Request request) { return impl_->send(std::move(request)); }
std::optional<int> WorkerCore::send_to_box(DenseRequest request) {
  return impl_->send_to_box(std::move(request));
}
void WorkerCore::wait(int timestamp) { impl_->wait(timestamp); }
bool WorkerCore::wait_for(int timestamp, std::chrono::milliseconds patience) {
  return impl_->wait_for(timestamp, patience);
}
void WorkerCore::on_failure(std::function<void(int, const Failure&)> handle) {
  impl_->on_failure(std::move(handle));
}
const std::vector<Range>& WorkerCore::ranges() const { return impl_->ranges(); }

}  // namespace tally::kv
