#pragma once
// The job of the benchmarks, as control would publish it: members 10.0.0.1 ... with one MAC each, spread over
// the ports in turn.

#include <cstdint>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "tally/mix64.h"

namespace tally::bench {

inline constexpr std::uint32_t kBenchWindow = 256;

struct JobShape {
  std::uint8_t world = 8;
  std::uint16_t elements = 256;
  ResultsMode results = ResultsMode::kUnicast;
  std::uint8_t ports = 1;  // rank r is behind port r mod ports
  std::uint16_t id = 1;
};

[[nodiscard]] inline jobs::Box job_box() {
  return {.mac = {2, 0, 0, 0, 0, 1}, .ipv4 = {10, 0, 0, 254}, .ipv6 = {}};
}

[[nodiscard]] inline jobs::Job make_job(const JobShape& shape) {
  jobs::Job job;
  job.id = JobId{shape.id};
  job.epoch = Epoch{1};
  job.generation = Generation{0x5eecU + shape.id};
  job.result_cookie = Cookie{0xc00c1e};
  job.results = shape.results;
  job.world = shape.world;
  job.elements = shape.elements;
  job.window = kBenchWindow;
  job.span = 2 * kBenchWindow;
  job.members = members_of(shape.world);
  if (shape.results == ResultsMode::kMulticast) job.leaders = members_of(shape.ports);
  job.slots = {0, jobs::pool_lines(kBenchWindow, 1, shape.elements)};
  for (std::uint16_t r = 0; r < shape.world; ++r) {
    jobs::Member& m = job.ranks[r];
    m.cookie = Cookie{mix64(r + 1U)};
    m.key = rank_key(job.generation, Rank{r});
    m.binding.address = mapped({10, 0, 0, static_cast<std::uint8_t>(r + 1)});
    m.binding.mac = {2, 0, 0, 0, 1, static_cast<std::uint8_t>(r)};
    m.binding.udp_port = 4000;
    m.binding.port = PortIndex{static_cast<std::uint16_t>(r % shape.ports)};
    job.key_sum += m.key;
  }
  return job;
}

}  // namespace tally::bench
