#pragma once
// A rack in virtual time for experiments: production worker engines, links with rate and delay, the
// production switch. What differs from the simulator's workers: the program is given from outside and nothing
// fails.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/worker_engine.h"
#include "network.h"
#include "schedule.h"
#include "switch_node.h"

namespace tally::bench {

struct RackOptions {
  std::uint16_t workers = 8;
  std::uint32_t window = 256;
  std::uint16_t elements = 352;
  sim::LinkOptions link;
};

class Rack {
 public:
  explicit Rack(const RackOptions& options);
  Rack(const Rack&) = delete;
  Rack& operator=(const Rack&) = delete;
  ~Rack();

  // Runs until every worker is in the job.
  void join();
  // Calls program(rank, engine, now) once per worker; then runs until each finished `operations` operations,
  // calling next(rank, engine, now) after each. Returns the virtual time it took.
  using Program = std::function<void(std::uint16_t rank, engine::WorkerEngine& engine, TimeNs now)>;
  TimeNs run(const Program& program, std::uint32_t operations, const Program& next);

  // Sums over the workers.
  [[nodiscard]] std::uint64_t contributions() const;
  [[nodiscard]] std::uint64_t retransmissions() const;

 private:
  class Host;
  sim::Schedule schedule_;
  sim::Network network_;
  std::unique_ptr<sim::SwitchNode> box_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace tally::bench
