#include "jobs/job_table.h"

#include <algorithm>
#include <limits>

#include "tally/check.h"

namespace tally::jobs {
namespace {

std::shared_ptr<const SharedCaps> no_caps() {
  static const auto caps = [] {
    auto words = std::make_shared<SharedCaps>();
    words->fill(std::numeric_limits<std::uint32_t>::max());
    return words;
  }();
  return caps;
}

}  // namespace

void NativeJob::take_part(std::shared_ptr<const PlanPart> of_plan) noexcept {
  TALLY_CHECK(of_plan == nullptr || (discipline == Discipline::kShared && server == ServerKind::kExternal &&
                                     results == ResultsMode::kUnicast),
              "a job over several boxes has a ledger and external servers, and its results are unicast");
  part = std::move(of_plan);
  planned = part != nullptr;
  const auto known = [](const Member& member) { return member.binding != Binding{}; };
  enlisted = 0;
  enlisted_servers = 0;
  for (std::uint32_t r = 0; r < world; ++r) enlisted |= std::uint64_t{known(ranks[r])} << r;
  for (std::uint32_t s = 0; s < servers; ++s)
    enlisted_servers = static_cast<std::uint16_t>(enlisted_servers | (known(server_ranks[s]) ? 1U << s : 0));
}

// Not in the header: a table is a thousand rows, and tests, which are not optimised, copy them often.
JobTable::JobTable(std::shared_ptr<const SharedCaps> caps) : caps_(std::move(caps)) {}
JobTable::JobTable() : JobTable(no_caps()) {}
JobTable::JobTable(const JobTable&) = default;
JobTable::~JobTable() = default;

JobTable::Templates JobTable::templates_of(const NativeJob* job) {
  if (job == nullptr) return {};
  auto by_rank = std::make_shared<ContributionTemplate[]>(job->world);
  for (std::uint16_t r = 0; r < job->world; ++r) {
    const Member& m = job->ranks[r];
    by_rank[r] = {.likeness = knows(*job, Rank{r})
                                  ? contribution_likeness(m.binding, job->id, job->epoch, Rank{r}, m.cookie)
                                  : unlike_any(),
                  .job = job,
                  .key = m.key,
                  .port = m.binding.port};
  }
  return {std::move(by_rank), job->world};
}

std::shared_ptr<const JobTable> JobTable::with(const ChangedRows& changed) const {
  auto next = std::make_shared<JobTable>(*this);
  bool other_senders = false;
  for (const auto& [id, row] : changed) {
    Row& old = next->rows_.at(raw(id));
    other_senders |= row_as<SessionJob>(row) != nullptr || row_as<SessionJob>(old) != nullptr;
    old = row;
    next->templates_[raw(id)] = templates_of(row_as<NativeJob>(row));
  }
  next->find_racked();
  if (!other_senders) return next;
  next->senders_ = {};
  for (const Row& row : next->rows_) {
    const auto* const job = row_as<SessionJob>(row);
    if (job == nullptr) continue;
    for (std::uint32_t r = 0; r < job->world; ++r)
      next->senders_.add(sender_of(job->ranks[r].binding), {job, Rank{static_cast<std::uint16_t>(r)}});
  }
  return next;
}

std::shared_ptr<const JobTable> JobTable::with_parents(std::vector<Ipv6> addresses) const {
  auto next = std::make_shared<JobTable>(*this);
  next->parents_ = std::move(addresses);
  return next;
}

void JobTable::find_racked() {
  racked_.clear();
  for (const Row& row : rows_)
    if (const auto* const job = row_as<NativeJob>(row); job != nullptr && job->racked != 0)
      racked_.push_back(job);
}

// Its packets come from the port of whichever of its cores has them.
const NativeJob* JobTable::find_at_parent(const Binding& source, JobId there) const noexcept {
  const auto found = std::ranges::find_if(racked_, [&](const NativeJob* job) {
    Binding from = job->parent.binding;
    from.udp_port = source.udp_port;
    return job->parent.job == there && from == source && source.udp_port >= kBasePort &&
           source.udp_port < kBasePort + job->parent.shards;
  });
  return found == racked_.end() ? nullptr : *found;
}

bool JobTable::is_parent(const Ipv6& address) const noexcept {
  return std::ranges::find(parents_, address) != parents_.end() ||
         std::ranges::any_of(racked_,
                             [&](const NativeJob* job) { return job->parent.binding.address == address; });
}

}  // namespace tally::jobs
