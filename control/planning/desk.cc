#include "planning/desk.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "members/texts.h"
#include "text/text.h"

namespace tally::planning {
namespace {

using planner::Trigger;

JobFacts facts_of(const members::PlanRequest& request) {
  return {.job = std::string(request.job),
          .ranks = {request.rank_addresses.begin(), request.rank_addresses.end()},
          .servers = {request.server_addresses.begin(), request.server_addresses.end()},
          .boxes = {request.addresses.begin(), request.addresses.end()},
          .usable = request.usable};
}

Cause cause_of(Trigger trigger) noexcept {
  switch (trigger) {
    case Trigger::kLost:
      return Cause::kLost;
    case Trigger::kDrift:
      return Cause::kDrift;
    case Trigger::kMisses:
      return Cause::kMisses;
    case Trigger::kRefine:
      return Cause::kRefine;
    case Trigger::kGain:
    case Trigger::kNothing:
      break;
  }
  return Cause::kGain;
}

Trigger trigger_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kDrift:
      return Trigger::kDrift;
    case Cause::kMisses:
      return Trigger::kMisses;
    case Cause::kRefine:
      return Trigger::kRefine;
    default:
      return Trigger::kGain;
  }
}

std::string boxes_text(const JobFacts& facts, std::uint64_t boxes) {
  std::vector<std::string> words;
  for (; boxes != 0; boxes &= boxes - 1)
    words.push_back(members::address_text(facts.boxes[static_cast<std::size_t>(std::countr_zero(boxes))]));
  return (words.size() == 1 ? "the box at " : "the boxes at ") + text::listed(words);
}

std::string milliseconds(TimeNs time) {
  return text::fixed(static_cast<double>(time) / static_cast<double>(kMillisecond), 1) + " ms";
}

std::string gbits(double rate) {
  return rate < 1 ? text::fixed(1e3 * rate, 1) + " Mbit/s" : text::fixed(rate, 2) + " Gbit/s";
}

}  // namespace

WorkDone do_work(Work work) {
  Ground ground(work.cluster, work.rates);
  WorkDone out{.work = std::move(work)};
  out.plans = plan_together(ground, out.work.jobs, planner::Effort::kFull, out.work.limits);
  for (const RunningPlan& plan : out.plans) {
    std::optional<planner::Baselines> baselines;
    if (plan.planned() && !out.work.fleet) {
      auto known = planner::baselines_of(ground.network(), plan.job, plan.room, plan.made);
      if (known) baselines = *known;
    }
    out.baselines.push_back(baselines);
  }
  return out;
}

std::vector<BoxLimit> Desk::limits_of(const std::string& job) const {
  std::vector<BoxLimit> all = box_limits_;
  std::erase_if(all, [&](const BoxLimit& one) { return one.job != job; });
  return all;
}

// A plan of the fleet comes again.
void Desk::drop_hand(Job& job) {
  job.hand.reset();
  if (!std::exchange(job.hand_planner, {}).empty()) job.fleet_number = 0;
}

void Desk::plan_even(Job& job, std::string why) {
  job.plan = {.why_not = std::move(why)};
  job.planner.clear();
  job.baselines.reset();
  job.in_haste = false;
}

// The job as the last one.
std::vector<JobFacts> Desk::beside_others(const Job& job) const {
  std::vector<JobFacts> all;
  for (const auto& [name, other] : jobs_) {
    if (name != job.facts.job) all.push_back(other.facts);
  }
  all.push_back(job.facts);
  return all;
}

RunningPlan Desk::of_fleet(const Job& job, const Plan& plan) {
  if (ground_) {
    RunningPlan known =
        plan_of_another(*ground_, beside_others(job), loads_of_others(job.facts.job), plan, box_limits_);
    if (known.planned()) return known;
  }
  return {.plan = plan};
}

void Desk::give(const JobFacts& facts, const Plan& plan, std::uint32_t number, const std::string& planner) {
  const auto at = jobs_.find(facts.job);
  if (at == jobs_.end() || at->second.facts != facts || at->second.fleet_number == number) return;
  Job& job = at->second;
  const bool first = std::exchange(job.fleet_number, number) == 0;
  if (!members::fits(plan, request_of(facts)))
    return notes_.push_back(
        {at->first, "box " + planner + " of the fleet has made a plan that is none for it", true});
  if (job.plan.planned() && job.plan.plan == plan) {
    job.hand.reset();
    job.hand_planner.clear();
    job.planner = planner;
    job.in_haste = false;
    return;
  }
  RunningPlan given = of_fleet(job, plan);
  if (!first && has_loads(job) && !given.made.loads.empty()) {
    const double current = rate_in(ground_->topology(), job.plan, given.job, given.room);
    if (!job.rules.is_worth(Trigger::kGain, current, given.made.rate)) return;
  }
  job.hand = std::move(given);
  job.hand_planner = planner;
}

