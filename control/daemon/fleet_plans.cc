#include "daemon/fleet_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "members/texts.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

std::vector<std::string> texts_of(const std::vector<Ipv6>& addresses) {
  std::vector<std::string> out;
  out.reserve(addresses.size());
  for (const Ipv6& address : addresses) out.push_back(members::address_text(address));
  return out;
}

fleet::FactsRecord record_of(const planning::JobFacts& facts) {
  return {.ranks = texts_of(facts.ranks),
          .servers = texts_of(facts.servers),
          .boxes = texts_of(facts.boxes),
          .usable = facts.usable};
}

// False: one of them is none.
bool read_addresses(const std::vector<std::string>& texts, std::vector<Ipv6>& out) {
  for (const std::string& text : texts) {
    const auto address = text::ip_address(text);
    if (!address) return false;
    out.push_back(*address);
  }
  return true;
}

std::optional<planning::JobFacts> facts_of(const std::string& job, const fleet::FactsRecord& record) {
  planning::JobFacts facts{.job = job, .usable = record.usable};
  if (!read_addresses(record.ranks, facts.ranks) || !read_addresses(record.servers, facts.servers) ||
      !read_addresses(record.boxes, facts.boxes))
    return std::nullopt;
  return facts;
}

}  // namespace

FleetPlans::FleetPlans(fleet::Member& member, PlanFace face, LogSink log)
    : member_(member), face_(std::move(face)), log_(std::move(log)) {}

void FleetPlans::turn(TimeNs now) {
  look_at_planner(now);
  if (face_.desk == nullptr) return;
  face_.desk->set_planned_by_fleet(who_.in_fleet && !who_.alone);
  // What was read before the store was gone is nothing new.
  if (member_.knows_fleet() && member_.standing().kind == fleet::Standing::Kind::kMember) {
    hear_rates(now);
    tell_facts(now);
    take_plans();
  }
  plan_for_all(now);
}

void FleetPlans::look_at_planner(TimeNs now) {
  const fleet::Standing& standing = member_.standing();
  using Kind = fleet::Standing::Kind;
  if (standing.kind == Kind::kMember && member_.knows_fleet()) {
    const auto& seat = member_.view().planner();
    const std::string planner = seat ? seat->record.box : "";
    if (planner != who_.planner) who_.since = now;
    who_.planner = planner;
    who_.in_fleet = who_.in_fleet || !planner.empty();
    who_.trouble = who_.in_fleet && planner.empty() ? "no box of the fleet plans" : "";
  } else if (who_.in_fleet) {
    who_.trouble = "this box is not in its fleet (" + std::string(fleet::name_of(standing.kind)) +
                   (standing.text.empty() ? "" : ": " + standing.text) + ")";
  }
  who_.here = member_.planner_since(now) != 0;
  if (who_.trouble.empty())
    troubled_.reset();
  else if (!troubled_)
    troubled_ = now;
  who_.alone = troubled_ && now >= *troubled_ + kGoneForGood;
  if (!who_.trouble.empty())
    who_.trouble +=
        who_.alone ? "; homes plan their own jobs by now" : "; homes make plans at once, and keep to them";
}

std::map<std::string, double> FleetPlans::rates_here() const {
  std::map<std::string, double> all;
  if (face_.desk == nullptr) return all;
  for (const auto& [name, rate] : face_.desk->set_rates())
    if (all.size() < fleet::kMostRates) all.emplace(name, std::clamp(rate, 0.0, fleet::kMostRate));
  return all;
}

// Whoever an operator told it at: it holds for the cluster. Of two the less counts.
void FleetPlans::hear_rates(TimeNs now) {
  planning::SetRates others;
  for (const auto& [id, box] : member_.view().boxes()) {
    if (id == member_.id()) continue;
    for (const auto& [name, rate] : box.record.set_rates) {
      const auto at = others.emplace(name, rate).first;
      at->second = std::min(at->second, rate);
    }
  }
  face_.desk->hear_rates(std::move(others), now);
}

void FleetPlans::tell_facts(TimeNs now) {
  const auto& here = face_.desk->jobs();
  for (const auto& [name, job] : here) {
    if (!job.running && raw(job.epoch) == 0) continue;
    if (!member_.is_home_of(name, now)) continue;
    Told& told = told_[name];
    if (told.facts != job.facts) told = {job.facts, record_of(job.facts)};
    told.record.limits.clear();
    for (const planning::BoxLimit& one : face_.desk->limits_of(name))
      told.record.limits.emplace(members::address_text(one.box), std::min(one.most, fleet::kMostRate));
    const auto done = member_.tell_facts(name, told.record, now);
    if (!done && done.error().code == ErrorCode::kInvalidArgument) complain_once(name, done.error().text());
  }
  std::erase_if(told_, [&](const auto& one) { return !here.contains(one.first); });
  for (const auto& [name, job] : member_.view().jobs())
    if (job.facts && !here.contains(name) && member_.is_home_of(name, now))
      (void)member_.tell_facts(name, std::nullopt, now);  // until it is told
}

