#pragma once
// What workers of a sparse model do in a round: each draws a batch, sums the rows of hot keys with the others, and pushes
// those of cold ones to servers. Pure.

#include <cstdint>
#include <vector>

#include "hot/key_set.h"
#include "serving.h"
#include "zipf.h"

namespace tally::rounds {

struct Conditions {
  bench::Workload load;  // workers among it
  std::uint32_t width = 1;
  std::uint32_t servers = 1;
  double gbps = 25;              // of every link, each way
  double threads = 1;            // of a server, which share its keys evenly
  std::uint8_t box_cores = 4;    // a power of two
  bool written_back = false;     // sums of hot rows go to the servers in each round, each from one worker
  std::uint32_t rounds = 4;      // that are measured, after one that is not
  std::uint16_t elements = 352;  // of a packet of sums; MTU 1500, as the pushes'
  std::uint32_t window = 256;
  std::uint64_t seed = 1;
};

// What a worker pushes to one server, which may be nothing but that it has nothing.
struct Push {
  std::uint32_t pairs = 0;
  double serve_ns = 0;                                           // of one thread
  [[nodiscard]] std::uint32_t bytes(std::uint32_t width) const;  // of a request of tally-kv
};

struct Share {
  std::vector<std::uint32_t> ids;  // rows of the hot block that this worker has, ascending
  std::vector<Push> cold;          // by server
  std::vector<Push> back;          // likewise, if hot sums are written back
};

struct Round {
  std::vector<Share> workers;
  std::vector<std::uint8_t> ranks;  // of each hot row: how many workers have it
  std::vector<float> sums;          // of the hot block
  bench::Traffic traffic;
};

// Of the hot row `id`, column `j`; a positive whole number, so that sums are exact.
[[nodiscard]] float value_of(std::uint32_t worker, std::uint32_t id, std::uint32_t j);

class RoundPlan {
 public:
  // set: outlives it.
  RoundPlan(const Conditions& conditions, const hot::KeySet& set);
  [[nodiscard]] Round next();

 private:
  [[nodiscard]] std::size_t server_of(hot::Key key) const;
  void write_back(Round& round) const;

  Conditions conditions_;
  const hot::KeySet& set_;
  Serving costs_;
  bench::Batches batches_;
};

// A request as it goes over a wire: TCP segments, each with all its headers and the gap behind it.
struct Segments {
  std::uint32_t count = 1;
  double wire_bytes = 0;  // of each
};
[[nodiscard]] Segments segments_of(std::uint32_t bytes);

}  // namespace tally::rounds
