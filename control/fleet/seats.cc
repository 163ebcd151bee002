#include "fleet/seats.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tally/mix64.h"
#include "text/text.h"

namespace tally::fleet {
namespace {

std::uint64_t weight(std::string_view job, std::string_view id) noexcept {
  std::uint64_t h = 0;
  for (const std::string_view part : {job, id}) {
    for (const char c : part) h = mix64(h ^ static_cast<std::uint8_t>(c)) + 1;
    h = mix64(h ^ 0x100U);  // the end of a part
  }
  return h;
}

std::string shown(const Json& value) {
  constexpr std::size_t kMostShown = 200;
  std::string all = value.dump();
  return all.size() <= kMostShown ? text::cleaned(all) : "something longer than can be shown";
}

// What both say must be the same.
std::string objection_to(const JobRecord& declared, const JobRecord& own) {
  for (const auto& [key, value] : own.spec.items()) {
    const auto said = declared.spec.find(key);
    if (said == declared.spec.end() || *said == value) continue;
    if (key == kTokenCheck) return "the fleet has it with another token than this box";
    return "the fleet has it with " + key + " " + shown(*said) + ", this box with " + shown(value);
  }
  return {};
}

}  // namespace

std::vector<std::string> home_order(const std::string& job, std::vector<std::string> ids) {
  std::sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(weight(job, a), a) < std::pair(weight(job, b), b);
  });
  return ids;
}

bool Seats::may_ask(const std::string& key, TimeNs now) const {
  const auto at = next_.find(key);
  return !asking_.contains(key) && (at == next_.end() || now >= at->second);
}

void Seats::ask(const std::string& key, Transaction transaction, TimeNs now, TimeNs pause) {
  asking_.insert(key);
  errands_.ask(std::move(transaction), now + 2 * kSecond,
               [this, key, pause](const Errands::Result&, TimeNs at) {
                 asking_.erase(key);
                 next_[key] = at + pause;
               });
}

void Seats::run(const View& view, const std::string& key, const Candidate& me, std::vector<Compare> more,
                TimeNs now) {
  if (!may_ask(key, now)) return;
  Transaction transaction{.compare = std::move(more),
                          .then = {Put{key, text_of(SeatRecord{me.id, me.life}), me.lease}}};
  transaction.compare.push_back({.key = key, .of = Compare::Of::kCreated, .revision = 0});
  transaction.compare.push_back(
      {.key = view.keys().box(me.id), .of = Compare::Of::kCreated, .revision = me.registered});
  ask(key, std::move(transaction), now);
}

void Seats::run_for_planner(const View& view, const Candidate& me, TimeNs now) {
  if (!view.planner_taken()) run(view, view.keys().planner(), me, {}, now);
}

std::optional<std::size_t> place_for_home(const View& view, const OwnJob& job, const std::string& id) {
  const auto stands_at = [](const SeenBox& box, const std::string& address) {
    const auto& all = box.record.addresses;
    return std::find(all.begin(), all.end(), address) != all.end();
  };
  std::string first;
  std::vector<std::string> ids;
  for (const auto& [other, box] : view.boxes()) {
    for (std::size_t i = 0; i < job.addresses.size(); ++i) {
      if (!stands_at(box, job.addresses[i])) continue;
      i == 0 ? first = other : ids.emplace_back(other);
      break;
    }
  }
  ids = home_order(job.record.name, std::move(ids));
  if (!first.empty()) ids.insert(ids.begin(), std::move(first));
  const auto at = std::find(ids.begin(), ids.end(), id);
  if (at == ids.end()) return std::nullopt;
  return job.at_home ? 0 : static_cast<std::size_t>(at - ids.begin()) + 1;
}

JobRecord declared_anew(const JobRecord& declared, const OwnJob& own) {
  JobRecord said = declared;
  for (const auto& [key, value] : own.record.spec.items()) said.spec[key] = value;
  if (own.generation.is_null())
    said.spec.erase(kGeneration);
  else
    said.spec[kGeneration] = own.generation;
  return said;
}

void Seats::speak_as_home(const View& view, const SeenJob& seen, const Candidate& me, const OwnJob& own,
                          TimeNs now) {
  if (seen.home->record.life != me.life || seen.home->lease != me.lease) return;
  const JobRecord said = declared_anew(*seen.record, own);
  const bool gives_back = !own.objection.empty();
  const std::string key = view.keys().job(said.name);
  if ((!gives_back && said == *seen.record) || !may_ask(key, now)) return;
  const std::string home = view.keys().home(said.name);
  Transaction transaction{
      .compare = {{.key = key, .of = Compare::Of::kCreated, .revision = seen.created},
                  {.key = home, .of = Compare::Of::kCreated, .revision = seen.home->created}},
      .then = {Put{key, text_of(said), 0}}};
  if (gives_back) {
    transaction.then.emplace_back(Erase{{home, false}});
    transaction.then.emplace_back(Erase{{view.keys().facts(said.name), false}});
  }
  ask(key, std::move(transaction), now, kBetweenWords);
}

std::string objection_to_home(const View& view, const OwnJob& job) {
  if (!job.objection.empty()) return job.objection;
  const auto seen = view.jobs().find(job.record.name);
  if (seen == view.jobs().end() || !seen->second.record) return {};
  return objection_to(*seen->second.record, job.record);
}

std::vector<const JobRecord*> Seats::run_for_homes(const View& view, const Candidate& me,
                                                   const std::map<std::string, OwnJob>& jobs, TimeNs now) {
  std::vector<const JobRecord*> to_declare;
  std::erase_if(orphaned_, [&](const auto& one) { return !jobs.contains(one.first); });
  std::erase_if(next_, [&](const auto& one) { return now > one.second; });
  for (const auto& [name, own] : jobs) {
    const auto seen = view.jobs().find(name);
    const bool declared = seen != view.jobs().end() && seen->second.record;
    if (seen != view.jobs().end() && (seen->second.home || seen->second.bad_home)) {
      orphaned_.erase(name);
      if (declared && seen->second.home) speak_as_home(view, seen->second, me, own, now);
      continue;
    }
    const auto place = place_for_home(view, own, me.id);
    if (!place) continue;
    const TimeNs since = orphaned_.try_emplace(name, now).first->second;
    TimeNs courtesy = static_cast<TimeNs>(*place) * kCourtesy;
    if (!own.objection.empty()) continue;
    if (!objection_to_home(view, own).empty()) courtesy += kOutOfDate;
    if (now < since + courtesy + (declared || *place == 0 ? 0 : kBeginning)) continue;
    const std::string key = view.keys().home(name);
    if (declared) {
      run(view, key, me,
          {{.key = view.keys().job(name), .of = Compare::Of::kCreated, .revision = seen->second.created}},
          now);
    } else if (!next_.contains(key)) {
      next_[key] = now + kRetry;
      to_declare.push_back(&own.record);
    }
  }
  return to_declare;
}

}  // namespace tally::fleet