std::optional<Work> Desk::work_for_fleet(std::vector<JobFacts> jobs, std::vector<BoxLimit> limits) {
  if (!ground_) return std::nullopt;
  limits.insert(limits.end(), box_limits_.begin(), box_limits_.end());
  return Work{.number = ++numbers_,
              .cluster = cluster_,
              .rates = all_rates(),
              .jobs = std::move(jobs),
              .limits = std::move(limits),
              .fleet = true};
}

bool Desk::is_better(const WorkDone& done, std::size_t j, const Plan& present) {
  const RunningPlan& better = done.plans[j];
  if (better.plan == present) return false;
  const RunningPlan known =
      plan_of_another(*ground_, std::span(&done.work.jobs[j], 1), {}, present, done.work.limits);
  const double current = rate_in(ground_->topology(), known, better.job, better.room);
  return planner::ReplanRules(limits_).is_worth(Trigger::kGain, current, better.made.rate);
}

// Jobs that are called back together ask one behind the other, and members wait for the thread that answers: from
// kMostInHaste of reckoning on, boxes are alike until the next round.
void Desk::plan_in_haste(Job& job, TimeNs now) {
  haste_until_ = std::max(haste_until_, now);
  if (haste_until_ - now > kMostInHaste) {
    plan_even(job, "many jobs asked for plans together; its own comes next");
  } else {
    const std::vector<JobFacts> all = beside_others(job);
    job.plan = plan_at_once(*ground_, all, loads_of_others(job.facts.job), box_limits_);
    const auto racks = static_cast<TimeNs>(std::max<std::size_t>(job.plan.made.tables.racks.size(), 1));
    haste_until_ += kHaste * racks * static_cast<TimeNs>(job.facts.boxes.size() * all.size());
  }
  job.in_haste = true;
}

Plan Desk::plan(const members::PlanRequest& request, TimeNs now) {
  JobFacts facts = facts_of(request);
  const auto [at, fresh] = jobs_.try_emplace(facts.job);
  Job& job = at->second;
  if (fresh) job.rules = planner::ReplanRules(limits_);
  const std::uint64_t lost = fresh ? 0 : job.facts.usable & ~facts.usable;
  const std::uint64_t back = fresh ? 0 : facts.usable & ~job.facts.usable;
  // Membership may ask more than once before an epoch begins; why it asked first is why that epoch has its plan.
  const bool again = !fresh && job.offered && !job.next;
  if (!again) {
    job.cause = fresh ? Cause::kFirst : job.next.value_or(Cause::kRenewed);
    job.cause_text = std::exchange(job.next_text, {});
  }
  job.offered = true;
  if (!fresh && lost != 0) {
    job.cause = Cause::kLost;
    job.cause_text = boxes_text(facts, lost);
  } else if (back != 0 && job.cause != Cause::kAsked) {
    job.cause = Cause::kReturned;
    job.cause_text = boxes_text(facts, back);
  }
  if (job.cause == Cause::kLost || job.cause == Cause::kReturned)
    job.triggered.reset();  // that was another one
  job.next.reset();
  job.wants.reset();
  job.planned = now;
  const bool same = job.facts == facts;
  job.facts = std::move(facts);
  if (same && job.plan.planned() && !job.hand && (again || job.cause != Cause::kLost)) {
    dirty_ = dirty_ || job.cause == Cause::kAsked;  // nothing better is known
  } else if (same && job.hand) {
    job.plan = *std::exchange(job.hand, {});
    job.planner = std::exchange(job.hand_planner, {});
    if (!job.planner.empty()) job.baselines.reset();
    job.in_haste = false;
  } else {
    job.hand.reset();
    job.hand_planner.clear();
    if (!same) job.fleet_number = 0;
    if (!ground_) {
      plan_even(job, kNoCluster);
    } else {
      job.planner.clear();
      job.baselines.reset();
      plan_in_haste(job, now);
    }
    dirty_ = true;
  }
  if (job.plan.planned() && !members::fits(job.plan.plan, request))
    plan_even(job, "the planner's plan is none for this job: a defect of the program; report it");
  return job.plan.planned() ? job.plan.plan : members::even_plan(request);
}

