#include "join_checks.h"

#include <string_view>

#include "texts.h"

namespace tally {
namespace {

// Takes the same time wherever the two differ, so that a guess learns nothing but the length.
bool tokens_equal(std::string_view wanted, std::string_view given) noexcept {
  unsigned difference = wanted.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(wanted[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

std::optional<Objection> objection_to_server(const JobMembership& job, const JoinRequest& join,
                                             const std::string& name) {
  const std::uint32_t servers = job.config.servers;
  if (server_index(join.rank) < servers) return std::nullopt;
  if (servers == 0) {
    return Objection{MembershipDrop::kRank,
                     name + " has no external server here: write server: external in its configuration"};
  }
  return Objection{MembershipDrop::kRank, name + " has servers 0 to " + std::to_string(servers - 1) +
                                              ", not " + std::to_string(server_index(join.rank))};
}

}  // namespace

std::optional<Objection> objection_to(const JobMembership* job, const JoinRequest& join) {
  const std::string name = "job '" + cleaned(join.name) + "'";
  if (job == nullptr) return Objection{MembershipDrop::kUnknownJob, name + " is not declared on this box"};
  if (!tokens_equal(job->config.token, join.token)) {
    return Objection{MembershipDrop::kToken, name + ": wrong token"};
  }
  if (is_server(join.rank)) return objection_to_server(*job, join, name);
  const std::uint16_t world = join.fixed.world.host();
  if (world != job->config.workers) {
    return Objection{MembershipDrop::kWorld, name + " has " + std::to_string(job->config.workers) +
                                                 " workers here, this worker expects " +
                                                 std::to_string(world)};
  }
  if (raw(join.rank) >= job->config.workers) {
    return Objection{MembershipDrop::kRank, name + " has ranks 0 to " +
                                                std::to_string(job->config.workers - 1) + ", not " +
                                                std::to_string(raw(join.rank))};
  }
  return std::nullopt;
}

}  // namespace tally
