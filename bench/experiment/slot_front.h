#pragma once
// What the bench puts around the pipeline.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "jobs/job_table.h"
#include "packets.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "setting.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::experiment {

// Of rows that are no discipline of the product. A front may mark contributions and send finished sums by way
// of the server; sums, slots, swaps and repairs stay production code.
class SlotFront {
 public:
  SlotFront() = default;
  SlotFront(const SlotFront&) = delete;
  SlotFront& operator=(const SlotFront&) = delete;
  virtual ~SlotFront() = default;

  // A contribution of `job`, before the pipeline. True: the header was changed.
  virtual bool arrives(const jobs::NativeJob& job, Header& header,
                       pipeline::Pipeline<pipeline::Fused>& pipeline) = 0;
  // A chunk whose sum a slot holds complete is about to be sent to workers. True: to the server instead.
  virtual bool finished(const jobs::NativeJob& job, Chunk chunk) = 0;
  // A packet of the server. True: it ends here.
  virtual bool heard(const jobs::NativeJob& job, const Header& header) = 0;
  // Slots that are not free although what they held is finished.
  [[nodiscard]] virtual std::uint32_t held() const noexcept { return 0; }
};

// nullptr: the row has none.
[[nodiscard]] std::unique_ptr<SlotFront> front_of(const Setting& setting, std::uint32_t slots);

// Repair for the disciplines without a ledger (scheduling.md: the same for all). A chunk that is partly in a
// slot and partly at the server waits for the server's FLUSH timer, 2 ms or more; here a finished later chunk
// makes it flush at once, as a gap in the results would tell it. The product has no such trigger, and its
// discipline `shared` no need of it.
class GapRepair {
 public:
  // again_after: not more often for one chunk.
  GapRepair(std::size_t jobs, TimeNs again_after) : jobs_(jobs), again_after_(again_after) {}

  // Something of the chunk reached the server.
  void at_server(JobId job, Chunk chunk);
  // Its result goes to the workers. The earlier chunks that are to be flushed now.
  [[nodiscard]] std::vector<Chunk> finished(const jobs::NativeJob& job, Chunk chunk, TimeNs now);

 private:
  // A run is far too short for numbers to wrap.
  struct Chunks {
    std::map<std::uint32_t, TimeNs> open;  // at the server; when it was flushed last
    std::vector<bool> finished;
  };
  Chunks& at(JobId job) { return jobs_[raw(job) - 1U]; }

  std::vector<Chunks> jobs_;
  TimeNs again_after_;
};

// The FLUSH of the chunk as the job's server 0 would send it.
void write_flush(Packet& packet, const jobs::NativeJob& job, Chunk chunk);

}  // namespace tally::experiment
