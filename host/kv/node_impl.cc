#include "kv/node_impl.h"

#include <future>
#include <sstream>

#include "kv/slicing.h"
#include "random/random.h"
#include "tally/background_thread.h"

namespace tally::kv {
namespace {

constexpr int kStartBarrier = -1;  // customer of the barrier that start() ends with
constexpr int kAll = kScheduler + kServerGroup + kWorkerGroup;
constexpr auto kGrace =
    std::chrono::seconds(5);  // the scheduler, which knows who is missing, gives up before us
constexpr auto kFarewell = std::chrono::seconds(2);  // for what waits to be sent, at the end

Frame frame_of(FrameType type, SArray<Key> words, std::string text = {}) {
  Frame frame;
  frame.type = type;
  frame.data.keys = std::move(words);
  frame.text = std::move(text);
  return frame;
}

asio::ip::address address_of(const std::string& text, const char* variable) {
  asio::error_code error;
  auto address = asio::ip::make_address(text, error);
  if (error)
    throw Failure(ErrorCode::kInvalidArgument,
                  std::string(variable) + ": '" + text + "' is not an IP address; names are not looked up");
  return address;
}

}  // namespace

NodeImpl::NodeImpl(NodeOptions options) : options_(std::move(options)), key_(system_key(options_.token)) {
  if (options_.workers < 1 || options_.workers > 4096 || options_.servers < 0 || options_.servers > 1024)
    throw Failure(ErrorCode::kInvalidArgument,
                  "a key-value system has 1 to 4096 workers (DMLC_NUM_WORKER) and 0 to 1024 "
                  "servers (DMLC_NUM_SERVER), not " +
                      std::to_string(options_.workers) + " and " + std::to_string(options_.servers));
  ranges_ = ranges_of(options_.servers);
  servers_.resize(static_cast<std::size_t>(options_.servers));
  workers_.resize(static_cast<std::size_t>(options_.workers));
  const auto root = address_of(options_.root, "DMLC_PS_ROOT_URI");
  if (options_.role == Role::kSchedules) {
    cluster_ = random::word();
    rendezvous_ = std::make_unique<Rendezvous>(options_.workers, options_.servers);
    listen({root, options_.port});
  } else if (options_.role == Role::kServes) {
    const auto any =
        root.is_v4() ? asio::ip::address(asio::ip::address_v4::any()) : asio::ip::address_v6::any();
    listen({options_.host.empty() ? any : address_of(options_.host, "DMLC_NODE_HOST"), 0});
  }
}

NodeImpl::~NodeImpl() {
  try {
    {
      const std::lock_guard lock(mutex_);
      starts_ = 1;
    }
    finalize(false);
  } catch (const std::exception&) {  // of what on_exit() was given: there is nobody to tell
  }
}

std::string NodeImpl::root_name() const {
  return "the scheduler at " + options_.root + ":" + std::to_string(options_.port);
}

// --- Start and end.

void NodeImpl::start() {
  std::unique_lock lock(mutex_);
  if (ended_) throw Failure(ErrorCode::kClosed, "this node has ended; a process starts once");
  if (starts_++ == 0) {
    deadline_ = std::chrono::steady_clock::now() + options_.join_timeout;
    thread_ = background_thread("tally-kv-net", {}, [this] { io_.run(); });
    asio::post(io_, [this] {
      if (acceptor_.is_open()) accept();
      if (!rendezvous_) call({asio::ip::make_address(options_.root), options_.port}, Role::kSchedules, 0);
      patience_.expires_at(rendezvous_ ? deadline_ : deadline_ + kGrace);
      patience_.async_wait([this](const asio::error_code& error) {
        if (error) return;
        {
          const std::lock_guard joined(mutex_);
          if (joined_) return;
        }
        if (rendezvous_) return say(rendezvous_->give_up());
        fail(ErrorCode::kTimeout, scheduler_ ? root_name() + " did not bring everybody together in time"
                                             : root_name() + " did not answer in time");
      });
    });
    changed_.wait(lock, [this] { return joined_ || failure_; });
    if (!failure_) {
      lock.unlock();
      try {
        std::unique_ptr<BoxPath> box;
        if (options_.role == Role::kWorks && options_.box) box = BoxPath::join(rank_, options_.workers);
        arrive(kStartBarrier, kAll, false);
        lock.lock();
        box_ = std::move(box);
        wait_at(lock, kStartBarrier, kAll, false);
        started_ = true;
      } catch (const Failure& failure) {
        if (!lock) lock.lock();
        if (!failure_) failure_ = failure;
      }
      changed_.notify_all();
    }
  }
  changed_.wait(lock, [this] { return started_ || failure_; });
  if (!started_) throw *failure_;
}

void NodeImpl::finalize(bool barrier) {
  std::optional<Failure> trouble;
  {
    std::unique_lock lock(mutex_);
    if (ended_ || !thread_.joinable() || --starts_ > 0) return;
    if (barrier && started_ && box_) {
      BoxPath* const box = box_.get();
      lock.unlock();
      box->leave();
      lock.lock();
    }
    if (barrier && started_) {
      lock.unlock();
      arrive(0, kAll, true);
      lock.lock();
      try {
        wait_at(lock, 0, kAll, true);
      } catch (const Failure& failure) {
        trouble = failure;
      }
    }
    ended_ = leaving_ = true;
    changed_.notify_all();
  }
  close_all();
  std::shared_ptr<BoxPath> box;
  std::vector<std::function<void()>> functions;
  {
    const std::lock_guard lock(mutex_);
    box.swap(box_);
    functions.swap(at_exit_);
  }
  box.reset();
  for (const auto& function : functions) function();
  if (trouble) throw *trouble;
}

void NodeImpl::close_all() {
  std::promise<void> closed;
  asio::post(io_, [this, &closed] {
    asio::error_code ignored;
    acceptor_.close(ignored);
    patience_.cancel();
    for (const auto& [id, link] : links_) link->finish();
    closed.set_value();
  });
  closed.get_future().wait();
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFarewell, [this] { return counters_.connections == 0; });
  }
  work_.reset();
  io_.stop();
  thread_.join();
  for (int rank = 0; rank < options_.servers; ++rank) lose_server(rank, "this node has ended");
}