void Desk::begin_epoch(const std::string& name, Job& job, TimeNs now) {
  if (job.paused) job.pause = now - *std::exchange(job.paused, {});
  job.offered = false;
  ++changes_[static_cast<std::size_t>(job.cause)];
  count_on_ground(job, now);
  compare_with_ground(job, now);
  std::string text = "plan (" + std::string(word_of(job.cause)) +
                     (job.cause_text.empty() ? "" : ": " + job.cause_text) + "): ";
  if (!job.planner.empty()) text += "by box " + job.planner + " of the fleet, ";
  if (job.plan.planned() && !has_loads(job))
    text += "which knows where it is";
  else if (job.plan.planned())
    text += gbits(job.plan.made.rate) + " from every worker, " + planner::name_of(job.plan.made.form) +
            ", full is " +
            (job.plan.made.binding == planner::kNone ? std::string("nothing")
                                                     : ground_->topology().name_of(job.plan.made.binding));
  else
    text += "all boxes alike";
  if (!job.plan.planned() && ground_) text += ", for " + job.plan.why_not;
  if (job.triggered)
    text += "; " + milliseconds(now - *std::exchange(job.triggered, {})) + " after its trigger";
  if (job.pause) text += "; the pause was " + milliseconds(*job.pause);
  notes_.push_back({name, std::move(text), !job.plan.planned() && ground_.has_value()});
}

void Desk::saw(const std::string& name, const Seen& seen, TimeNs now) {
  const auto at = jobs_.find(name);
  if (at == jobs_.end()) return;
  if (seen.over) return gone(name);
  Job& job = at->second;
  job.left_out = seen.left_out;
  if (seen.running && seen.epoch != job.epoch) {
    job.epoch = seen.epoch;
    job.running = true;
    begin_epoch(name, job, now);
  } else if (!seen.running && job.running) {
    job.running = false;
    job.paused = now;
  }
}

double Desk::meeting_here(const Job& job) const {
  double ranks = 0;
  double groups = 0;
  for (std::size_t b = 0; b < job.plan.plan.boxes.size(); ++b) {
    if (std::ranges::find(own_, job.plan.plan.boxes[b]) == own_.end()) continue;
    for (std::uint32_t g = 0; g < kPlanGroups; ++g) {
      const int here = std::popcount(job.plan.plan.here(static_cast<BoxIndex>(b), g));
      ranks += here;
      groups += here > 0 ? 1 : 0;
    }
  }
  return groups > 0 ? ranks / groups : 0;
}

void Desk::saw_slots(const std::string& name, std::uint64_t taken, std::uint64_t denied, TimeNs now) {
  const auto at = jobs_.find(name);
  if (at == jobs_.end() || !has_loads(at->second) || now < at->second.deaf_until) return;
  Job& job = at->second;
  const auto missed = static_cast<double>(denied);
  const double share = denied > 0 ? missed / (missed + static_cast<double>(taken) * meeting_here(job)) : 0;
  job.rules.saw_misses(share);
  if (!(share > limits_.misses)) return;
  // What it has slots for is what found one.
  for (const planner::Job::Use& use : job.plan.job.boxes) {
    const auto& address = ground_->cluster().boxes[use.box].address;
    if (std::ranges::find(own_, *address) == own_.end()) continue;
    const double most = job.plan.made.loads[ground_->topology().box(use.box)] * (1 - share);
    std::erase_if(box_limits_, [&](const BoxLimit& one) { return one.job == name && one.box == *address; });
    if (most > 0) box_limits_.push_back({name, *address, most});
    job.limited_until = now + kLimited;
    if (by_fleet_) job.deaf_until = now + kDeaf;  // its planner is told, and answers
  }
}

void Desk::box_seen(const Ipv6& address, TimeNs now) {
  for (auto& [name, job] : jobs_) {
    const auto at = std::ranges::find(job.facts.boxes, address);
    if (at != job.facts.boxes.end())
      job.comeback.seen(static_cast<BoxIndex>(at - job.facts.boxes.begin()), now);
  }
}

void Desk::asked(const std::string& job) {
  unlimit(job);
  if (const auto at = jobs_.find(job); at != jobs_.end()) at->second.next = Cause::kAsked;
}

void Desk::gone(const std::string& job) {
  unlimit(job);
  jobs_.erase(job);
}

void Desk::unlimit(const std::string& job) {
  std::erase_if(box_limits_, [&](const BoxLimit& one) { return one.job == job; });
}

void Desk::ask(const std::string& name, Job& job, Cause cause, std::string text) {
  if (cause != Cause::kRefine && cause != Cause::kGain)
    notes_.push_back({name, "another plan is looked for (" + std::string(word_of(cause)) +
                                (text.empty() ? "" : ": " + text) + ")"});
  job.wants = cause;
  job.next_text = std::move(text);
}

