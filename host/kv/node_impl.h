#pragma once
// A Node inside: its connections, by an io_context on a thread of its own; where what comes in goes.

#include <asio.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kv/box_path.h"
#include "kv/connection.h"
#include "kv/rendezvous.h"
#include "tally/kv_node.h"

namespace tally::kv {

// Who gets replies, and hears of lost servers. On the io thread; must not wait.
class ReplyTaker {
 public:
  virtual ~ReplyTaker() = default;
  virtual void take_reply(int server, Frame frame) = 0;
  virtual void server_lost(int server) = 0;
};
// Likewise of requests and workers. false: more waits than it should, hold the connection.
class RequestTaker {
 public:
  virtual ~RequestTaker() = default;
  virtual bool take_request(int worker, Frame frame) = 0;
  virtual void worker_lost(int worker) = 0;
};

enum class Sent : std::uint8_t { kTaken, kNoRoom, kLost };

class NodeImpl : public std::enable_shared_from_this<NodeImpl> {
 public:
  explicit NodeImpl(NodeOptions options);
  NodeImpl(const NodeImpl&) = delete;
  NodeImpl& operator=(const NodeImpl&) = delete;
  ~NodeImpl();

  // As Node's.
  void start();
  void finalize(bool barrier);
  void barrier(int customer, int groups);
  void on_exit(std::function<void()> function);
  void on_loss(std::function<void(const std::string&)> function);
  [[nodiscard]] NodeStatistics statistics() const;
  [[nodiscard]] const NodeOptions& options() const noexcept { return options_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }
  // A table keeps it beyond the end of the node.
  [[nodiscard]] std::shared_ptr<BoxPath> box() const;

  // Any thread.
  [[nodiscard]] Sent send_to_server(int rank, Frame frame);
  [[nodiscard]] bool has_room(int rank, std::size_t bytes) const;
  void send_to_worker(int rank, Frame frame);
  [[nodiscard]] std::string why_lost(int server) const;  // empty: it is not
  void count_dropped() noexcept { ++counters_.dropped; }
  void resume_all();

  // The first timestamp of a worker: behind those of one of the same name that is gone, whose replies may still come.
  int enter(int app, int customer, const std::weak_ptr<ReplyTaker>& taker);
  void leave(int app, int customer, int next_timestamp);
  void enter_server(int app, const std::weak_ptr<RequestTaker>& taker);
  void leave_server(int app);

 private:
  using Tcp = asio::ip::tcp;
  using Link = std::shared_ptr<Connection>;
  static constexpr std::size_t kMostUnproven = 256;  // connections of strangers at a time
  struct Peer {
    Link link{};
    std::string address{};
    std::uint16_t port = 0;
    std::string lost{};
  };
  using Place = std::pair<int, int>;  // customer and groups of a barrier

  void listen(const Tcp::endpoint& where);
  void accept();
  void call(const Tcp::endpoint& where, Role callee, int rank);
  [[nodiscard]] Link connection(Tcp::socket socket, bool caller, std::function<void(const Link&)> opened);
  void opened_by_other(const Link& link);
  void register_with(const Link& scheduler);
  Connection::Taken received(const Link& link, Frame frame);
  void closed(const Link& link, const std::string& why);
  void take_roster(const Frame& frame);
  void say(const Rendezvous::Says& says);
  void released(const Frame& frame);
  void heard_gone(const Frame& frame);
  bool take_request(int worker, Frame frame);
  void lose_server(int rank, const std::string& why);
  void lose_worker(int rank);
  void fail(ErrorCode code, const std::string& what);
  void arrive(int customer, int groups, bool exit);
  void wait_at(std::unique_lock<std::mutex>& lock, int customer, int groups, bool exit);
  void close_all();
  [[nodiscard]] std::string root_name() const;

  const NodeOptions options_;
  const auth::Key key_;
  std::uint64_t cluster_ = 0;
  int rank_ = 0;
  std::uint16_t port_ = 0;
  std::vector<Range> ranges_{};
  ConnectionCounters counters_{};

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Tcp::acceptor acceptor_{io_};
  asio::steady_timer patience_{io_};
  std::unique_ptr<Rendezvous> rendezvous_{};
  std::map<std::uint64_t, Link> links_{};  // all that are open, io thread
  std::uint64_t next_id_ = 1;
  Link scheduler_{};
  std::chrono::steady_clock::time_point deadline_{};

  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  int starts_ = 0;
  bool joined_ = false;   // everybody is there, and reached
  bool started_ = false;  // and they know it
  bool leaving_ = false;  // who closes a connection now is not lost
  bool ended_ = false;
  std::optional<Failure> failure_{};  // of the start, or the scheduler is lost
  std::size_t reached_ = 0;           // servers
  std::vector<Peer> servers_{}, workers_{};
  std::map<std::tuple<int, int, bool>, std::deque<std::string>>
      releases_{};  // barriers that are over: why not, or empty
  std::map<Place, std::weak_ptr<ReplyTaker>> reply_takers_{};
  std::map<Place, int> timestamps_{};
  std::map<int, std::weak_ptr<RequestTaker>> request_takers_{};
  std::map<int, std::deque<std::pair<int, Frame>>> parked_{};
  std::vector<std::function<void()>> at_exit_{};
  std::function<void(const std::string&)> on_loss_{};
  std::shared_ptr<BoxPath> box_{};
  std::thread thread_{};
};

}  // namespace tally::kv
