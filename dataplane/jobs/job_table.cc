#include "jobs/job_table.h"

#include <utility>

namespace tally::jobs {

// Not in the header: a table is two thousand rows, and tests, which are not optimised, copy them often.
JobTable::JobTable() = default;
JobTable::JobTable(const JobTable&) = default;
JobTable::~JobTable() = default;

std::shared_ptr<const JobTable> JobTable::with(JobId id, std::shared_ptr<const Job> job) const {
  auto next = std::make_shared<JobTable>(*this);
  const bool session = job != nullptr && job->session.has_value();
  const bool was_session = next->sessions_.at(raw(id)) != nullptr;
  next->rows_.at(raw(id)) = session ? nullptr : job;
  next->sessions_.at(raw(id)) = session ? std::move(job) : nullptr;
  if (!session && !was_session) return next;
  next->senders_ = {};
  for (const auto& row : next->sessions_) {
    if (row == nullptr) continue;
    for (std::uint32_t r = 0; r < row->world; ++r)
      next->senders_.add(sender_of(row->ranks[r].binding), {row.get(), Rank{static_cast<std::uint16_t>(r)}});
  }
  return next;
}

}  // namespace tally::jobs
