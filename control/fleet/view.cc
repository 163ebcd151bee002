#include "fleet/view.h"

#include <algorithm>

#include "text/text.h"

namespace tally::fleet {
namespace {

// Bad records that are told by name; of a store full of them the number is enough.
constexpr std::size_t kMostNamed = 32;

}  // namespace

void View::reset(const std::vector<Pair>& pairs, Revision revision) {
  std::set<std::string> there;
  for (const Pair& pair : pairs) there.insert(pair.key);
  std::vector<std::string> gone;
  for (const auto& [key, modified] : held_)
    if (!there.contains(key)) gone.push_back(key);
  for (const std::string& key : gone) erase(key);
  for (const Pair& pair : pairs) {
    const auto at = held_.find(pair.key);
    if (at == held_.end() || at->second != pair.modified) set(pair);
  }
  revision_ = revision;
}

void View::apply(const std::vector<Change>& changes, Revision revision) {
  for (const Change& change : changes) {
    if (change.erased)
      erase(change.pair.key);
    else
      set(change.pair);
  }
  revision_ = std::max(revision_, revision);
}

void View::set(const Pair& pair) {
  held_[pair.key] = pair.modified;
  bad_.erase(pair.key);
  waiting_.erase(pair.key);
  const auto key = keys_.parse(pair.key);
  const std::string why = key ? place(*key, pair) : "it is no key of a fleet";
  if (why.empty()) return;
  if (key) clear(*key, false);
  ++bad_total_;
  if (bad_.size() < kMostNamed) note("the record " + text::cleaned(pair.key) + " is ignored: " + why, true);
  bad_.emplace(pair.key, why);
  let_in();
}

void View::erase(const std::string& key) {
  if (held_.erase(key) == 0) return;
  bad_.erase(key);
  waiting_.erase(key);
  if (const auto parsed = keys_.parse(key)) clear(*parsed, true);
  let_in();
}

void View::let_in() {
  while (boxes_.size() < kMostBoxes && !waiting_.empty()) set(Pair(waiting_.begin()->second));
}

std::string View::place(const Key& key, const Pair& pair) {
  const auto seat = [&](std::optional<SeenSeat>& out) -> std::string {
    auto record = read_seat(pair.value);
    if (!record) return std::move(record.error());
    out = SeenSeat{std::move(*record), pair.created, pair.lease};
    return {};
  };
  if (const auto* const box = std::get_if<BoxKey>(&key)) {
    auto record = read_box(pair.value);
    if (!record) return std::move(record.error());
    // Not on behalf of whoever has this place: one that outlives its box would be counted on for ever.
    if (pair.lease == 0) return "it is under no lease";
    if (!boxes_.contains(box->id)) {
      if (boxes_.size() >= kMostBoxes) {
        waiting_[pair.key] = pair;
        return "the fleet has " + std::to_string(kMostBoxes) + " boxes already";
      }
      note("box " + box->id + " is there");
    }
    boxes_[box->id] = {std::move(*record), pair.created, pair.lease};
    return {};
  }
  if (const auto* const job = std::get_if<JobKey>(&key)) {
    auto record = read_job(job->job, pair.value);
    if (!record) return std::move(record.error());
    SeenJob& seen = jobs_[job->job];
    if (!seen.record) note("job " + job->job + " is declared");
    seen.record = std::move(*record);
    seen.created = pair.created;
    return {};
  }
  if (const auto* const home = std::get_if<HomeKey>(&key)) {
    SeenJob& seen = jobs_[home->job];
    seen.bad_home = true;
    if (std::string why = seat(seen.home); !why.empty()) return why;
    seen.bad_home = false;
    note("the home of job " + home->job + " is box " + seen.home->record.box);
    return {};
  }
  if (const auto* const facts = std::get_if<FactsKey>(&key)) {
    auto record = read_facts(pair.value);
    if (!record) return std::move(record.error());
    if (pair.lease == 0) return "it is under no lease";
    jobs_[facts->job].facts = std::move(*record);
    return {};
  }
  if (const auto* const plan = std::get_if<PlanKey>(&key)) {
    auto record = read_plan(*plan, pair.value);
    if (!record) return std::move(record.error());
    jobs_[plan->job].plans[plan->number] = std::make_shared<const PlanRecord>(std::move(*record));
    note("job " + plan->job + " has plan " + std::to_string(plan->number));
    return {};
  }
  if (std::string why = seat(planner_); !why.empty()) return why;
  note("box " + planner_->record.box + " is the planner");
  return {};
}

// gone: the key is; else something stands there that is no record.
void View::clear(const Key& key, bool gone) {
  if (const auto* const box = std::get_if<BoxKey>(&key)) {
    if (boxes_.erase(box->id) > 0) note("box " + box->id + " is gone");
  } else if (const auto* const job = std::get_if<JobKey>(&key)) {
    SeenJob& seen = jobs_[job->job];
    if (seen.record) note("job " + job->job + " is withdrawn");
    seen.record.reset();
    forget_empty(job->job);
  } else if (const auto* const home = std::get_if<HomeKey>(&key)) {
    SeenJob& seen = jobs_[home->job];
    if (seen.home) note("job " + home->job + " has lost its home, box " + seen.home->record.box);
    seen.home.reset();
    seen.bad_home = !gone;
    forget_empty(home->job);
  } else if (const auto* const facts = std::get_if<FactsKey>(&key)) {
    jobs_[facts->job].facts.reset();
    forget_empty(facts->job);
  } else if (const auto* const plan = std::get_if<PlanKey>(&key)) {
    jobs_[plan->job].plans.erase(plan->number);
    forget_empty(plan->job);
  } else {
    if (planner_) note("box " + planner_->record.box + " is the planner no longer");
    planner_.reset();
  }
}

void View::forget_empty(const std::string& job) {
  const SeenJob& seen = jobs_[job];
  if (!seen.record && !seen.home && !seen.facts && seen.plans.empty() && !seen.bad_home) jobs_.erase(job);
}

}  // namespace tally::fleet
