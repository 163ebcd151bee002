#pragma once
// A box in this process for Workers of this process: the simulator's switch (production pipeline and
// membership engine) on a thread and in real time, and transport 'loopback' that leads to it.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "loopback_inbox.h"
#include "rng.h"
#include "schedule.h"
#include "switch_node.h"
#include "tally/tally.h"
#include "tally/worker.h"

namespace tally::api_test {

struct BoxOptions {
  std::uint16_t workers = 2;
  std::string token = "secret";
  double loss = 0;  // of every frame, both ways
  std::uint64_t seed = 1;
  std::uint8_t cores = 1;
  std::uint32_t window = 16;
  std::uint16_t elements = 64;
  TimeNs lease = 10 * kSecond;
  members::StragglerPolicy stragglers{};
};

class LoopbackBox {
 public:
  static constexpr const char* kJob = "resnet";

  explicit LoopbackBox(const BoxOptions& options = {});
  LoopbackBox(const LoopbackBox&) = delete;
  LoopbackBox& operator=(const LoopbackBox&) = delete;
  ~LoopbackBox();

  // What a worker of `rank` must say. `how`: "" or ",full" (a path that takes nothing).
  [[nodiscard]] WorkerOptions worker(std::uint16_t rank, const std::string& how = "") const;
  // On the box's thread; returns when it is done.
  void run(const std::function<void(sim::SwitchNode&)>& action);
  void silence();  // nothing is heard or said any more
  // Priority bytes of all contributions that arrived, as a set.
  [[nodiscard]] std::set<unsigned> priorities();
  // How often transports were asked for their trouble. Any thread.
  std::atomic<std::uint64_t> troubles_asked = 0;
  // Whether they have one, how often they said so, and how many datagrams had left workers the last time. Any
  // thread.
  std::atomic<bool> in_trouble = false;
  std::atomic<std::uint64_t> troubles_told = 0;
  std::atomic<std::uint64_t> told_behind = 0;
  std::atomic<std::uint64_t> datagrams = 0;

  // Transport's side. Any thread.
  [[nodiscard]] std::shared_ptr<Inbox> plug();
  void receive(std::uint16_t plug, Bytes datagram, std::uint16_t destination_port);

 private:
  struct Arrival {
    jobs::Binding from;
    Bytes frame;
  };
  void serve();
  void deliver(const jobs::Binding& to, const Bytes& frame);

  const BoxOptions options_;
  const std::string name_;
  sim::Schedule schedule_;
  Rng rng_;
  std::unique_ptr<sim::SwitchNode> node_;

  std::mutex mutex_;  // of everything below
  std::condition_variable something_;
  std::vector<Arrival> arrivals_;
  std::set<unsigned> priorities_;
  std::vector<std::function<void()>> actions_;
  std::vector<std::shared_ptr<Inbox>> plugs_;
  bool silent_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// A transport that leads nowhere, and says so to nobody.
[[nodiscard]] WorkerOptions nowhere();

// All ranks, each from a thread of its own. Fails the test and returns fewer if one cannot.
[[nodiscard]] std::vector<Worker> join_all(LoopbackBox& box, std::uint16_t world);
// One by the C face; nullptr, and the test has failed, when it does not join.
[[nodiscard]] tally_worker* join_in_c(const WorkerOptions& with);
// body(rank) on a thread per rank; returns when all are done.
void on_all(std::size_t ranks, const std::function<void(std::size_t)>& body);

inline constexpr std::chrono::minutes kPatience{2};  // a bound, never an expectation
// Looks until condition() holds or patience ends; returns whether it holds.
[[nodiscard]] bool eventually(const std::function<bool()>& condition);

}  // namespace tally::api_test
