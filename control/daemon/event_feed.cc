#include "daemon/event_feed.h"

#include <string>
#include <utility>

#include "api/events.h"
#include "tally/discipline.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr TimeNs kBetweenLooks = kSecond;

std::uint64_t evicted_of(const Plane& plane, JobId job) {
  std::uint64_t all = 0;
  for (std::size_t core = 0; core < plane.cores(); ++core) all += plane.state(core, job).slots.evicted;
  return all;
}

}  // namespace

LogSink EventFeed::sink() {
  return [this](LogLevel level, std::string_view text, const About& about) {
    log_line(level, text);
    tell(level, text, about);
  };
}

bool EventFeed::heard() const noexcept {
  return (server_ != nullptr && server_->followers() != 0) || (http_ != nullptr && http_->followed());
}

void EventFeed::tell(LogLevel level, std::string_view text, const About& about) {
  if (about.kind.empty() && level < LogLevel::kWarning) return;
  ++number_;
  const bool followed = server_ != nullptr && server_->followers() != 0;
  if (!followed && http_ == nullptr) return;
  api::Event event{.level = level, .text = text, .job = about.job, .rank = about.rank, .port = about.port};
  if (!about.kind.empty()) event.kind = about.kind;
  std::string all = api::event_text(event, number_, unix_now());
  if (followed) server_->tell(api::event_line(all));
  if (http_ != nullptr) http_->tell(number_, std::move(all));
}

void EventFeed::look_at_evictions(const Plane& plane, const JobWatch& jobs, TimeNs now) {
  if (now < looked_ + kBetweenLooks) return;
  looked_ = now;
  if (!heard()) return evicted_.clear();
  for (const auto& [id, job] : jobs.jobs()) {
    if (job.session || !shares_slots(job.discipline)) continue;
    const std::uint64_t all = evicted_of(plane, id);
    const auto [known, fresh] = evicted_.try_emplace(id, all);  // what was before nobody followed is old news
    if (fresh || known->second == all) continue;
    tell(LogLevel::kInfo,
         "job '" + job.name + "': " + text::with_commas(all - known->second) +
             " of its chunks lost their slots to others; the server sums those",
         {.kind = "slots.evicted", .job = job.name});
    known->second = all;
  }
}

}  // namespace tally::daemon
