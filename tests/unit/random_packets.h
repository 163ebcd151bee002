#pragma once
// Random jobs of all disciplines on one core, and the packets that their workers, broken ones among them,
// could send.

#include <cstdint>
#include <memory>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/pipeline.h"
#include "rng.h"

namespace tally {

struct RandomWorld {
  std::vector<jobs::NativeJob> jobs;
  std::vector<std::uint32_t> front;  // of each job: the chunk that its workers have reached
  std::shared_ptr<jobs::SharedCaps> caps = std::make_shared<jobs::SharedCaps>();
  std::shared_ptr<const jobs::JobTable> table = std::make_shared<jobs::JobTable>(caps);
  std::uint32_t lines = 0;
  jobs::SharedRegion shared;  // a small one: nearly every chunk is in somebody's way
  std::uint32_t server_lines = 0;

  // The next snapshot, in which jobs[which] is another row.
  void publish(std::size_t which, const jobs::NativeJob& job);
};

// mixed: with shared slots; else of the discipline pool only.
[[nodiscard]] RandomWorld random_world(Rng& rng, bool mixed);
// The same job as it goes on after its epoch ended.
[[nodiscard]] jobs::NativeJob with_new_epoch(Rng& rng, const jobs::NativeJob& job);

// Where a packet of a member, a server or the parent comes from; of a rank that there is not: rank 0.
[[nodiscard]] jobs::Binding binding_of_sender(const jobs::NativeJob& job, const Header& h);

// Mostly sensible contributions around the front, some queries and answers, a few of everything wrong.
[[nodiscard]] Bytes random_datagram(Rng& rng, const jobs::NativeJob& job, std::uint32_t front);

}  // namespace tally
