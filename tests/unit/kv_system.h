#pragma once
// A key-value system in one process: a Node for each scheduler, server and worker, over loopback.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tally/kv.h"

namespace tally::kv {

class System {
 public:
  using Handle = KVServer<float>::ReqHandle;

  // handle: of each server. options: what differs of all nodes' (role, numbers and port are the system's).
  System(int workers, int servers, const NodeOptions& options = {});
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  ~System();  // orderly, if finish() was not called

  // Before start(): a handle for each server, by rank.
  void serve(const std::function<Handle(int server)>& handle, Merge merge = Merge::kOff);
  void start();
  void finish();
  // The node goes without a word: its connections close. Once each.
  void kill_worker(int rank);
  void kill_server(int rank);
  // Its node has ended already.
  void forget_server(int rank) { servers_[static_cast<std::size_t>(rank)].reset(); }
  // Worker `rank`'s program, all at a time, each on a thread of its own; returns when all have.
  void run(const std::function<void(int rank, Node& node)>& program);

  [[nodiscard]] Node& worker(int rank) { return *workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Node& server(int rank) { return *servers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Node& scheduler() { return *scheduler_; }
  [[nodiscard]] KVServer<float>& app(int rank) { return *apps_[static_cast<std::size_t>(rank)]; }

 private:
  void on_all(const std::function<void(Node&)>& work);

  std::unique_ptr<Node> scheduler_;
  std::vector<std::unique_ptr<Node>> servers_, workers_;
  std::vector<std::unique_ptr<KVServer<float>>> apps_;
  bool finished_ = false;
};

// The Failure that a call throws; fails the test if it throws none.
[[nodiscard]] Failure failure_of(const std::function<void()>& call);
[[nodiscard]] std::string text_of(const std::function<void()>& call);

}  // namespace tally::kv
