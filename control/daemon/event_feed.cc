#include "daemon/event_feed.h"

#include <chrono>
#include <string>

#include "api/events.h"
#include "tally/discipline.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr TimeNs kBetweenLooks = kSecond;

std::uint64_t unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

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

void EventFeed::tell(LogLevel level, std::string_view text, const About& about) {
  if (about.kind.empty() && level < LogLevel::kWarning) return;
  ++number_;
  if (!heard()) return;
  api::Event event{.level = level, .text = text, .job = about.job, .rank = about.rank, .port = about.port};
  if (!about.kind.empty()) event.kind = about.kind;
  server_->tell(api::event_line(event, number_, unix_ns()));
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
