#include "kv/node_impl.h"

#include <algorithm>
#include <future>
#include <sstream>

#include "kv/slicing.h"
#include "random/random.h"
#include "tally/background_thread.h"

namespace tally::kv {
namespace {

constexpr int kStartBarrier = -1;  // customer of the barrier that start() ends with
constexpr int kAll = kScheduler + kServerGroup + kWorkerGroup;
constexpr auto kRetry = std::chrono::milliseconds(50);
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

std::string range_text(const Range& range) {
  std::ostringstream text;
  text << "keys " << range.begin() << ".." << (range.end() == kMaxKey ? kMaxKey : range.end() - 1);
  return text.str();
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

void NodeImpl::listen(const Tcp::endpoint& where) {
  try {
    acceptor_.open(where.protocol());
    acceptor_.set_option(Tcp::acceptor::reuse_address(true));
    acceptor_.bind(where);
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
  } catch (const asio::system_error& error) {
    throw Failure(ErrorCode::kSystem, "cannot listen on " + where.address().to_string() + ":" +
                                          std::to_string(where.port()) + ": " + error.code().message());
  }
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
  box_.reset();
  std::vector<std::function<void()>> functions;
  {
    const std::lock_guard lock(mutex_);
    functions.swap(at_exit_);
  }
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

NodeStatistics NodeImpl::statistics() const {
  return {counters_.connections, counters_.frames_sent,    counters_.frames_received,
          counters_.bytes_sent,  counters_.bytes_received, counters_.strangers,
          counters_.malformed,   counters_.dropped,        box_ ? box_->sums() : 0};
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

// --- Connections.

void NodeImpl::accept() {
  acceptor_.async_accept([this](const asio::error_code& error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    const auto unproven =
        std::count_if(links_.begin(), links_.end(), [](const auto& one) { return !one.second->proven(); });
    if (!error && static_cast<std::size_t>(unproven) < kMostUnproven) {
      const Link link =
          connection(std::move(socket), false, [this](const Link& opened) { opened_by_other(opened); });
      link->open(false);
    }
    if (!error) return accept();
    // No descriptors are left; there may be later.
    auto pause = std::make_shared<asio::steady_timer>(io_, kRetry);
    pause->async_wait([this, pause](const asio::error_code& cancelled) {
      if (!cancelled) accept();
    });
  });
}

// Again and again until somebody listens there.
void NodeImpl::call(const Tcp::endpoint& where, Role callee, int rank) {
  auto socket = std::make_shared<Tcp::socket>(io_);
  socket->async_connect(where, [this, socket, where, callee, rank](const asio::error_code& error) {
    if (!acceptor_.is_open() && options_.role == Role::kServes) return;  // it ends
    if (!error) {
      const Link link = connection(std::move(*socket), true, [this, callee, rank](const Link& opened) {
        if (opened->peer().role != callee || (callee == Role::kServes && opened->peer().rank != rank))
          return opened->close("somebody else answers at its address");
        if (callee == Role::kSchedules) return register_with(opened);
        const std::lock_guard lock(mutex_);
        servers_[static_cast<std::size_t>(rank)].link = opened;
        joined_ = ++reached_ == servers_.size();
        changed_.notify_all();
      });
      if (callee == Role::kSchedules) {
        scheduler_ = link;
        link->watch_closely();
      }
      return link->open(true);
    }
    if (std::chrono::steady_clock::now() > deadline_)
      return fail(ErrorCode::kUnreachable,
                  (callee == Role::kSchedules ? root_name()
                                              : name_of(callee, rank) + " at " + where.address().to_string() +
                                                    ":" + std::to_string(where.port())) +
                      " cannot be reached: " + error.message());
    auto pause = std::make_shared<asio::steady_timer>(io_, kRetry);
    pause->async_wait([this, pause, where, callee, rank](const asio::error_code& cancelled) {
      if (!cancelled) call(where, callee, rank);
    });
  });
}

NodeImpl::Link NodeImpl::connection(Tcp::socket socket, bool caller,
                                    std::function<void(const Link&)> opened) {
  const Handshake handshake(key_, caller, {options_.role, cluster_ != 0 ? rank_ : -1, cluster_},
                            random::word(), random::word());
  auto link = std::make_shared<Connection>(
      std::move(socket), handshake,
      Connection::Handlers{std::move(opened),
                           [this](const Link& from, Frame frame) { return received(from, std::move(frame)); },
                           [this](const Link& from, const std::string& why) { closed(from, why); }},
      options_.queue_bytes, counters_);
  link->id = next_id_++;
  links_[link->id] = link;
  return link;
}

void NodeImpl::opened_by_other(const Link& link) {
  if (rendezvous_) {
    link->watch_closely();
    return;  // it registers
  }
  const Party& peer = link->peer();
  if (peer.role != Role::kWorks || peer.rank < 0 || peer.rank >= options_.workers || peer.cluster != cluster_)
    return link->close("it is no worker of this key-value system");
  const std::lock_guard lock(mutex_);
  Peer& worker = workers_[static_cast<std::size_t>(peer.rank)];
  if (!worker.link && worker.lost.empty()) worker.link = link;
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

Connection::Taken NodeImpl::received(const Link& link, Frame frame) {
  using Taken = Connection::Taken;
  if (rendezvous_) {
    say(rendezvous_->take(link->id, link->peer().role, link->remote(), frame));
    return Taken::kGoOn;
  }
  if (link == scheduler_) {
    if (frame.type == FrameType::kRoster)
      take_roster(frame);
    else if (frame.type == FrameType::kRelease)
      released(frame);
    else if (frame.type == FrameType::kGone)
      heard_gone(frame);
    else
      return Taken::kMalformed;
    return Taken::kGoOn;
  }
  const int rank = link->peer().rank;
  if (options_.role == Role::kServes) {
    if (frame.type != FrameType::kRequest) return Taken::kMalformed;
    return take_request(rank, std::move(frame)) ? Taken::kGoOn : Taken::kHold;
  }
  if (frame.type != FrameType::kReply) return Taken::kMalformed;
  std::shared_ptr<ReplyTaker> taker;
  {
    const std::lock_guard lock(mutex_);
    const auto at = reply_takers_.find({frame.app, frame.customer});
    if (at != reply_takers_.end()) taker = at->second.lock();
  }
  if (taker)
    taker->take_reply(rank, std::move(frame));
  else
    count_dropped();
  return Taken::kGoOn;
}

bool NodeImpl::take_request(int worker, Frame frame) {
  if (const auto objection = objection_to_request(frame)) {
    Frame reply;
    reply.type = FrameType::kReply;
    reply.failed = true;
    reply.app = frame.app;
    reply.customer = frame.customer;
    reply.timestamp = frame.timestamp;
    reply.text = objection->text;
    reply.index = objection->index;
    ++counters_.malformed;
    send_to_worker(worker, std::move(reply));
    return true;
  }
  std::shared_ptr<RequestTaker> taker;
  {
    const std::lock_guard lock(mutex_);
    const auto at = request_takers_.find(frame.app);
    if (at != request_takers_.end()) taker = at->second.lock();
    if (!taker) {
      parked_[frame.app].emplace_back(worker, std::move(frame));
      return false;  // one for each worker, until there is a server for it
    }
  }
  return taker->take_request(worker, std::move(frame));
}

void NodeImpl::closed(const Link& link, const std::string& why) {
  links_.erase(link->id);
  {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    if (leaving_) return;
  }
  if (rendezvous_) return say(rendezvous_->lost(link->id, why));
  if (link == scheduler_) {
    std::string text = root_name() + " is lost: " + why;
    if (!link->proven()) text = root_name() + " was not joined: " + why;
    fail(ErrorCode::kUnreachable, text);
    std::function<void(const std::string&)> tell;
    {
      const std::lock_guard lock(mutex_);
      if (started_) tell = on_loss_;
    }
    if (tell) tell(text);
    return;
  }
  if (options_.role == Role::kWorks) {
    const int rank = link->peer().rank;
    if (!link->proven())
      return fail(ErrorCode::kUnreachable, "a server of this system was not joined: " + why);
    lose_server(rank, why);
    return;
  }
  const int rank = link->peer().rank;
  if (!link->proven() || rank < 0 || rank >= options_.workers) return;
  {
    const std::lock_guard lock(mutex_);
    if (workers_[static_cast<std::size_t>(rank)].link != link) return;
  }
  lose_worker(rank);
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

void NodeImpl::lose_server(int rank, const std::string& why) {
  std::vector<std::shared_ptr<ReplyTaker>> takers;
  {
    const std::lock_guard lock(mutex_);
    Peer& server = servers_[static_cast<std::size_t>(rank)];
    server.link.reset();
    if (server.lost.empty())
      server.lost = name_of(Role::kServes, rank) + " at " + server.address + ":" +
                    std::to_string(server.port) + ", which has " +
                    range_text(ranges_[static_cast<std::size_t>(rank)]) + ", is lost: " + why;
    for (const auto& [name, weak] : reply_takers_) {
      if (auto taker = weak.lock()) takers.push_back(std::move(taker));
    }
  }
  for (const auto& taker : takers) taker->server_lost(rank);
}

void NodeImpl::lose_worker(int rank) {
  std::vector<std::shared_ptr<RequestTaker>> takers;
  {
    const std::lock_guard lock(mutex_);
    Peer& worker = workers_[static_cast<std::size_t>(rank)];
    worker.link.reset();
    worker.lost = "it is lost";
    for (const auto& [app, weak] : request_takers_) {
      if (auto taker = weak.lock()) takers.push_back(std::move(taker));
    }
  }
  for (const auto& taker : takers) taker->worker_lost(rank);
}

// --- What workers and servers of this node say and hear.

Sent NodeImpl::send_to_server(int rank, Frame frame) {
  Link link;
  {
    const std::lock_guard lock(mutex_);
    link = servers_[static_cast<std::size_t>(rank)].link;
  }
  if (!link) return Sent::kLost;
  return link->send(std::move(frame)) ? Sent::kTaken : Sent::kNoRoom;
}

bool NodeImpl::has_room(int rank, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Link& link = servers_[static_cast<std::size_t>(rank)].link;
  return bytes <= options_.queue_bytes && (!link || link->waiting_bytes() <= options_.queue_bytes - bytes);
}

std::string NodeImpl::why_lost(int server) const {
  const std::lock_guard lock(mutex_);
  const Peer& peer = servers_[static_cast<std::size_t>(server)];
  return !peer.lost.empty() || peer.link
             ? peer.lost
             : name_of(Role::kServes, server) + " was not joined yet: call Start first";
}

void NodeImpl::send_to_worker(int rank, Frame frame) {
  Link link;
  {
    const std::lock_guard lock(mutex_);
    if (rank >= 0 && rank < options_.workers) link = workers_[static_cast<std::size_t>(rank)].link;
  }
  if (!link) return count_dropped();
  if (link->send(std::move(frame))) return;
  asio::post(io_, [link] { link->close("it does not take its answers"); });
}

void NodeImpl::resume_all() {
  asio::post(io_, [this] {
    std::vector<Link> all;
    for (const auto& [id, link] : links_) all.push_back(link);
    for (const Link& link : all) link->resume();
  });
}

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
