#include "daemon/watch.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "daemon/counters_report.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

bool alive(members::JobPhase phase) noexcept {
  return phase == members::JobPhase::kRunning || phase == members::JobPhase::kDraining;
}

std::string joined_of(const std::vector<members::RankStatus>& all) {
  const auto here =
      std::count_if(all.begin(), all.end(), [](const members::RankStatus& r) { return r.joined; });
  return std::to_string(here) + " of " + std::to_string(all.size());
}

// The last few are named: those are worth a look.
std::string who_is_here(const members::JobStatus& job) {
  const members::RankNames names = members::names_of(job);
  std::string text = joined_of(job.ranks) + " " + names.word + "s";
  if (!job.servers.empty()) text += " and " + joined_of(job.servers) + " servers";
  text += " are here";
  const int missing = std::popcount(job.missing) + std::popcount(job.missing_servers);
  if (job.phase != members::JobPhase::kForming || missing == 0 || missing > 3) return text;
  return text + ", waiting for " + members::members_text(job.missing, job.missing_servers, names);
}

std::string formed_text(const members::JobStatus& job) {
  return "running: generation " + text::hexadecimal(raw(job.generation)) + ", epoch " +
         text::hexadecimal(raw(job.epoch)) + ", window " + std::to_string(job.window) + ", " +
         std::to_string(job.elements) + " elements per packet";
}

std::uint64_t left_ranks(const members::JobStatus& job) {
  std::uint64_t left = 0;
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    left |= job.ranks[r].left ? bit_of(Rank{static_cast<std::uint16_t>(r)}) : 0;
  return left;
}

}  // namespace

void JobWatch::say(LogLevel level, const members::JobStatus& job, std::string_view kind,
                   const std::string& text, std::optional<Rank> rank) const {
  About about{.kind = kind, .job = job.name};
  if (rank) about.rank = raw(*rank);
  log_(level, "job '" + job.name + "': " + text, about);
}

std::string JobWatch::job_name(JobId id) const {
  const auto job = jobs_.find(id);
  return job == jobs_.end() ? "job " + std::to_string(raw(id)) : "job '" + job->second.name + "'";
}

std::string JobWatch::behind(PortIndex port) const {
  std::string all;
  for (const auto& [id, job] : jobs_) {
    if (!alive(job.phase) && job.phase != members::JobPhase::kForming) continue;
    const auto here = [&](const members::RankStatus& m) {
      return m.joined && !m.left && m.binding.port == port;
    };
    std::uint64_t ranks = 0;
    std::uint32_t servers = 0;
    for (std::size_t r = 0; r < job.ranks.size(); ++r)
      if (here(job.ranks[r])) ranks |= bit_of(Rank{static_cast<std::uint16_t>(r)});
    for (std::size_t s = 0; s < job.servers.size(); ++s)
      if (here(job.servers[s])) servers |= 1U << s;
    if ((ranks | servers) == 0) continue;
    all += (all.empty() ? "job '" : "; job '") + job.name +
           "': " + members::members_text(ranks, servers, members::names_of(job));
  }
  return all;
}

std::string JobWatch::place_of(const jobs::Binding& binding) const {
  const std::size_t port = raw(binding.port);
  return members::address_text(binding.address) + " (port " +
         (port < ports_.size() ? ports_[port] : std::to_string(port)) + ")";
}

void JobWatch::compare_rank(const members::JobStatus& is, Rank rank, const members::RankStatus& before,
                            const members::RankStatus& now, bool called_back) const {
  const std::string who = members::rank_text(rank, members::names_of(is));
  if (now.joined && (!before.joined || before.instance != now.instance)) {
    say(LogLevel::kInfo, is, "job.joined",
        who + " joined from " + place_of(now.binding) + "; " + who_is_here(is), rank);
  } else if (before.joined && !now.joined && is.phase == members::JobPhase::kForming && !called_back) {
    say(LogLevel::kInfo, is, "job.gone", who + " is gone again; " + who_is_here(is), rank);
  }
  if (now.left && !before.left) say(LogLevel::kInfo, is, "job.left", who + " left", rank);
}

