#include "job_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "broken.h"
#include "jobs.h"
#include "jobs/layout.h"
#include "packets.h"

namespace tally::experiment {
namespace {

constexpr std::uint32_t kLeastWindow = 16;  // control offers no smaller one
constexpr std::uint16_t kFirstServerAddress = 200;

// Two versions of a window for each job, or nothing.
std::uint32_t pool_window(const Setting& s) {
  const std::uint32_t most = slots_of(s) / s.jobs / 2;
  return most == 0 ? 0 : std::min(std::bit_floor(most), s.window);
}

JobSpec spec_of(const Setting& s, std::uint16_t job) {
  JobSpec spec;
  spec.id = static_cast<std::uint16_t>(job + 1);
  spec.epoch = 0x1000'0001U + job;
  spec.generation = mix64(s.seed * 1024 + job) | 1;
  spec.world = static_cast<std::uint8_t>(s.world);
  spec.window = s.window;
  spec.elements = kElements;
  spec.discipline = s.row.discipline;
  spec.decay = s.row.decay;
  spec.shared_slots = std::max(slots_of(s), 1U);
  spec.salt = mix64(s.seed * 4096 + job);
  return spec;
}

void add_server(jobs::Job& row, std::uint16_t job) {
  row.server = ServerKind::kExternal;
  row.servers = 1;
  row.server_ranks[0] = {Cookie{mix64(raw(row.epoch) * 193ULL)}, 0, test_binding(kFirstServerAddress, job)};
  row.server_ranks[0].binding.port = PortIndex{0};
}

}  // namespace

std::uint32_t slots_of(const Setting& s) {
  return static_cast<std::uint32_t>(std::lround(s.slots_share * s.jobs * s.window));
}

bool gets_no_pool(const Setting& s) {
  return s.row.discipline == Discipline::kPool && pool_window(s) < kLeastWindow;
}

std::vector<jobs::Job> rows_of(const Setting& s, const std::vector<JobPlan>& plans) {
  std::vector<jobs::Job> rows;
  std::uint32_t line = 0;
  for (std::uint16_t job = 0; job < s.jobs; ++job) {
    JobSpec spec = spec_of(s, job);
    if (s.mix == Mix::kOneUrgent) spec.max_priority = plans[job].urgent ? 254 : 63;
    if (spec.discipline == Discipline::kPool) {
      if (gets_no_pool(s)) broken("no pool fits; the caller asks gets_no_pool() first");
      spec.window = pool_window(s);
      spec.shared_slots = 0;
    }
    spec.first_line = line;
    jobs::Job row = make_job(spec);
    line += row.slots.count;
    for (jobs::Member& member : row.ranks) member.binding.port = PortIndex{0};
    if (row.discipline == Discipline::kPool) {
      row.server = ServerKind::kNone;
    } else if (!s.embedded) {
      add_server(row, job);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace tally::experiment