void FleetPlans::take_plans() {
  for (const auto& [name, told] : told_) {
    const auto seen = member_.view().jobs().find(name);
    if (seen == member_.view().jobs().end()) continue;
    const auto plan = seen->second.plan_for_facts();
    if (!plan) continue;
    fleet::FactsRecord mine = told.record;
    mine.number = seen->second.facts->number;
    if (mine == *seen->second.facts)
      face_.desk->give(told.facts, plan->plan, plan->number, who_.planner.empty() ? "?" : who_.planner);
  }
}

bool FleetPlans::is_held(const std::string& job, std::uint64_t facts, TimeNs now) const {
  const auto at = held_.find(job);
  return at != held_.end() && at->second.facts == facts && at->second.ground == face_.desk->ground_number() &&
         now < at->second.until;
}

void FleetPlans::plan_for_all(TimeNs now) {
  if (auto done = face_.reckoned()) {
    reckoning_ = false;
    if (face_.desk->is_current(done->work)) publish(*done, now);
  }
  if (member_.planner_since(now) == 0) {
    asked_for_ = {};  // who plans next may have had other reasons
    return;
  }
  if (reckoning_ || now < next_round_ || !is_due(now)) return;
  next_round_ = now + kBetweenRounds;
  asked_for_ = basis_;
  const auto& all = member_.view().jobs();
  std::vector<planning::JobFacts> jobs;
  std::vector<planning::BoxLimit> limits;
  for (const auto& [name, job] : all) {
    if (!job.record || !job.facts) continue;
    auto facts = facts_of(name, *job.facts);
    if (!facts) {
      complain_once(name, "its facts in the fleet have an address that is none");
      held_[name] = {job.facts->number, face_.desk->ground_number(), now + kNoPlan};
      continue;
    }
    jobs.push_back(std::move(*facts));
    for (const auto& [box, most] : job.facts->limits)
      if (const auto address = text::ip_address(box)) limits.push_back({name, *address, most});
  }
  auto work = jobs.empty() ? std::nullopt : face_.desk->work_for_fleet(std::move(jobs), std::move(limits));
  if (!work) return;
  reckoning_ = true;
  face_.reckon(std::move(*work));
}

// A job without a plan for its facts; or what the plans of all rest on is another thing than it was: the cluster, or who
// is in it beside them.
bool FleetPlans::is_due(TimeNs now) {
  const auto& all = member_.view().jobs();
  std::erase_if(held_, [&](const auto& one) { return !all.contains(one.first); });
  Basis basis{.ground = face_.desk->ground_number()};
  bool wanted = false;
  for (const auto& [name, job] : all) {
    if (job.record && job.facts) basis.facts.emplace(name, job.facts->number);
    wanted = wanted || (job.wants_plan() && !is_held(name, job.facts->number, now));
  }
  if (basis != basis_) {
    basis_ = std::move(basis);
    basis_since_ = now;
  }
  return wanted || (basis_ != asked_for_ && now >= basis_since_ + kSettled);
}

void FleetPlans::publish(const planning::WorkDone& done, TimeNs now) {
  const std::uint64_t ground = face_.desk->ground_number();
  bool again = false;
  for (std::size_t j = 0; j < done.plans.size(); ++j) {
    const std::string& name = done.work.jobs[j].job;
    const auto at = member_.view().jobs().find(name);
    const auto asked = asked_for_.facts.find(name);
    if (at == member_.view().jobs().end() || asked == asked_for_.facts.end() || !at->second.record ||
        !at->second.facts || at->second.facts->number != asked->second)
      continue;
    const std::uint64_t facts = asked->second;
    const planning::RunningPlan& plan = done.plans[j];
    const auto present = at->second.plan_for_facts();
    if (present ? plan.planned() && !face_.desk->is_better(done, j, present->plan)
                : is_held(name, facts, now))
      continue;
    if (!plan.planned()) {
      complain_once(name, "this box cannot plan it for the fleet: " + plan.why_not);
      held_[name] = {facts, ground, now + kNoPlan};
      continue;
    }
    const auto newest = at->second.newest_plan();
    const auto told = member_.publish(
        {.job = name, .facts = facts, .number = newest ? newest->number + 1 : 1, .plan = plan.plan}, now);
    if (told) {
      complaint_.erase(name);
      held_[name] = {facts, ground, now + kOnItsWay};
    } else if (told.error().code == ErrorCode::kInvalidArgument) {
      complain_once(name, told.error().text());
      held_[name] = {facts, ground, now + kNoPlan};
    } else {
      again = true;
    }
  }
  if (again) asked_for_ = {};  // who has a plan would have no other reason for a better one
}

void FleetPlans::complain_once(const std::string& job, const std::string& text) {
  if (std::exchange(complaint_[job], text) == text) return;
  log_(LogLevel::kWarning, "job '" + job + "': " + text, {.job = job});
}

}  // namespace tally::daemon