void Desk::decide(const std::string& name, Job& job, TimeNs now, std::vector<Wish>& out) {
  const bool fleet = !job.hand_planner.empty();
  if (fleet) job.rules.saw_candidate(1, 0);  // whatever else the rules hear of meanwhile
  planner::Decision decision = job.rules.decide(now);
  if (decision.why == Trigger::kNothing) return;
  // What else was heard the fleet's planner answers, and has: while that lasts it would come first each time.
  if (fleet && decision.why != Trigger::kLost) decision = {Trigger::kGain};
  if (decision.why == Trigger::kGain && !job.hand) return;
  job.triggered = now;
  std::string text;
  if (decision.resource != planner::kNone && ground_) {
    const planner::Topology& topology = ground_->topology();
    text = topology.name_of(decision.resource);
    if (decision.why == Trigger::kDrift) text += " has " + gbits(topology.rates()[decision.resource]);
  }
  if (decision.why == Trigger::kLost || decision.why == Trigger::kGain) {
    if (decision.why == Trigger::kLost) {
      job.hand.reset();
      job.hand_planner.clear();
    }
    if (decision.why == Trigger::kGain && fleet)
      job.next = Cause::kFleet;
    else
      job.next = decision.why == Trigger::kGain && job.in_haste ? Cause::kRefine : cause_of(decision.why);
    job.next_text = std::move(text);
    out.push_back({name, 0});
    return;
  }
  if (by_fleet_) return;  // who plans has the say
  ask(name, job, cause_of(decision.why), std::move(text));
}

std::vector<Desk::Wish> Desk::wishes(TimeNs now) {
  std::vector<Wish> out;
  for (auto& [name, job] : jobs_) {
    if (!job.running) continue;
    if (job.limited_until && *job.limited_until <= now) {
      job.limited_until.reset();
      unlimit(name);
      dirty_ = true;
    }
    if (const std::uint64_t due = job.comeback.look(now, job.left_out); due != 0) {
      job.next = Cause::kReturned;
      notes_.push_back({name, boxes_text(job.facts, due) + " is tried again"});
      out.push_back({name, due});
    } else if (job.next && job.hand) {
      out.push_back({name, 0});
    } else {
      decide(name, job, now, out);
    }
  }
  return out;
}

std::optional<Work> Desk::work(TimeNs now) {
  if (working_ || by_fleet_ || !ground_ || jobs_.empty()) return std::nullopt;
  const bool wanted =
      std::ranges::any_of(jobs_, [](const auto& one) { return one.second.wants.has_value(); });
  if (!wanted && (!dirty_ || now < worked_ + kBetweenWork)) return std::nullopt;
  working_ = true;
  dirty_ = false;
  worked_ = now;
  Work work{.number = ++numbers_, .cluster = cluster_, .rates = all_rates(), .limits = box_limits_};
  for (const auto& [name, job] : jobs_) work.jobs.push_back(job.facts);
  return work;
}

void Desk::done(WorkDone result) {
  working_ = false;
  if (by_fleet_ || !is_current(result.work)) {
    dirty_ = true;
    return;
  }
  for (std::size_t j = 0; j < result.plans.size(); ++j) {
    const auto at = jobs_.find(result.work.jobs[j].job);
    if (at == jobs_.end() || at->second.facts != result.work.jobs[j]) {
      dirty_ = dirty_ || at != jobs_.end();
      continue;
    }
    Job& job = at->second;
    RunningPlan& better = result.plans[j];
    const std::optional<Cause> wanted = std::exchange(job.wants, {});
    if (!better.planned()) {
      if (!job.plan.planned()) job.plan.why_not = better.why_not;
      continue;
    }
    job.baselines = result.baselines[j];
    const double current = rate_in(ground_->topology(), job.plan, better.job, better.room);
    const Cause cause = wanted.value_or(Cause::kGain);
    if (!job.rules.is_worth(trigger_of(cause), current, better.made.rate)) {
      if (wanted && *wanted != Cause::kRefine)
        notes_.push_back({at->first, "no plan is better by " + text::fixed(100 * limits_.gain, 0) +
                                         " %: it stays at " + gbits(current)});
      // What there is now is what is counted on, or the same would be asked again each second.
      job.triggered.reset();
      job.hand.reset();
      job.rules.saw_candidate(better.made.rate, current);
      job.in_haste = false;
      if (wanted) count_on_ground(job, worked_);
      if (cause == Cause::kMisses) job.deaf_until = worked_ + kDeaf;
      continue;
    }
    job.hand = std::move(better);
    if (wanted)
      job.next = cause;  // the rules have agreed
    else
      job.rules.saw_candidate(job.hand->made.rate, current);
  }
}

void Desk::refused(const std::string& name) {
  const auto at = jobs_.find(name);
  if (at == jobs_.end()) return;
  drop_hand(at->second);
  at->second.next.reset();
}

}  // namespace tally::planning
