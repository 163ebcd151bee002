#include "config/to_members.h"

#include "config/checks.h"
#include "tally/mix64.h"

namespace tally::config {

members::JobConfig member_job(const JobSection& job) {
  return {.name = job.name,
          .token = job.token,
          .workers = job.workers,
          .elements = job.elements,
          .window = job.window,
          .priority = job.priority,
          .lease = job.lease,
          .results = job.results,
          .discipline = job.discipline,
          .server = job.server,
          .servers = job.server == ServerKind::kExternal ? job.servers : std::uint8_t{0},
          .decay = job.decay,
          .quota = job.quota,
          .stragglers = job.stragglers.value_or(members::StragglerPolicy{})};
}

members::SessionConfig member_session(const JobSection& job) {
  return {
      .name = job.name, .payload = job.payload, .slots = job.slots, .tsi = job.tsi, .members = job.members};
}

Result<JobId> declare(const JobSection& job, members::MembershipEngine& engine) {
  return is_session(job) ? engine.declare(member_session(job)) : engine.declare(member_job(job));
}

members::MembershipOptions member_options(const Config& config) {
  return {.box_mac = box_mac(config),
          .shards = static_cast<std::uint8_t>(config.dataplane.cores.size()),
          .slot_lines = static_cast<std::uint32_t>(slot_lines_per_core(config.dataplane)),
          .shared_entries = shared_entries_per_core(config.dataplane),
          .shared_elements = config.dataplane.shared.elements};
}

Mac box_mac(const Config& config) {
  if (config.box.mac) return *config.box.mac;
  std::uint64_t hash = 0;
  for (const char c : config.instance) hash = mix64(hash * 257 + static_cast<unsigned char>(c) + 1);
  Mac mac{0x02};
  for (std::size_t i = 1; i < mac.size(); ++i) mac[i] = static_cast<std::uint8_t>(hash >> (8 * i));
  return mac;
}

}  // namespace tally::config
