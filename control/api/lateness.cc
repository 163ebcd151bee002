#include "api/lateness.h"

#include <algorithm>

#include "members/texts.h"
#include "tally/ids.h"
#include "text/text.h"

namespace tally::api {
namespace {

// Of a session's members, whose clients have no heartbeat: the others went on without it for so long.
constexpr TimeNs kSessionPatience = kSecond;

// A worker's: docs/protocol.md, 5.5.
TimeNs heartbeat_period(TimeNs lease) noexcept { return std::min(lease / 10, kSecond); }

std::optional<TimeNs> ago(TimeNs then, TimeNs now) {
  if (then == 0) return std::nullopt;
  return now > then ? now - then : 0;
}

bool active(const members::JobStatus& job) noexcept {
  return job.phase == members::JobPhase::kRunning || job.phase == members::JobPhase::kDraining;
}

// The chunk of the rank that is furthest; empty: nobody is there.
std::optional<Chunk> furthest(const members::JobStatus& job) {
  std::optional<Chunk> best;
  for (const members::RankStatus& r : job.ranks) {
    if (!r.joined || r.left) continue;
    if (!best || serial_difference(r.next, *best) > 0) best = r.next;
  }
  return best;
}

void judge_running(RankProgress& p, const members::RankStatus& rank, Chunk first,
                   const members::JobStatus& job) {
  const TimeNs patience = 2 * heartbeat_period(job.lease);
  const bool still = !p.contributed || *p.contributed > patience;
  // What a silent rank reported last is older than where it stopped, which is within a window of the others.
  if (still)
    p.behind =
        std::min(static_cast<std::uint32_t>(std::max(serial_difference(first, rank.next), 0)), job.window);
  const TimeNs seen = p.seen.value_or(job.lease);
  if (seen > patience + patience / 2) {
    p.late = true;
    p.why = "silent for " + members::seconds_text(seen);
  } else if (still && *p.behind > 0) {
    p.late = true;
    p.why = "behind by " + text::counted(*p.behind, "chunk");
    if (p.contributed) p.why += ", nothing new for " + members::seconds_text(*p.contributed);
  }
}

void judge_session(std::vector<RankProgress>& all) {
  std::optional<TimeNs> newest;
  for (const RankProgress& p : all) {
    if (p.seen && (!newest || *p.seen < *newest)) newest = p.seen;
  }
  if (!newest) return;
  for (RankProgress& p : all) {
    if (p.seen && *p.seen < *newest + kSessionPatience) continue;
    p.late = true;
    p.why = p.seen ? "silent for " + members::seconds_text(*p.seen) : "never seen";
  }
}

}  // namespace

std::vector<RankProgress> progress_of(const JobCounts& job, TimeNs now) {
  const members::JobStatus& status = job.status;
  const auto first = furthest(status);
  std::vector<RankProgress> all(status.ranks.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const members::RankStatus& rank = status.ranks[r];
    RankProgress& p = all[r];
    p.seen = ago(rank.last_seen, now);
    p.contributed = ago(r < job.contributed.size() ? job.contributed[r] : 0, now);
    if (!job.declared || status.session) continue;
    if (status.phase == members::JobPhase::kForming &&
        (status.missing & bit_of(Rank{static_cast<std::uint16_t>(r)})) != 0) {
      p.late = true;
      p.why = "has not joined";
    } else if (active(status) && rank.joined && !rank.left) {
      judge_running(p, rank, *first, status);
      if (r < job.cut_off.size() && !job.cut_off[r].empty()) {
        p.late = true;
        p.why = job.cut_off[r];
      }
    }
  }
  if (job.declared && status.session && active(status)) judge_session(all);
  return all;
}

std::string late_text(const JobCounts& job, const std::vector<RankProgress>& progress) {
  constexpr std::size_t kMost = 3;
  std::string out;
  std::size_t count = 0;
  for (std::size_t r = 0; r < progress.size(); ++r) {
    if (!progress[r].late || ++count > kMost) continue;
    out += out.empty() ? "" : "; ";
    out += members::rank_text(Rank{static_cast<std::uint16_t>(r)}, members::names_of(job.status));
    const members::RankStatus& rank = job.status.ranks[r];
    if (rank.joined || job.status.session) out += " (" + members::address_text(rank.binding.address) + ")";
    out += ": " + progress[r].why;
  }
  if (count > kMost) out += "; and " + text::counted(count - kMost, "other");
  return out;
}

std::string parent_text(const members::JobStatus& job, TimeNs now) {
  if (!job.racks || job.racks->heard == 0) return {};
  const TimeNs silent = now > job.racks->heard ? now - job.racks->heard : 0;
  // Three heartbeats, or JOINs, without an answer.
  if (silent <= 3 * kSecond) return {};
  std::string text = "the parent at " + members::address_text(job.racks->parent) + " has not answered for " +
                     members::seconds_text(silent);
  if (!job.racks->told.empty()) text += "; somebody in its place says: " + job.racks->told;
  return text;
}

}  // namespace tally::api
