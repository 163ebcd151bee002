#include "shared_watch.h"

#include <algorithm>

namespace tally::sim {
namespace {

std::string name(const pipeline::Owner& owner, const pipeline::Head& head) {
  return "chunk " + std::to_string(head.chunk) + " of job " + std::to_string(owner.job) + " (epoch " +
         std::to_string(head.tag) + ", priority " + std::to_string(owner.priority) + ")";
}

}  // namespace

void SharedWatch::look(AnyPipeline& pipeline, const jobs::JobTable& table,
                       const std::optional<Arrival>& arrival, const Alarm& alarm) {
  std::visit([&](auto& p) { look_at(p, table, arrival, alarm); }, pipeline);
}

std::uint32_t SharedWatch::filling(JobId job) const {
  const auto it = of_job_.find(raw(job));
  return it == of_job_.end() ? 0 : it->second;
}

template <class P>
void SharedWatch::look_at(P& pipeline, const jobs::JobTable& table, const std::optional<Arrival>& arrival,
                          const Alarm& alarm) {
  for (std::uint32_t entry = 0; entry < region_.entries; ++entry)
    compare(pipeline, entry, table, arrival, alarm);
  if (filling_ != pipeline.shared().filling()) alarm("the list of filling entries has another length");
  for (std::uint32_t entry = 0; entry < region_.entries; ++entry) {
    if (entries_[entry].filling()) compare_ledger(pipeline, entry, table, alarm);
  }
  for (auto& [id, before] : occupancy_) {
    const std::uint32_t now = pipeline.state(JobId{id}).occupancy;
    const std::uint32_t cap = table.cap(JobId{id});
    if (now > before && table.find(JobId{id}) != nullptr && before >= cap)
      alarm("invariant 4: job " + std::to_string(id) + " rose from " + std::to_string(before) +
            " entries and its cap is " + std::to_string(cap));
    before = now;
  }
  if (arrival && arrival->job->discipline == Discipline::kShared) remember(*arrival);
}

template <class P>
void SharedWatch::compare(P& pipeline, std::uint32_t entry, const jobs::JobTable& table,
                          const std::optional<Arrival>& arrival, const Alarm& alarm) {
  Entry& known = entries_[entry];
  const std::uint32_t line = region_.line_of(entry);
  const Entry before = known;
  const pipeline::Head head = pipeline.execution().head(line);
  if (head.tag != known.head.tag || head.chunk != known.head.chunk ||
      head.contributors != known.head.contributors) {
    known.head = head;
    if (arrival && head.tag == raw(arrival->job->epoch) && head.chunk == raw(arrival->contribution.chunk) &&
        (head.contributors & ~jobs::here_of(*arrival->job, arrival->contribution.chunk)) != 0)
      alarm("entry " + std::to_string(entry) + " has ranks that the plan has nobody add here");
    if (head.tag != 0 && (head.tag != before.head.tag || head.chunk != before.head.chunk)) {
      known.owner = pipeline.execution().template peek<pipeline::OwnerReg>(line);
      const jobs::NativeJob* const job = table.find(JobId{known.owner.job});
      known.members = job != nullptr ? job->members : 0;
      known.decays =
          job != nullptr && job->discipline == Discipline::kPreemptive && job->decay != Decay::kNone;
      occupancy_.try_emplace(known.owner.job, 0);
      judge_claim(entry, arrival, alarm);
      if (before.filling() && arrival) judge_swap(before, known, *arrival, table, alarm);
    }
    if (before.filling()) --filling_, --of_job_[before.owner.job];
    if (known.filling()) ++filling_, ++of_job_[known.owner.job];
  }
  if (known.decays) known.owner = pipeline.execution().template peek<pipeline::OwnerReg>(line);
  if (known.filling() != pipeline.shared().filling(entry))
    alarm("entry " + std::to_string(entry) + (known.filling() ? " is" : " is not") +
          " filling and the lists disagree");
}

// A new chunk in an entry is that of the contribution which came in, and it is in no other entry.
void SharedWatch::judge_claim(std::uint32_t entry, const std::optional<Arrival>& arrival,
                              const Alarm& alarm) {
  const Entry& now = entries_[entry];
  if (!arrival || raw(arrival->job->id) != now.owner.job || raw(arrival->job->epoch) != now.head.tag ||
      raw(arrival->contribution.chunk) != now.head.chunk || arrival->dropped) {
    return alarm("entry " + std::to_string(entry) + " was claimed for " + name(now.owner, now.head) +
                 " by another event");
  }
  for (std::uint32_t other = 0; other < region_.entries; ++other) {
    const Entry& e = entries_[other];
    if (other != entry && e.filling() && e.owner.job == now.owner.job && e.head.tag == now.head.tag &&
        e.head.chunk == now.head.chunk)
      alarm("two entries are filling with " + name(now.owner, now.head));
  }
}

// Invariant 6.
void SharedWatch::judge_swap(const Entry& before, const Entry& after, const Arrival& arrival,
                             const jobs::JobTable& table, const Alarm& alarm) {
  const jobs::NativeJob& job = *arrival.job;
  const auto wrong = [&](const char* why) {
    alarm("invariant 6: " + name(after.owner, after.head) + " took the entry of " +
          name(before.owner, before.head) + ": " + why);
  };
  if (job.discipline == Discipline::kFcfs) return wrong("fcfs takes nothing");
  if (job.discipline == Discipline::kPreemptive) {
    if (!before.decays && after.owner.priority <= before.owner.priority) wrong("its priority is not higher");
    return;
  }
  const std::uint8_t mine = class_of(after.owner.priority);
  const std::uint8_t theirs = class_of(before.owner.priority);
  if (mine > theirs) return;
  const auto held = [&](std::uint16_t id) { return occupancy_.contains(id) ? occupancy_.at(id) : 0; };
  const jobs::NativeJob* const loser = table.find(JobId{before.owner.job});
  const bool guaranteed = held(after.owner.job) < job.reserved && before.owner.job != after.owner.job &&
                          held(before.owner.job) > (loser != nullptr ? loser->reserved : 0);
  if (mine < theirs && !guaranteed) wrong("it is of a lower class and has all that is reserved for its job");
  if (came_.contains(key(arrival))) wrong("it was not the first arrival of its chunk");
  if (!swapped_.insert(key(arrival)).second) wrong("its chunk did so before");
}

void SharedWatch::remember(const Arrival& arrival) {
  // Whose contributions another box adds, or none: what comes of them here, or comes with them, is passed on.
  if ((jobs::here_of(*arrival.job, arrival.contribution.chunk) & arrival.contribution.bit) == 0) return;
  if (!arrival.dropped) {
    came_.insert(key(arrival));
  } else if (arrival.drop == Drop::kBadSum) {  // the chunk begins afresh
    came_.erase(key(arrival));
    swapped_.erase(key(arrival));
  }
}

template <class P>
void SharedWatch::compare_ledger(P& pipeline, std::uint32_t entry, const jobs::JobTable& table,
                                 const Alarm& alarm) {
  const Entry& e = entries_[entry];
  const jobs::NativeJob* const job = table.find(JobId{e.owner.job});
  if (job == nullptr || job->discipline != Discipline::kShared || raw(job->epoch) != e.head.tag) return;
  const std::uint32_t slot = slot_of(jobs::slot_map(*job), Chunk{e.head.chunk});
  const pipeline::LedgerRow row = pipeline.execution().template peek<pipeline::LedgerReg>(
      job->slots.first * jobs::kLedgerRowsPerLine + slot / job->shards);
  if (row.seen == 0 || row.chunk != e.head.chunk) return;
  if (row.entry != entry + 1) alarm("the ledger names another entry for " + name(e.owner, e.head));
  if ((e.head.contributors & ~row.seen) != 0)
    alarm("the ledger has not seen all that is in the entry of " + name(e.owner, e.head));
}

}  // namespace tally::sim
