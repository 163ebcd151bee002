#pragma once
// The product's pipeline, one core of it, in the place of the original switch. One thread.

#include <bit>
#include <memory>
#include <vector>

#include "client_switch.h"
#include "jobs.h"
#include "pipeline/pipeline.h"
#include "session_frames.h"
#include "stock_frame.h"

namespace tally::stock {

template <class Execution>
class PipelineSwitch : public ClientSwitch {
 public:
  // members: by rank; they know test_box() as their switch. slots: of each set.
  PipelineSwitch(const std::vector<StockAddresses>& members, std::uint16_t payload, std::uint32_t slots,
                 jobs::TsiRule rule)
      : job_(row(members, payload, slots, rule)),
        memory_(job_.slots.count),
        table_(std::make_shared<jobs::JobTable>()->with(job_.id,
                                                        std::make_shared<const jobs::SessionJob>(job_))),
        pipeline_({.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()) {
    pipeline_.adopt(table_.get());
  }

  void receive(std::size_t rank, std::span<const std::byte> frame, TimeNs now,
               const Deliver& deliver) override {
    ReceivedFrame received(frame, job_.ranks[rank].binding.port, false);
    const pipeline::Outcome out = pipeline_.process(received.frame(), now);
    if (out.verdict != Verdict::kComplete && out.verdict != Verdict::kRepeat) return;
    for (std::uint64_t left = out.ranks; left != 0; left &= left - 1) {
      const auto to = static_cast<std::size_t>(std::countr_zero(left));
      deliver(to, outcome_frame(out, to, pipeline_.return_paths()[to], test_box()));
    }
  }
  // The session begins anew, as control does it.
  void reset() {
    job_.epoch = Epoch{raw(job_.epoch) + 1};
    auto next = table_->with(job_.id, std::make_shared<const jobs::SessionJob>(job_));
    pipeline_.adopt(next.get());
    table_ = std::move(next);
  }
  [[nodiscard]] const JobCounters& counters() const noexcept { return pipeline_.counters(job_.id); }

 private:
  static jobs::SessionJob row(const std::vector<StockAddresses>& members, std::uint16_t payload,
                              std::uint32_t slots, jobs::TsiRule rule) {
    jobs::SessionJob job = make_session({.world = static_cast<std::uint8_t>(members.size()),
                                         .payload = payload,
                                         .slots = slots,
                                         .tsi = rule});
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      job.ranks[rank].binding.mac = members[rank].mac;
      job.ranks[rank].binding.address = mapped(members[rank].ipv4);
    }
    return job;
  }

  jobs::SessionJob job_;
  SlotMemory memory_;
  std::shared_ptr<const jobs::JobTable> table_;
  pipeline::Pipeline<Execution> pipeline_;
};

}  // namespace tally::stock
