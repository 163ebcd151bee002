#pragma once
// The box: the production pipeline between the workers' links and those to the servers. Its job rows are
// written directly, as control would: membership is no part of the experiment.

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "jobs/job_table.h"
#include "links.h"
#include "packets.h"
#include "pipeline/pipeline.h"
#include "schedule.h"
#include "setting.h"
#include "slot_front.h"

namespace tally::experiment {

class BoxModel final : public sim::Actor {
 public:
  enum Event : std::uint32_t { kFromWorker, kFromServer, kSweep };

  // round_trip: from the box to a server and back.
  BoxModel(sim::Schedule& time, Packets& packets, const Setting& setting, TimeNs round_trip,
           const std::vector<jobs::NativeJob>& rows);

  [[nodiscard]] const jobs::NativeJob& row(std::size_t job) const { return *rows_[job]; }
  // By job, then rank; and by server host.
  void connect(std::vector<std::vector<std::unique_ptr<Link>>> to_workers,
               std::vector<std::unique_ptr<ServerLink>> to_servers);
  // nullptr: the row has none.
  [[nodiscard]] GapRepair* gaps() noexcept { return gaps_.get(); }
  // The answer to a JOIN, as control gives it.
  [[nodiscard]] std::vector<std::byte> answer_join(std::span<const std::byte> join) const;

  void on_event(std::uint32_t what, std::uint32_t detail) override;

  // Adds its counters; `end`: of the run.
  void report(Outcomes& out, TimeNs end) const;

 private:
  void process(PacketId id);
  void by_way_of_server(pipeline::Outcome& outcome);
  void repair_gaps(const jobs::NativeJob& job, Chunk finished);
  void dispatch(PacketId id, const pipeline::Outcome& outcome);
  void mark(PacketId id, const pipeline::Outcome& outcome);
  void to_ranks(PacketId id, const jobs::NativeJob& job, std::uint64_t ranks);
  void sweep();
  void look_at_slots();

  sim::Schedule& time_;
  Packets& packets_;
  Setting setting_;
  TimeNs round_trip_;
  std::vector<std::shared_ptr<const jobs::NativeJob>> rows_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::vector<jobs::Line> memory_;
  std::vector<jobs::Line> server_memory_;
  std::unique_ptr<pipeline::Pipeline<pipeline::Fused>> pipeline_;
  std::unique_ptr<SlotFront> front_;
  std::unique_ptr<GapRepair> gaps_;
  std::vector<std::vector<std::unique_ptr<Link>>> to_workers_;
  std::vector<std::unique_ptr<ServerLink>> to_servers_;
  bool sweeps_ = false;
  std::unordered_set<std::uint64_t> congested_;  // chunks that met a long queue, of rows with ECN
  // Slots that fill, and those that a front holds, integrated over time.
  double filling_ns_ = 0;
  double held_ns_ = 0;
  TimeNs looked_at_ = 0;
  std::uint32_t filling_ = 0;
  std::uint32_t held_ = 0;
};

}  // namespace tally::experiment
