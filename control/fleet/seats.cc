#include "fleet/seats.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tally/mix64.h"

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

}  // namespace

std::vector<std::string> home_order(const std::string& job, std::vector<std::string> ids) {
  std::sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(weight(job, a), a) < std::pair(weight(job, b), b);
  });
  return ids;
}

void Seats::run(const View& view, const std::string& key, const Candidate& me, std::vector<Compare> more,
                TimeNs now) {
  if (asking_.contains(key)) return;
  if (const auto at = next_.find(key); at != next_.end() && now < at->second) return;
  asking_.insert(key);
  Transaction transaction{.compare = std::move(more),
                          .then = {Put{key, text_of(SeatRecord{me.id, me.life}), me.lease}}};
  transaction.compare.push_back({.key = key, .of = Compare::Of::kCreated, .revision = 0});
  transaction.compare.push_back(
      {.key = view.keys().box(me.id), .of = Compare::Of::kCreated, .revision = me.registered});
  // Who got it, the view tells, to all alike: an answer may be lost.
  errands_.ask(std::move(transaction), now + 2 * kSecond, [this, key](const Errands::Result&, TimeNs at) {
    asking_.erase(key);
    next_[key] = at + kRetry;
  });
}

void Seats::run_for_planner(const View& view, const Candidate& me, TimeNs now) {
  if (!view.planner_taken()) run(view, view.keys().planner(), me, {}, now);
}

void Seats::run_for_homes(const View& view, const Candidate& me, TimeNs now) {
  std::erase_if(orphaned_, [&](const auto& one) { return !view.jobs().contains(one.first); });
  std::erase_if(next_, [&](const auto& one) { return now > one.second; });
  for (const auto& [name, job] : view.jobs()) {
    if (!job.record || job.home || job.bad_home) {
      orphaned_.erase(name);
      continue;
    }
    const TimeNs since = orphaned_.try_emplace(name, now).first->second;
    std::vector<std::string> ids;
    for (const auto& [id, box] : view.boxes()) ids.push_back(id);
    ids = home_order(name, std::move(ids));
    const auto place = static_cast<TimeNs>(std::find(ids.begin(), ids.end(), me.id) - ids.begin());
    if (now < since + place * kCourtesy) continue;
    run(view, view.keys().home(name), me,
        {{.key = view.keys().job(name), .of = Compare::Of::kCreated, .revision = job.created}}, now);
  }
}

}  // namespace tally::fleet