void JobWatch::compare_ranks(const members::JobStatus& was, const members::JobStatus& is) const {
  const auto former = [](const std::vector<members::RankStatus>& all, std::size_t i) {
    return i < all.size() ? all[i] : members::RankStatus{};
  };
  // All of them at once, of whom none has gone.
  const bool called_back = alive(was.phase) && is.phase == members::JobPhase::kForming;
  for (std::size_t r = 0; r < is.ranks.size(); ++r)
    compare_rank(is, Rank{static_cast<std::uint16_t>(r)}, former(was.ranks, r), is.ranks[r], called_back);
  for (std::uint32_t s = 0; s < is.servers.size(); ++s)
    compare_rank(is, server_rank(s), former(was.servers, s), is.servers[s], called_back);
}

void JobWatch::phase_line(const members::JobStatus& was, const members::JobStatus& is) const {
  switch (is.phase) {
    case members::JobPhase::kDeclared:
      return say(LogLevel::kInfo, is, "job.gone", "nobody is joined any more");
    case members::JobPhase::kForming:
      if (alive(was.phase))
        return say(LogLevel::kInfo, is, "job.forming", "forming anew: its members are called back");
      return say(LogLevel::kInfo, is, "job.forming", "forming");
    case members::JobPhase::kRunning:
      return say(LogLevel::kInfo, is, "job.running", formed_text(is));
    case members::JobPhase::kDraining:
      // At a box that is not the home nobody says goodbye when the home ends the job.
      return say(LogLevel::kInfo, is, "job.draining",
                 left_ranks(is) == 0
                     ? "draining: its members go from this box"
                     : "draining: " + members::ranks_text(left_ranks(is), members::names_of(is)) +
                           " left, the others go on");
    case members::JobPhase::kEnded:
      return say(LogLevel::kInfo, is, "job.ended", "ended: every rank has left");
    case members::JobPhase::kAborted:
      return say(LogLevel::kWarning, is, "job.aborted", "aborted: " + is.reason);
  }
}

void JobWatch::window_line(const members::JobStatus& was, const members::JobStatus& is) const {
  if (!is.shrunk_for.empty() && (is.shrunk_for != was.shrunk_for || is.limit < was.limit)) {
    say(LogLevel::kInfo, is, "job.window",
        "gives slot memory to job '" + is.shrunk_for + "' of higher priority: its window shrinks from " +
            std::to_string(was.window) + " to " + std::to_string(is.limit));
  } else if (was.limit != 0 && is.limit > was.limit) {
    say(LogLevel::kInfo, is, "job.window",
        "grows back: window " + std::to_string(is.limit) + " of " + std::to_string(is.wanted_window));
  }
}

void JobWatch::parent_line(const members::JobStatus& was, const members::JobStatus& is) const {
  using members::ParentState;
  if (!is.racks || !is.racks->rack) return;
  const members::RacksStatus before = was.racks.value_or(members::RacksStatus{});
  const ParentState state = is.racks->state;
  const std::string parent = "the parent at " + members::address_text(is.racks->parent);
  if (is.racks->missing_racks != 0 && is.racks->missing_racks != before.missing_racks) {
    say(LogLevel::kInfo, is, "job.parent",
        parent + " waits for " + members::ranks_text(is.racks->missing_racks, {.word = "rack"}));
  }
  if (!is.racks->told.empty() && is.racks->told != before.told)
    say(LogLevel::kWarning, is, "job.parent",
        "somebody in the place of " + parent +
            ", who does not show that it knows the token, says: " + is.racks->told);
  if (state == before.state) return;
  if (state == ParentState::kJoining && before.state != ParentState::kDoubted) {
    say(LogLevel::kInfo, is, "job.parent", "the workers of the rack are here; " + parent + " is asked");
  } else if (state == ParentState::kDoubted) {
    say(LogLevel::kWarning, is, "job.parent",
        parent + " has not answered for half a lease; it is asked again, and the workers go on");
  } else if (state == ParentState::kRunning) {
    say(LogLevel::kInfo, is, "job.parent", parent + " has this rack in its epoch");
  }
}

