#include "jobs/job_table.h"

#include <limits>

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
    by_rank[r] = {.likeness = contribution_likeness(m.binding, job->id, job->epoch, Rank{r}, m.cookie),
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

}  // namespace tally::jobs
