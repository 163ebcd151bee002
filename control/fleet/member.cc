#include "fleet/member.h"

#include <algorithm>
#include <utility>

#include "text/text.h"

namespace tally::fleet {
namespace {

constexpr TimeNs kRetry = 250 * kMillisecond;
constexpr TimeNs kPatience = 3 * kSecond;

std::string seconds_text(TimeNs time) { return text::fixed(static_cast<double>(time) / 1e9, 1) + " s"; }

Compare created(std::string key, Revision revision) {
  return {.key = std::move(key), .of = Compare::Of::kCreated, .revision = revision};
}

Revision created_in(const std::vector<Pair>& pairs) { return pairs.empty() ? 0 : pairs.front().created; }

}  // namespace

const char* name_of(Standing::Kind kind) noexcept {
  switch (kind) {
    case Standing::Kind::kJoining:
      return "joining";
    case Standing::Kind::kMember:
      return "member";
    case Standing::Kind::kTaken:
      return "taken";
    case Standing::Kind::kIgnored:
      return "ignored";
    case Standing::Kind::kRefused:
      return "refused";
    case Standing::Kind::kAway:
      return "away";
    case Standing::Kind::kLeft:
      return "left";
  }
  return "unknown";
}

Member::Member(MemberOptions options, Store& store, BoxRecord self, TimeNs now)
    : options_(std::move(options)),
      self_(std::move(self)),
      errands_(store),
      lease_(errands_, options_.lease),
      keeper_(errands_, options_.prefix),
      seats_(errands_),
      orders_(errands_),
      begun_(now),
      standing_{.kind = Standing::Kind::kJoining, .since = now} {}

void Member::set_self(BoxRecord self) {
  self.life = self_.life;
  self.since = self_.since;
  self_ = std::move(self);
}

void Member::set_plans(bool plans, TimeNs now) {
  options_.plans = plans;
  const Revision since = plans ? 0 : planner_since(now);
  if (since == 0 || now < next_farewell_) return;
  next_farewell_ = now + kPatience;
  const std::string key = view().keys().planner();
  errands_.ask(Transaction{.compare = {created(key, since)}, .then = {Erase{{key, false}}}}, now + kPatience,
               [this](const Errands::Result& result, TimeNs at) {
                 if (!result) next_farewell_ = at + kRetry;
               });
}

void Member::leave(TimeNs now) {
  leaving_ = true;
  lease_.release(now);
}

void Member::tick(TimeNs now) {
  take_news(now);
  if (leaving_) {
    judge_standing(now);
    return;
  }
  lease_.tick(now);
  keeper_.tick(now);
  orders_.tick(now);
  if (step_ == Step::kInside) look_at_own_record();
  if (step_ == Step::kOutside && lease_.id() != 0 && now >= next_try_) register_self(now);
  if (step_ == Step::kInside) {
    publish_self(now);
    if (keeper_.ready() && lease_.holds(now)) {
      const Candidate me{options_.id, self_.life, lease_.id(), registered_};
      if (options_.plans) seats_.run_for_planner(view(), me, now);
      for (const JobRecord* const job : seats_.run_for_homes(view(), me, jobs_, now))
        if (!orders_.busy(Outcome::Kind::kDeclare, job->name)) (void)declare(*job, now);
    }
  }
  judge_standing(now);
}

void Member::take_news(TimeNs now) {
  for (const News& news : errands_.store().take()) {
    if (const auto* const answer = std::get_if<Answer>(&news); answer != nullptr)
      errands_.give(*answer, now);
    else if (const auto* const changes = std::get_if<Changes>(&news); changes != nullptr)
      keeper_.give(*changes);
    else
      keeper_.give(std::get<WatchOver>(news), now);
  }
}

// Its record is gone with its lease, or somebody took it away.
void Member::look_at_own_record() {
  const bool lost_lease = lease_.id() != registered_lease_;
  const bool seen = keeper_.ready() && view().revision() >= written_at_;
  if (!lost_lease && !(seen && !view().holds(view().keys().box(options_.id)))) return;
  notes_.push_back({true, lost_lease ? "the lease of this box was lost; it registers again"
                                     : "the record of this box was removed; it registers again"});
  step_ = Step::kOutside;
}

void Member::register_self(TimeNs now) {
  step_ = Step::kAsking;
  const std::string key = view().keys().box(options_.id);
  const LeaseId lease = lease_.id();
  std::string text = text_of(self_);
  Transaction transaction{
      .compare = {created(key, 0)}, .then = {Put{key, text, lease}}, .otherwise = {Read{{key, false}}}};
  errands_.ask(std::move(transaction), now + kPatience,
               [this, lease, text = std::move(text), before = view().revision()](
                   const Errands::Result& result, TimeNs at) {
                 // A store that was wiped knows no leases, so this is what it is asked first.
                 if (result) keeper_.heard(result->revision, before, at);
                 registered(result, lease, text, at);
               });
}

void Member::registered(const Errands::Result& result, LeaseId lease, const std::string& text, TimeNs now) {
  step_ = Step::kOutside;
  next_try_ = now + kRetry;
  if (!result) return;
  if (result->held) {
    step_ = Step::kInside;
    taken_since_.reset();
    registered_lease_ = lease;
    registered_ = written_at_ = result->revision;
    written_ = text;
    next_write_ = now + kBetweenRecords;
    notes_.push_back({false, "box " + options_.id + " is registered in the fleet " + options_.prefix});
    return;
  }
  if (result->reads.empty() || result->reads[0].empty()) return;
  const Pair& there = result->reads[0].front();
  const auto record = read_box(there.value);
  if (record && record->life == self_.life) {
    // An answer that was lost, or a lease that was: it is this process that stands there.
    taken_since_.reset();
    return take_over(there, lease, now);
  }
  // A former life of this box goes with its lease. Another box stays.
  if (!taken_since_) taken_since_ = now;
  taken_by_ =
      record
          ? "'" + text::cleaned(record->name) + "' at " +
                text::cleaned(text::listed(record->addresses.empty() ? std::vector<std::string>{"no address"}
                                                                     : record->addresses))
          : "a record that is not understood: " + record.error();
}

void Member::take_over(const Pair& former, LeaseId lease, TimeNs now) {
  step_ = Step::kAsking;
  std::string text = text_of(self_);
  Transaction transaction{
      .compare = {{.key = former.key, .of = Compare::Of::kModified, .revision = former.modified}},
      .then = {Put{former.key, text, lease}}};
  errands_.ask(std::move(transaction), now + kPatience,
               [this, lease, first = former.created, text = std::move(text)](const Errands::Result& result,
                                                                             TimeNs at) {
                 step_ = Step::kOutside;
                 next_try_ = at + kRetry;
                 if (!result || !result->held) return;
                 step_ = Step::kInside;
                 registered_lease_ = lease;
                 registered_ = first;
                 written_at_ = result->revision;
                 written_ = text;
                 next_write_ = at + kBetweenRecords;
               });
}

void Member::publish_self(TimeNs now) {
  if (writing_ || now < next_write_) return;
  std::string text = text_of(self_);
  if (text == written_) return;
  writing_ = true;
  const std::string key = view().keys().box(options_.id);
  Transaction transaction{.compare = {created(key, registered_)},
                          .then = {Put{key, text, registered_lease_}}};
  errands_.ask(std::move(transaction), now + kPatience,
               [this, first = registered_, text = std::move(text)](const Errands::Result& result, TimeNs at) {
                 writing_ = false;
                 next_write_ = at + kBetweenRecords;
                 if (!result || step_ != Step::kInside || first != registered_) return;
                 if (result->held) {
                   written_ = text;
                   written_at_ = result->revision;
                 } else {
                   step_ = Step::kOutside;
                 }
               });
}

void Member::judge_standing(TimeNs now) {
  Standing next{.kind = step_ == Step::kInside ? Standing::Kind::kMember : Standing::Kind::kJoining,
                .since = now};
  const auto& trouble = errands_.trouble();
  if (leaving_) {
    next.kind = Standing::Kind::kLeft;
  } else if (trouble) {
    next.kind = trouble->fault == Fault::kRefused ? Standing::Kind::kRefused : Standing::Kind::kAway;
    next.since = errands_.heard_at().value_or(begun_);
    next.text = trouble->text;
  } else if (taken_since_ && now >= *taken_since_ + 2 * options_.lease) {
    next.kind = Standing::Kind::kTaken;
    next.text = "another box has the ID " + options_.id + ": " + taken_by_;
  } else if (taken_since_) {
    next.text = "the ID " + options_.id + " is taken until a lease is over: " + taken_by_;
  } else if (const auto bad = view().bad().find(view().keys().box(options_.id)); bad != view().bad().end()) {
    next.kind = Standing::Kind::kIgnored;
    next.text = bad->second;
  }
  if (next.kind == standing_.kind) {
    standing_.text = std::move(next.text);
    return;
  }
  const bool was_away = standing_.kind == Standing::Kind::kAway;
  if (was_away)
    notes_.push_back(
        {false, "the store of the fleet answers again, after " + seconds_text(now - standing_.since)});
  if (next.kind == Standing::Kind::kAway)
    notes_.push_back({true, "the store of the fleet does not answer: " + next.text +
                                "; jobs go on, nothing new is planned"});
  if (next.kind == Standing::Kind::kRefused)
    notes_.push_back({true, "the store of the fleet refuses this box: " + next.text});
  if (next.kind == Standing::Kind::kTaken) notes_.push_back({true, next.text});
  if (next.kind == Standing::Kind::kIgnored)
    notes_.push_back({true, "the fleet does without this box: " + next.text});
  standing_ = std::move(next);
}

std::vector<Note> Member::take_notes() {
  std::vector<Note> all = std::exchange(notes_, {});
  std::vector<Note> seen = keeper_.view().take_notes();
  all.insert(all.end(), std::make_move_iterator(seen.begin()), std::make_move_iterator(seen.end()));
  return all;
}

Revision Member::planner_since(TimeNs now) const {
  const auto& planner = view().planner();
  if (!planner || !keeper_.ready() || leaving_ || !lease_.holds(now)) return 0;
  const bool mine = planner->record.life == self_.life && planner->lease == lease_.id();
  return mine ? planner->created : 0;
}

TimeNs Member::home_until(const std::string& job) const {
  const auto at = view().jobs().find(job);
  if (at == view().jobs().end() || !at->second.home || leaving_) return 0;
  const bool mine = at->second.home->record.life == self_.life && at->second.home->lease == lease_.id();
  return mine ? lease_.until() : 0;
}

bool Member::is_home_of(const std::string& job, TimeNs now) const { return now < home_until(job); }

Result<void> Member::may_order(TimeNs now) const {
  if (standing_.kind == Standing::Kind::kAway)
    return fail(ErrorCode::kUnreachable, "the store of the fleet has not answered for " +
                                             seconds_text(now - standing_.since) + ": " + standing_.text);
  if (step_ != Step::kInside || !keeper_.ready())
    return fail(ErrorCode::kRefused, "this box is not registered in its fleet" +
                                         (standing_.text.empty() ? "" : ": " + standing_.text));
  return {};
}

Result<void> Member::publish(const PlanRecord& plan, TimeNs now) {
  if (auto may = may_order(now); !may) return may;
  const Revision fence = planner_since(now);
  if (fence == 0) return fail(ErrorCode::kRefused, "this box is not the planner of its fleet");
  if (const std::string no = objection_to(plan); !no.empty())
    return fail(ErrorCode::kInvalidArgument, "the plan is none: " + no);
  const auto job = view().jobs().find(plan.job);
  if (job == view().jobs().end() || !job->second.record)
    return fail(ErrorCode::kRefused, "job " + plan.job + " is not declared in the fleet");
  if (!job->second.plans.empty() && plan.number <= job->second.plans.rbegin()->first)
    return fail(ErrorCode::kInvalidArgument,
                "job " + plan.job + " has plan " + std::to_string(job->second.plans.rbegin()->first));
  if (orders_.busy(Outcome::Kind::kPlan, plan.job))
    return fail(ErrorCode::kRefused, "a plan for job " + plan.job + " is on its way");
  const Keys& keys = view().keys();
  const std::string key = keys.plan(plan.job, plan.number);
  std::string value = text_of(plan);
  Transaction transaction{
      .compare = {created(keys.planner(), fence), created(keys.job(plan.job), job->second.created),
                  created(key, 0)},
      .then = {Put{key, value, 0}},
      .otherwise = {Read{{keys.planner(), false}}, Read{{keys.job(plan.job), false}}, Read{{key, false}}}};
  // The one before it stays: a box may be about to read it.
  if (plan.number > 1)
    transaction.then.emplace_back(EraseUpTo{keys.plans(plan.job), keys.plan(plan.job, plan.number - 1)});
  orders_.begin(
      {.kind = Outcome::Kind::kPlan, .job = plan.job, .number = plan.number}, std::move(transaction),
      [fence, declared = job->second.created, value = std::move(value)](const Reply& reply, Outcome& out) {
        const auto& reads = reply.reads;
        if (reply.held || (reads.size() == 3 && !reads[2].empty() && reads[2].front().value == value)) return;
        out.verdict = Outcome::Verdict::kRefused;
        if (reads.size() != 3 || created_in(reads[0]) != fence) {
          out.verdict = Outcome::Verdict::kFenced;
          out.text = "this box is not the planner any more";
        } else if (created_in(reads[1]) != declared) {
          out.text = "the job is not declared any more";
        } else {
          out.text = "there is another plan of this number";
        }
      },
      now);
  return {};
}

Result<void> Member::declare(const JobRecord& job, TimeNs now) {
  if (auto may = may_order(now); !may) return may;
  if (job.name.empty() || job.name.size() > kMaxNameBytes || !text::is_name(job.name))
    return fail(ErrorCode::kInvalidArgument, text::in_quotes(text::cleaned(job.name)) + " is no job's name");
  const Keys& keys = view().keys();
  const std::string value = text_of(job);
  if (const auto read = read_job(job.name, value); !read)
    return fail(ErrorCode::kInvalidArgument,
                "what job " + job.name + " is cannot be declared: " + read.error());
  if (orders_.busy(Outcome::Kind::kDeclare, job.name))
    return fail(ErrorCode::kRefused, "job " + job.name + " is being declared");
  const std::string seat = text_of(SeatRecord{options_.id, self_.life});
  Transaction transaction{
      .compare = {created(keys.job(job.name), 0), created(keys.home(job.name), 0),
                  created(keys.box(options_.id), registered_)},
      .then = {Put{keys.job(job.name), value, 0}, Put{keys.home(job.name), seat, registered_lease_}},
      .otherwise = {Read{{keys.job(job.name), false}}, Read{{keys.home(job.name), false}}}};
  orders_.begin(
      {.kind = Outcome::Kind::kDeclare, .job = job.name}, std::move(transaction),
      [value, seat](const Reply& reply, Outcome& out) {
        if (reply.held) return;
        const auto& reads = reply.reads;
        const bool there = reads.size() == 2 && !reads[0].empty();
        const bool mine =
            there && reads[0].front().value == value && !reads[1].empty() && reads[1].front().value == seat;
        if (mine) return;
        out.verdict = there ? Outcome::Verdict::kRefused : Outcome::Verdict::kFenced;
        out.text = there ? "a job of this name is declared already" : "this box is not registered any more";
      },
      now);
  return {};
}

Result<void> Member::tell_facts(const std::string& job, std::optional<FactsRecord> facts, TimeNs now) {
  if (auto may = may_order(now); !may) return may;
  if (!is_home_of(job, now))
    return fail(ErrorCode::kRefused, "this box is not the home of job " + text::cleaned(job));
  const SeenJob& seen = view().jobs().at(job);
  std::erase_if(told_facts_, [this](const auto& one) {
    return one.second.revision <= view().revision() || one.second.reads != keeper_.reads();
  });
  // A view that is behind, as one whose watch hears nothing, does not have them written again and again.
  const auto told = told_facts_.find(job);
  const std::optional<FactsRecord>& there = told == told_facts_.end() ? seen.facts : told->second.facts;
  if (facts) {
    facts->number = there ? there->number : 1;
    if (const std::string no = objection_to(*facts); !no.empty())
      return fail(ErrorCode::kInvalidArgument, "facts of job " + job + ": " + no);
  }
  if (facts == there) return {};
  if (orders_.busy(Outcome::Kind::kFacts, job))
    return fail(ErrorCode::kRefused, "facts of job " + job + " are on their way");
  // Revisions of the store count up, and plans name the facts that they are for.
  if (facts) {
    const auto revision = static_cast<std::uint64_t>(view().revision());
    facts->number = newest_facts_ = std::max(revision, newest_facts_) + 1;
  }
  const Keys& keys = view().keys();
  Transaction transaction{.compare = {created(keys.home(job), seen.home->created)}};
  if (facts)
    transaction.then.emplace_back(Put{keys.facts(job), text_of(*facts), registered_lease_});
  else
    transaction.then.emplace_back(Erase{{keys.facts(job), false}});
  orders_.begin(
      {.kind = Outcome::Kind::kFacts, .job = job}, std::move(transaction),
      [this, job, facts](const Reply& reply, Outcome& out) {
        if (reply.held) {
          told_facts_[job] = {facts, reply.revision, keeper_.reads()};
          return;
        }
        out.verdict = Outcome::Verdict::kFenced;
        out.text = "this box is not the home of the job any more";
      },
      now);
  return {};
}

Result<void> Member::withdraw(const std::string& job, TimeNs now) {
  if (auto may = may_order(now); !may) return may;
  if (!is_home_of(job, now))
    return fail(ErrorCode::kRefused, "this box is not the home of job " + text::cleaned(job));
  if (orders_.busy(Outcome::Kind::kWithdraw, job))
    return fail(ErrorCode::kRefused, "job " + job + " is being withdrawn");
  const Keys& keys = view().keys();
  const SeenJob& seen = view().jobs().at(job);
  Transaction transaction{
      .compare = {created(keys.home(job), seen.home->created), created(keys.job(job), seen.created)},
      .then = {Erase{{keys.job(job), false}}, Erase{{keys.home(job), false}}, Erase{{keys.facts(job), false}},
               Erase{{keys.plans(job), true}}},
      .otherwise = {Read{{keys.job(job), false}}}};
  orders_.begin(
      {.kind = Outcome::Kind::kWithdraw, .job = job}, std::move(transaction),
      [declared = seen.created](const Reply& reply, Outcome& out) {
        if (reply.held || (!reply.reads.empty() && created_in(reply.reads[0]) != declared)) return;
        out.verdict = Outcome::Verdict::kFenced;
        out.text = "this box is not the home of the job any more";
      },
      now);
  return {};
}

}  // namespace tally::fleet
