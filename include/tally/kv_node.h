#pragma once
// A process's place in a key-value system: the scheduler brings workers and servers together, gives them ranks, and
// keeps their barriers; keys are shared out over the servers by range. Most programs use the one Node of their process,
// through the functions of kv.h. Several Nodes may live in one process (tests do).
//
// Threads: any function from any thread. Each Node has a thread for its connections; each KVWorker and KVServer on it
// has one for callbacks and handlers.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tally/error.h"
#include "tally/kv_array.h"

namespace tally::kv {

using Key = std::uint64_t;
inline constexpr Key kMaxKey = std::numeric_limits<Key>::max();

// Groups, for barriers; add them up.
inline constexpr int kScheduler = 1;
inline constexpr int kServerGroup = 2;
inline constexpr int kWorkerGroup = 4;

enum class Role : std::uint8_t { kSchedules = 1, kServes = 2, kWorks = 3 };

// What this interface throws: the calls of PS-lite have no other way to say what is wrong.
class Failure : public std::runtime_error {
 public:
  static constexpr std::int64_t kNoIndex = -1;
  Failure(ErrorCode code, const std::string& what, std::int64_t index = kNoIndex)
      : std::runtime_error(what), code_(code), index_(index) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  // Of the key (or of lens) that is wrong, in the arrays of the call; kNoIndex: it is not about one.
  [[nodiscard]] std::int64_t index() const noexcept { return index_; }

 private:
  ErrorCode code_;
  std::int64_t index_;
};

struct NodeOptions {
  Role role = Role::kWorks;       // DMLC_ROLE: worker, server or scheduler
  int workers = 0;                // DMLC_NUM_WORKER, 1..4096
  int servers = 0;                // DMLC_NUM_SERVER, 0..1024
  std::string root{"127.0.0.1"};  // DMLC_PS_ROOT_URI: the scheduler's IP address
  std::uint16_t port = 0;         // DMLC_PS_ROOT_PORT; of a scheduler 0: any, see Node::port()
  std::string host{};   // DMLC_NODE_HOST: a server's IP address; empty: where it reaches the scheduler
  int rank = -1;        // DMLC_RANK: this rank in its group; -1: any
  std::string token{};  // TALLY_KV_TOKEN, or the file TALLY_KV_TOKEN_FILE: 0..64 bytes, the same for all
  std::chrono::milliseconds join_timeout{60'000};  // TALLY_JOIN_TIMEOUT, seconds; for all to arrive
  // TALLY_KV_QUEUE, bytes: what may wait for one peer, and the largest message. A call that would exceed it throws.
  std::size_t queue_bytes = std::size_t{1} << 30;
  // Workers only, TALLY_SWITCH and TALLY_JOB: a PushPull of float or int32_t is an allreduce through the box. Its other
  // options are those of WorkerOptions::from_environment().
  bool box = false;

  // Throws a Failure that names the variable, its value and what would be right.
  [[nodiscard]] static NodeOptions from_environment();
};

// Of a Node, since it began.
struct NodeStatistics {
  std::uint64_t connections = 0;  // open now
  std::uint64_t frames_sent = 0;  // messages of any type, once the kernel has them
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t strangers = 0;  // connections that did not prove the token, or spoke another version
  std::uint64_t malformed = 0;  // messages that cannot be; their connection is closed
  std::uint64_t dropped = 0;    // messages for nobody: a worker or a request that is gone
  std::uint64_t sums = 0;       // through the box: PushPulls, and rounds of tables with hot keys
};

class NodeImpl;

class Node {
 public:
  explicit Node(NodeOptions options);  // nothing happens before start()
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // as finalize(false)

  // The process's own, of from_environment(), made at the first call.
  [[nodiscard]] static Node& process();

  // Returns when everybody is there. Of several calls the first one joins, the others wait for it. Throws.
  void start();
  // The last of as many calls as there were of start(): waits for everybody who is alive to be there too (barrier),
  // closes the connections, then calls what on_exit() was given. Throws when the scheduler is lost, after the same.
  void finalize(bool barrier = true);
  // Waits for all of the groups, of which this is one. Throws when one of them is lost, by name.
  void barrier(int customer_id, int groups);
  void on_exit(std::function<void()> function);

  [[nodiscard]] const NodeOptions& options() const noexcept;
  [[nodiscard]] int rank() const noexcept;            // in its group; 0 before start()
  [[nodiscard]] std::uint16_t port() const noexcept;  // a scheduler's or server's own, after it listens
  // Of keys, by the server's rank. The last one has kMaxKey, too.
  [[nodiscard]] const std::vector<Range>& ranges() const noexcept;
  [[nodiscard]] NodeStatistics statistics() const;
  // Called, on a thread of the Node, with a sentence on everybody who is lost.
  void on_loss(std::function<void(const std::string&)> function);

 private:
  friend class Table;
  friend class WorkerCore;
  friend class ServerCore;
  std::shared_ptr<NodeImpl> impl_;
};

}  // namespace tally::kv
