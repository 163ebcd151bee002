#pragma once
// A parameter server's process (tally-ps): production engine behind a host stack that only wraps and unwraps.
// After a crash it comes back with an empty table at the same address.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frames.h"
#include "host_stack.h"
#include "jobs/binding.h"
#include "ps/ps_engine.h"
#include "rng.h"
#include "schedule.h"

namespace tally::sim {

struct ServerOptions {
  std::size_t index = 0;  // of its link in the network
  std::vector<ps::PsJobOptions> jobs;
  std::uint16_t elements = kMaxElements;
  std::uint32_t states = 64;  // its memory, in states of so many elements
  jobs::Binding binding;
  std::vector<jobs::Box> boxes;  // as a worker's
};

class ServerNode final : public HostProcess {
 public:
  using Send = std::function<void(std::size_t index, Bytes frame)>;
  using Alarm = std::function<void(std::string)>;

  ServerNode(Schedule& schedule, std::uint64_t seed, ServerOptions options, Send send, Alarm alarm);

  void crash();  // the process is gone, and its sums
  void start();  // as a new process

  [[nodiscard]] bool alive() const noexcept override { return engine_ != nullptr; }
  [[nodiscard]] bool running() const noexcept;  // all its jobs run
  [[nodiscard]] const ps::PsEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const ps::PsJobStatistics& counted(std::size_t job = 0) const {
    return engine_->statistics(job);
  }
  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t incomplete() const noexcept { return engine_->memory().incomplete; }
  // What it told people, of this process.
  [[nodiscard]] const std::vector<std::string>& events() const noexcept { return events_; }

 private:
  void take(std::span<const std::byte> datagram, const Ipv6& source) override;
  void service() override;

  Rng rng_;
  ServerOptions options_;
  Send send_;
  Alarm alarm_;
  std::unique_ptr<ps::PsEngine> engine_;
  std::vector<std::string> events_;
};

}  // namespace tally::sim
