#include "jobs.h"

#include "tally/mix64.h"

namespace tally {
namespace {

std::uint32_t own_lines(const jobs::NativeJob& job) {
  if (job.discipline == Discipline::kShared) return jobs::ledger_lines(job.span, job.shards);
  return by_hash(job.discipline) ? 0 : jobs::pool_lines(job.window, job.shards, job.elements);
}

}  // namespace

jobs::Box test_box(std::uint8_t i) {
  return {.mac = {2, 0, 0, 0, i, 0xb0}, .ipv4 = {10, 255, 0, static_cast<std::uint8_t>(i + 1)}, .ipv6 = {}};
}

jobs::Binding test_binding(std::uint16_t job, std::uint16_t rank) {
  const auto low = static_cast<std::uint8_t>(rank + 1);
  jobs::Binding b;
  b.address = mapped({10, 0, static_cast<std::uint8_t>(job), low});
  b.mac = {2, 1, 0, static_cast<std::uint8_t>(job >> 8), static_cast<std::uint8_t>(job), low};
  b.udp_port = static_cast<std::uint16_t>(40000 + rank);
  b.port = PortIndex{static_cast<std::uint16_t>(rank % 4)};
  return b;
}

jobs::Binding test_parent() {
  return {.address = mapped({10, 9, 9, 9}),
          .mac = {2, 9, 9, 9, 9, 9},
          .udp_port = kBasePort,
          .port = PortIndex{3}};
}

namespace {

void put_in_rack(jobs::NativeJob& job, const JobSpec& spec) {
  constexpr std::uint8_t kRack = 1;
  job.racked = 1;
  job.parent = {.binding = test_parent(),
                .job = JobId{static_cast<std::uint16_t>(raw(kJobAbove) - spec.id)},
                .rack = kRack,
                .racks = spec.racks,
                .shards = spec.parent_shards,
                .most_advanced = Rank{static_cast<std::uint16_t>(spec.world - 1)},
                .window = 2 * spec.window,
                .cookie = Cookie{mix64(spec.epoch * 61ULL)},
                .result_cookie = Cookie{mix64(spec.epoch * 67ULL)},
                .members = members_of(spec.racks)};
  for (std::uint32_t g = 0; g < std::uint32_t{spec.racks} * spec.world; ++g)
    job.parent.key_sum += racked_key(job.generation, g);
  job.key_sum = 0;
  for (std::uint32_t r = 0; r < spec.world; ++r) {
    job.ranks[r].key = racked_key(job.generation, kRack * std::uint32_t{spec.world} + r);
    job.key_sum += job.ranks[r].key;
  }
}

}  // namespace

jobs::NativeJob make_job(const JobSpec& spec) {
  jobs::NativeJob job;
  job.id = JobId{spec.id};
  job.epoch = Epoch{spec.epoch};
  job.generation = Generation{spec.generation};
  job.result_cookie = Cookie{mix64(spec.epoch * 31ULL + spec.id)};
  job.world = spec.world;
  job.shards = spec.shards;
  job.elements = spec.elements;
  job.window = spec.window;
  job.span = 2 * spec.window;
  job.members = members_of(spec.world);
  job.discipline = spec.discipline;
  if (shares_slots(spec.discipline)) job.server = ServerKind::kEmbedded;
  if (spec.servers != 0) job.server = ServerKind::kExternal;
  job.sparse = spec.sparse;
  job.servers = spec.servers;
  for (std::uint16_t i = 0; i < spec.servers; ++i) {
    job.server_ranks[i] = {Cookie{mix64(spec.epoch * 89ULL + i)}, 0,
                           test_binding(spec.id, static_cast<std::uint16_t>(100 + i))};
  }
  job.decay = spec.decay;
  job.stragglers = spec.stragglers;
  job.max_priority = spec.max_priority;
  job.reserved = spec.reserved;
  job.shared_slots = spec.shared_slots;
  job.salt = spec.salt;
  job.slots = {spec.first_line, own_lines(job)};
  for (std::uint16_t r = 0; r < spec.world; ++r) {
    job.ranks[r] = {Cookie{mix64(spec.epoch * 97ULL + r)}, rank_key(job.generation, Rank{r}),
                    test_binding(spec.id, r)};
    job.key_sum += job.ranks[r].key;
  }
  job.take_part(spec.part);
  if (spec.racks != 0) put_in_rack(job, spec);
  return job;
}

}  // namespace tally