void JobWatch::compare(const members::JobStatus& was, const members::JobStatus& is) const {
  if (is.session) {
    if (const auto news = session_news(was, is)) {
      const bool runs = news->level == LogLevel::kInfo;
      say(news->level, is, runs ? "job.running" : "job.waits", news->text);
    }
    return;
  }
  window_line(was, is);
  parent_line(was, is);
  const bool reason = is.reason != was.reason && !is.reason.empty();
  const bool aborted_between = reason && alive(was.phase) && is.phase == members::JobPhase::kForming;
  if (aborted_between) {
    say(LogLevel::kWarning, is, "job.aborted", "aborted, and forms again: " + is.reason);
  } else if (reason && is.phase != members::JobPhase::kAborted) {
    say(LogLevel::kWarning, is, "job.waits", is.reason);
  }
  const bool new_phase = is.phase != was.phase && !aborted_between;
  const bool forms = is.phase == members::JobPhase::kForming;
  if (new_phase && forms) phase_line(was, is);
  compare_ranks(aborted_between ? members::JobStatus{} : was, is);
  const bool new_epoch = is.phase == members::JobPhase::kRunning && is.epoch != was.epoch;
  const bool aborted_again = is.phase == members::JobPhase::kAborted && reason;
  if ((new_phase && !forms) || new_epoch || aborted_again) phase_line(was, is);
}

void JobWatch::look(members::JobStatus is) {
  const auto known = jobs_.find(is.id);
  if (known == jobs_.end()) {
    if (!is.group_of.empty())
      say(LogLevel::kInfo, is, "job.declared",
          "made by its first worker: a group of job '" + is.group_of + "' with " + std::to_string(is.world) +
              " workers");
    compare(members::JobStatus{.id = is.id, .name = is.name, .world = is.world}, is);
    jobs_.emplace(is.id, std::move(is));
  } else {
    compare(known->second, is);
    known->second = std::move(is);
  }
}

void JobWatch::gone(JobId id) {
  const auto known = jobs_.find(id);
  if (known == jobs_.end()) return;
  members::JobStatus& status = known->second;
  status.boxes.reset();  // another job may have its name by now, and boxes of its own
  if (!status.group_of.empty() &&
      status.generation == Generation{}) {  // there may be many, one after the other
    say(LogLevel::kInfo, status, "job.removed", "forgotten: nobody was in it");
    jobs_.erase(known);
    return;
  }
  if (status.session && status.phase != members::JobPhase::kEnded) {
    const SessionNews news = session_gone(*status.session);
    say(news.level, status, "job.ended", news.text);
    status.phase = members::JobPhase::kEnded;
    status.live = 0;
  }
  if (status.generation == Generation{}) return;
  say(LogLevel::kWarning, status, "job.aborted", "withdrawn; its workers are told");
  status.phase = members::JobPhase::kAborted;
  status.generation = {};
  status.live = 0;
}

namespace {

std::string milliseconds(TimeNs t) { return std::to_string(t / kMillisecond) + " ms"; }

}  // namespace

BoxWatch::BoxWatch(Plane& plane, const JobWatch& jobs, LogSink log, TimeNs now)
    : plane_(plane),
      jobs_(jobs),
      log_(std::move(log)),
      started_(now),
      links_(plane.ports()),
      cores_(plane.cores()) {}

void BoxWatch::look(TimeNs now) {
  look_at_links(now);
  look_at_cores(now);
  look_at_memory(now);
  look_at_punts(now);
}

void BoxWatch::look_at_links(TimeNs now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const PortIndex port{static_cast<std::uint16_t>(i)};
    Link& link = links_[i];
    dpdk::PortLink is = plane_.follow(port, now);
    if (is != link.state) {
      tell_link(port, link.state, is);
      const bool came_up = is.up && (!link.state.up || is.openings != link.state.openings);
      link.announcements = came_up ? kAnnouncements : 0;
      link.announce_at = now;
      link.state = std::move(is);
    }
    if (link.announcements == 0 || now < link.announce_at) continue;
    plane_.announce(port);
    --link.announcements;
    link.announce_at = now + kBetweenAnnouncements;
  }
}

