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

// Not in the header: a table is two thousand rows, and tests, which are not optimised, copy them often.
JobTable::JobTable(std::shared_ptr<const SharedCaps> caps) : caps_(std::move(caps)) {}
JobTable::JobTable() : JobTable(no_caps()) {}
JobTable::JobTable(const JobTable&) = default;
JobTable::~JobTable() = default;

std::shared_ptr<const JobTable> JobTable::with(const ChangedRows& changed) const {
  auto next = std::make_shared<JobTable>(*this);
  bool other_senders = false;
  for (const auto& [id, job] : changed) {
    const bool session = job != nullptr && job->session.has_value();
    other_senders |= session || sessions_.at(raw(id)) != nullptr;
    next->rows_.at(raw(id)) = session ? nullptr : job;
    next->sessions_.at(raw(id)) = session ? job : nullptr;
  }
  if (!other_senders) return next;
  next->senders_ = {};
  for (const auto& row : next->sessions_) {
    if (row == nullptr) continue;
    for (std::uint32_t r = 0; r < row->world; ++r)
      next->senders_.add(sender_of(row->ranks[r].binding), {row.get(), Rank{static_cast<std::uint16_t>(r)}});
  }
  return next;
}

}  // namespace tally::jobs