void NodeImpl::on_exit(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  at_exit_.push_back(std::move(function));
}

void NodeImpl::on_loss(std::function<void(const std::string&)> function) {
  const std::lock_guard lock(mutex_);
  on_loss_ = std::move(function);
}

void NodeImpl::fail(ErrorCode code, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_.emplace(code, what);
  changed_.notify_all();
}

std::shared_ptr<BoxPath> NodeImpl::box() const {
  const std::lock_guard lock(mutex_);
  return box_;
}

NodeStatistics NodeImpl::statistics() const {
  const std::shared_ptr<BoxPath> box = this->box();
  return {counters_.connections, counters_.frames_sent,    counters_.frames_received,
          counters_.bytes_sent,  counters_.bytes_received, counters_.strangers,
          counters_.malformed,   counters_.dropped,        box ? box->sums() : 0};
}

// --- Barriers.

void NodeImpl::barrier(int customer, int groups) {
  if ((groups & ~kAll) != 0 || (groups & group_of(options_.role)) == 0)
    throw Failure(ErrorCode::kInvalidArgument,
                  "a barrier of groups " + std::to_string(groups) +
                      ", of which this node is none: kScheduler 1, kServerGroup 2, kWorkerGroup 4");
  arrive(customer, groups, false);
  std::unique_lock lock(mutex_);
  wait_at(lock, customer, groups, false);
}

void NodeImpl::arrive(int customer, int groups, bool exit) {
  asio::post(io_, [this, customer, groups, exit] {
    if (rendezvous_) return say(rendezvous_->barrier(customer, groups, exit));
    Frame frame = frame_of(FrameType::kBarrier, {static_cast<Key>(groups), Key{exit ? 1U : 0U}});
    frame.customer = customer;
    if (scheduler_) (void)scheduler_->send(std::move(frame));
  });
}

void NodeImpl::wait_at(std::unique_lock<std::mutex>& lock, int customer, int groups, bool exit) {
  auto& over = releases_[{customer, groups, exit}];
  changed_.wait(lock, [this, &over] { return !over.empty() || failure_ || ended_; });
  if (over.empty()) throw failure_ ? *failure_ : Failure(ErrorCode::kClosed, "this node has ended");
  const std::string failed = over.front();
  over.pop_front();
  if (!failed.empty()) throw Failure(ErrorCode::kAborted, failed);
}

void NodeImpl::released(const Frame& frame) {
  if (frame.data.keys.size() != 2) return;
  const std::lock_guard lock(mutex_);
  const bool exit = frame.data.keys[1] != 0;
  releases_[{frame.customer, static_cast<int>(frame.data.keys[0]), exit}].push_back(frame.text);
  leaving_ |= exit;
  changed_.notify_all();
}

