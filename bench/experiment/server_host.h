#pragma once
// A server host: the production server engine behind its link, for one job or several.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gap_repair.h"
#include "jobs/job_table.h"
#include "links.h"
#include "packets.h"
#include "ps/ps_engine.h"
#include "schedule.h"

namespace tally::experiment {

class ServerHost final : public sim::Actor {
 public:
  enum Event : std::uint32_t { kReceive, kWake };

  // jobs: which it serves, all as their server 0. gaps: hears of what comes; may be nullptr.
  ServerHost(sim::Schedule& time, Packets& packets, const std::vector<const jobs::Job*>& jobs,
             GapRepair* gaps);
  void connect(std::unique_ptr<Link> to_box) { to_box_ = std::move(to_box); }
  // JOINs and JOINEDs, without the network: the next JOIN, for the job at `index`; and its answer.
  [[nodiscard]] std::span<const std::byte> say_join();
  void hear(std::span<const std::byte> datagram);
  [[nodiscard]] bool running() const;

  void on_event(std::uint32_t what, std::uint32_t detail) override;

  [[nodiscard]] const ps::PsEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const Link& link() const noexcept { return *to_box_; }

 private:
  void service();

  sim::Schedule& time_;
  Packets& packets_;
  GapRepair* gaps_;
  std::vector<OuterHeaders> headers_;  // by job id
  std::unique_ptr<ps::PsEngine> engine_;
  std::unique_ptr<Link> to_box_;
  std::vector<std::byte> out_;
  TimeNs wake_ = kNever;
};

}  // namespace tally::experiment
