// The connections of a node: whom it calls and who calls it, what comes in and goes out, and who is lost.
#include <algorithm>
#include <sstream>

#include "kv/node_impl.h"
#include "kv/slicing.h"
#include "random/random.h"

namespace tally::kv {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(50);

std::string range_text(const Range& range) {
  std::ostringstream text;
  text << "keys " << range.begin() << ".." << (range.end() == kMaxKey ? kMaxKey : range.end() - 1);
  return text.str();
}

}  // namespace

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
    if (!link->proven())
      text = root_name() + " was not joined: " + why +
             "; has it the same token (TALLY_KV_TOKEN, TALLY_KV_TOKEN_FILE) and the same version?";
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

}  // namespace tally::kv
