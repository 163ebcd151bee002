#include "outside_servers.h"

#include <algorithm>

#include "tally/net.h"

namespace tally::sim {
namespace {

ServerOptions server_of_all(const Scenario& s, std::uint8_t i, Rng& rng) {
  ServerOptions server;
  server.index = s.workers.size() + i;
  for (const members::JobConfig& job : s.box.jobs) {
    if (job.servers > i) server.jobs.push_back({job.name, job.token, i});
  }
  // One that can carry less than its jobs could lowers what they send.
  server.elements = static_cast<std::uint16_t>(rng.chance(0.8) ? 64 : 16 * rng.between(1, 4));
  server.states = static_cast<std::uint32_t>(rng.chance(0.5) ? rng.between(16, 256) : rng.between(1, 16));
  server.binding.address = mapped({10, 0, 200, static_cast<std::uint8_t>(i + 1)});
  server.binding.mac = {2, 5, 0, 0, 0, i};
  server.binding.udp_port = 50'000;
  server.binding.port = PortIndex{static_cast<std::uint16_t>(server.index)};
  return server;
}

void add_server_blows(Scenario& s, Rng& rng) {
  const auto count = rng.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    s.blows.push_back({.when = rng.below(s.heal_at),
                       .what = rng.chance(0.5) ? Blow::kCrashServer : Blow::kPauseServer,
                       .worker = rng.below(s.servers.size()),
                       .lasts = rng.below(rng.chance(0.2) ? 4 * kSecond : 50 * kMillisecond)});
  }
}

}  // namespace

void serve_outside(Scenario& s, Rng& rng) {
  if (rng.chance(0.6)) return;
  const bool all = rng.chance(0.6);
  std::uint8_t most = 0;
  for (members::JobConfig& job : s.box.jobs) {
    if (!shares_slots(job.discipline) || (!all && rng.chance(0.5))) continue;
    job.server = ServerKind::kExternal;
    job.servers = static_cast<std::uint8_t>(rng.chance(0.6) ? 1 : rng.between(2, 3));
    most = std::max(most, job.servers);
  }
  for (std::uint8_t i = 0; i < most; ++i) s.servers.push_back(server_of_all(s, i, rng));
  if (most == 0) return;
  add_server_blows(s, rng);
  s.give_up = std::max(s.give_up, s.heal_at + 600 * kSecond);  // a server with few states makes it slow
  s.largest = std::min(s.largest, 300U);
}

}  // namespace tally::sim