// What the scheduler says, to itself too.
void NodeImpl::say(const Rendezvous::Says& says) {
  for (const auto& [to, frame, last] : says) {
    if (to == Rendezvous::kSelf) {
      if (frame.type == FrameType::kRelease) released(frame);
      if (frame.type == FrameType::kGone) heard_gone(frame);
      continue;
    }
    const auto link = links_.find(to);
    if (link == links_.end()) continue;
    const Link kept = link->second;
    (void)kept->send(frame);
    if (last) kept->finish();
  }
  if (!rendezvous_->complete()) return;
  const std::lock_guard lock(mutex_);
  joined_ = true;
  changed_.notify_all();
}

void NodeImpl::register_with(const Link& scheduler) {
  cluster_ = scheduler->peer().cluster;
  (void)scheduler->send(frame_of(FrameType::kRegister,
                                 {static_cast<Key>(options_.rank + 1), Key{port_},
                                  static_cast<Key>(options_.workers), static_cast<Key>(options_.servers)},
                                 options_.host));
}

void NodeImpl::take_roster(const Frame& frame) {
  const auto servers = static_cast<std::size_t>(options_.servers);
  if (frame.data.keys.size() != servers + 1) return;
  rank_ = static_cast<int>(frame.data.keys[0]);
  std::istringstream addresses(frame.text);
  std::vector<Tcp::endpoint> endpoints;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < servers; ++i) {
      Peer& server = servers_[i];
      std::getline(addresses, server.address);
      server.port = static_cast<std::uint16_t>(frame.data.keys[i + 1]);
      asio::error_code error;
      endpoints.emplace_back(asio::ip::make_address(server.address, error), server.port);
    }
    joined_ = options_.role == Role::kServes || servers == 0;
    changed_.notify_all();
  }
  if (options_.role == Role::kServes) {
    (void)scheduler_->send(frame_of(FrameType::kReady, {}));
    return;
  }
  for (std::size_t i = 0; i < servers; ++i) call(endpoints[i], Role::kServes, static_cast<int>(i));
}

void NodeImpl::heard_gone(const Frame& frame) {
  if (frame.failed) return fail(ErrorCode::kRefused, root_name() + " says: " + frame.text);
  if (frame.data.keys.size() != 2) return;
  const auto role = static_cast<Role>(frame.data.keys[0]);
  const auto rank = static_cast<std::size_t>(frame.data.keys[1]);
  Link link;
  std::function<void(const std::string&)> tell;
  {
    const std::lock_guard lock(mutex_);
    tell = on_loss_;
    auto& peers = role == Role::kServes ? servers_ : workers_;
    if (rank < peers.size()) link = peers[rank].link;
  }
  if (tell) tell(frame.text);
  if (link) link->close(frame.text);
}

// --- Who speaks and listens here.

int NodeImpl::enter(int app, int customer, const std::weak_ptr<ReplyTaker>& taker) {
  const std::lock_guard lock(mutex_);
  auto& place = reply_takers_[{app, customer}];
  if (!place.expired())
    throw Failure(ErrorCode::kInvalidArgument, "there is a KVWorker of app " + std::to_string(app) +
                                                   " and customer " + std::to_string(customer) +
                                                   " already; give each a customer_id of its own");
  place = taker;
  return timestamps_[{app, customer}];
}

void NodeImpl::leave(int app, int customer, int next_timestamp) {
  const std::lock_guard lock(mutex_);
  reply_takers_.erase({app, customer});
  timestamps_[{app, customer}] = next_timestamp;
}

void NodeImpl::enter_server(int app, const std::weak_ptr<RequestTaker>& taker) {
  std::deque<std::pair<int, Frame>> parked;
  std::vector<int> lost;
  {
    const std::lock_guard lock(mutex_);
    for (int rank = 0; rank < options_.workers; ++rank) {
      if (!workers_[static_cast<std::size_t>(rank)].lost.empty()) lost.push_back(rank);
    }
    auto& place = request_takers_[app];
    if (!place.expired())
      throw Failure(ErrorCode::kInvalidArgument,
                    "there is a KVServer of app " + std::to_string(app) + " already");
    place = taker;
    parked.swap(parked_[app]);
  }
  const auto strong = taker.lock();
  for (auto& [worker, frame] : parked) (void)strong->take_request(worker, std::move(frame));
  for (const int rank : lost) strong->worker_lost(rank);
  resume_all();
}

void NodeImpl::leave_server(int app) {
  const std::lock_guard lock(mutex_);
  request_takers_.erase(app);
}

}  // namespace tally::kv
