#pragma once
// Repair for the disciplines without a ledger (scheduling.md: the same for all). A chunk that is partly in a
// slot and partly at the server waits for the server's FLUSH timer, 2 ms or more; here a finished later chunk
// makes it flush at once, as a gap in the results would tell it. The product has no such trigger, and its
// discipline `shared` no need of it.

#include <cstdint>
#include <map>
#include <vector>

#include "jobs/job_table.h"
#include "packets.h"
#include "tally/time.h"

namespace tally::experiment {

class GapRepair {
 public:
  // again_after: not more often for one chunk.
  GapRepair(std::size_t jobs, TimeNs again_after) : jobs_(jobs), again_after_(again_after) {}

  // Something of the chunk reached the server.
  void at_server(JobId job, Chunk chunk);
  // Its result goes to the workers. The earlier chunks that are to be flushed now.
  [[nodiscard]] std::vector<Chunk> finished(const jobs::Job& job, Chunk chunk, TimeNs now);

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
void write_flush(Packet& packet, const jobs::Job& job, Chunk chunk);

}  // namespace tally::experiment
