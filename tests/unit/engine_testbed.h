#pragma once
// Worker engines and an ideal box. Rig connects them over a network with latency and a loss rule of the test.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/worker_engine.h"
#include "engine_datagrams.h"
#include "ideal_box.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::testbed {

engine::EngineOptions options_of(const JobShape& shape, std::uint16_t rank);

// Everything the engine has to send now, with ports.
struct Out {
  Bytes bytes;
  std::uint16_t port = 0;
};
std::vector<Out> drain(engine::WorkerEngine& engine, TimeNs now);

// An engine to which the box has just said JOINED(running), at time 0.
std::unique_ptr<engine::WorkerEngine> joined_engine(const Box& box, const engine::EngineOptions& options);

class Rig {
 public:
  explicit Rig(const JobShape& shape);

  // Delivers and lets time pass until `done` or the virtual time limit; true if done.
  bool run_until(const std::function<bool()>& done, TimeNs limit = 120 * kSecond);
  bool run_until_running();
  // Waits for every engine to report operation `id`; the results by rank.
  std::vector<Result<OperationStats>> finish(engine::OperationId id);
  engine::WorkerEngine& operator[](std::size_t rank) { return *engines[rank]; }

  Box box;
  std::vector<std::unique_ptr<engine::WorkerEngine>> engines;
  std::vector<bool> paused;  // by rank: neither sends nor receives
  std::map<std::pair<std::size_t, engine::OperationId>, Result<OperationStats>> completed;
  TimeNs now = 0;
  TimeNs latency = 50 * kMicrosecond;
  // true: lose it. `to_box`: direction; rank: the worker's.
  std::function<bool(bool to_box, std::uint16_t rank, const Header&)> lose;
  std::function<TimeNs()> delay;     // on top of the latency; may reorder
  std::function<unsigned()> copies;  // how often a packet arrives

 private:
  struct Flying {
    bool to_box = false;
    std::uint16_t rank = 0;
    std::uint16_t port = 0;
    Bytes bytes;
  };
  void send(const Flying& flying);
  void step();

  std::multimap<TimeNs, Flying> flying_;
};

}  // namespace tally::testbed