void BoxWatch::tell_link(PortIndex port, const dpdk::PortLink& was, const dpdk::PortLink& is) const {
  const std::string name = plane_.port_name(port);
  const std::string text = "port " + name + ": ";
  if (is.openings != was.openings)
    log_(LogLevel::kInfo, text + "its interface is a new one; the port is opened on it again");
  if (is.up) return log_(LogLevel::kInfo, text + "link up", {.kind = "port.up", .port = name});
  const About down{.kind = "port.down", .port = name};
  if (is.why.empty()) return log_(LogLevel::kInfo, text + "link down", down);
  const std::string members = jobs_.behind(port);
  log_(LogLevel::kWarning, text + "link down: " + is.why + (members.empty() ? "" : "; cut off: " + members),
       down);
}

TimeNs BoxWatch::silence(std::size_t core, TimeNs now) const {
  const TimeNs last = std::max(plane_.statistics(core).last_turn.get(), started_);
  return now > last ? now - last : 0;
}

TimeNs BoxWatch::longest_silence(TimeNs now) const {
  TimeNs longest = 0;
  for (std::size_t core = 0; core < cores_.size(); ++core) longest = std::max(longest, silence(core, now));
  return longest;
}

void BoxWatch::look_at_cores(TimeNs now) {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    Core& core = cores_[i];
    const TimeNs silent = silence(i, now);
    const std::string name = "data core " + std::to_string(i);
    if (silent < kStalled) {
      if (core.told)
        log_(LogLevel::kInfo, name + " runs again after " + milliseconds(now - core.stalled_since));
      core.stalled_since = 0;
      core.told = false;
      continue;
    }
    bool tell = silent >= kLongStall;
    std::uint64_t others = 0;  // that were not told
    if (core.stalled_since == 0) {
      core.stalled_since = now - silent;
      if (const auto left_out = core.lines.take(now)) {
        tell = true;
        others = *left_out;
      }
    }
    if (core.told || !tell) continue;
    core.told = true;
    log_(LogLevel::kWarning,
         name + " has not done a turn for " + milliseconds(silent) +
             ": is its CPU shared with another busy thread?" +
             (others > 0 ? " So it was " + text::counted(others, "time") + " since this was said last" : ""));
  }
}

void BoxWatch::look_at_memory(TimeNs now) {
  std::uint64_t lost = 0;
  for (std::size_t core = 0; core < cores_.size(); ++core) lost += plane_.statistics(core).no_mbuf;
  for (std::size_t i = 0; i < links_.size(); ++i)
    lost += plane_.port_statistics(PortIndex{static_cast<std::uint16_t>(i)}).rx_no_mbuf;
  if (lost <= no_mbuf_) return;
  const auto first = memory_lines_.take(now);
  if (!first) return;
  log_(LogLevel::kWarning,
       "packet buffers ran out: " + std::to_string(lost - no_mbuf_) +
           " frames lost; their senders repeat them. If it goes on, a port keeps what it is "
           "given: see the counters (SIGUSR1)");
  no_mbuf_ = lost;
}

void BoxWatch::look_at_punts(TimeNs now) {
  std::uint64_t lost = 0;
  for (std::size_t core = 0; core < cores_.size(); ++core) lost += plane_.statistics(core).punts_lost;
  if (lost <= punts_lost_ || !punt_lines_.take(now)) return;
  log_(LogLevel::kWarning, "control packets came faster than they could be answered: " +
                               std::to_string(lost - punts_lost_) + " lost; their senders repeat them");
  punts_lost_ = lost;
}

std::vector<members::SharedDemand> ShareWatch::look(const std::set<JobId>& sharing) {
  std::vector<members::SharedDemand> all;
  for (const JobId id : sharing) {
    members::SharedDemand demand{.job = id};
    std::uint64_t denied = 0;
    for (std::size_t core = 0; core < plane_.cores(); ++core) {
      const pipeline::JobState& state = plane_.state(core, id);
      demand.entries = std::max(demand.entries, state.occupancy.get());
      denied += state.slots.denied;
    }
    demand.denied = std::exchange(denied_[id], denied) != denied;
    all.push_back(demand);
  }
  return all;
}

}  // namespace tally::daemon
