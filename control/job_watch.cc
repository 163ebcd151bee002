#include "job_watch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <set>

#include "session_texts.h"
#include "texts.h"

namespace tally {
namespace {

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return "0x" + std::string(digits.data(), end.ptr);
}

bool alive(JobPhase phase) noexcept { return phase == JobPhase::kRunning || phase == JobPhase::kDraining; }

std::string joined_of(const std::vector<RankStatus>& all) {
  const auto here = std::count_if(all.begin(), all.end(), [](const RankStatus& r) { return r.joined; });
  return std::to_string(here) + " of " + std::to_string(all.size());
}

// The last few are named: those are worth a look.
std::string who_is_here(const JobStatus& job) {
  std::string text = joined_of(job.ranks) + " ranks";
  if (!job.servers.empty()) text += " and " + joined_of(job.servers) + " servers";
  text += " are here";
  const int missing = std::popcount(job.missing) + std::popcount(job.missing_servers);
  if (job.phase != JobPhase::kForming || missing == 0 || missing > 3) return text;
  return text + ", waiting for " + members_text(job.missing, job.missing_servers);
}

std::string running_text(const JobStatus& job) {
  return "running: generation " + hex(raw(job.generation)) + ", epoch " + hex(raw(job.epoch)) + ", window " +
         std::to_string(job.window) + ", " + std::to_string(job.elements) + " elements per packet";
}

std::uint64_t left_ranks(const JobStatus& job) {
  std::uint64_t left = 0;
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    left |= job.ranks[r].left ? bit_of(Rank{static_cast<std::uint16_t>(r)}) : 0;
  return left;
}

}  // namespace

void JobWatch::say(LogLevel level, const JobStatus& job, const std::string& text) const {
  log_(level, "job '" + job.name + "': " + text);
}

std::string JobWatch::job_name(JobId id) const {
  const auto job = jobs_.find(id);
  return job == jobs_.end() ? "job " + std::to_string(raw(id)) : "job '" + job->second.name + "'";
}

std::string JobWatch::place_of(const Binding& binding) const {
  const std::size_t port = raw(binding.port);
  return address_text(binding.address) + " (port " +
         (port < ports_.size() ? ports_[port] : std::to_string(port)) + ")";
}

void JobWatch::compare_rank(const JobStatus& is, Rank rank, const RankStatus& before,
                            const RankStatus& now) const {
  const std::string who = rank_text(rank);
  if (now.joined && (!before.joined || before.instance != now.instance)) {
    say(LogLevel::kInfo, is, who + " joined from " + place_of(now.binding) + "; " + who_is_here(is));
  } else if (before.joined && !now.joined && is.phase == JobPhase::kForming) {
    say(LogLevel::kInfo, is, who + " is gone again; " + who_is_here(is));
  }
  if (now.left && !before.left) say(LogLevel::kInfo, is, who + " left");
}

void JobWatch::compare_ranks(const JobStatus& was, const JobStatus& is) const {
  const auto former = [](const std::vector<RankStatus>& all, std::size_t i) {
    return i < all.size() ? all[i] : RankStatus{};
  };
  for (std::size_t r = 0; r < is.ranks.size(); ++r)
    compare_rank(is, Rank{static_cast<std::uint16_t>(r)}, former(was.ranks, r), is.ranks[r]);
  for (std::uint32_t s = 0; s < is.servers.size(); ++s)
    compare_rank(is, server_rank(s), former(was.servers, s), is.servers[s]);
}

void JobWatch::phase_line(const JobStatus& was, const JobStatus& is) const {
  switch (is.phase) {
    case JobPhase::kDeclared:
      return say(LogLevel::kInfo, is, "nobody is joined any more");
    case JobPhase::kForming:
      if (alive(was.phase)) return say(LogLevel::kInfo, is, "forming anew: its members are called back");
      return say(LogLevel::kInfo, is, "forming");
    case JobPhase::kRunning:
      return say(LogLevel::kInfo, is, running_text(is));
    case JobPhase::kDraining:
      return say(LogLevel::kInfo, is, "draining: " + ranks_text(left_ranks(is)) + " left, the others go on");
    case JobPhase::kEnded:
      return say(LogLevel::kInfo, is, "ended: every rank has left");
    case JobPhase::kAborted:
      return say(LogLevel::kWarning, is, "aborted: " + is.reason);
  }
}

void JobWatch::window_line(const JobStatus& was, const JobStatus& is) const {
  if (!is.shrunk_for.empty() && (is.shrunk_for != was.shrunk_for || is.limit < was.limit)) {
    say(LogLevel::kInfo, is,
        "gives slot memory to job '" + is.shrunk_for + "' of higher priority: its window shrinks from " +
            std::to_string(was.window) + " to " + std::to_string(is.limit));
  } else if (was.limit != 0 && is.limit > was.limit) {
    say(LogLevel::kInfo, is,
        "grows back: window " + std::to_string(is.limit) + " of " + std::to_string(is.wanted_window));
  }
}

void JobWatch::compare(const JobStatus& was, const JobStatus& is) const {
  if (is.session) {
    if (const auto news = session_news(was, is)) say(news->level, is, news->text);
    return;
  }
  window_line(was, is);
  const bool reason = is.reason != was.reason && !is.reason.empty();
  const bool aborted_between = reason && alive(was.phase) && is.phase == JobPhase::kForming;
  if (aborted_between) {
    say(LogLevel::kWarning, is, "aborted, and forms again: " + is.reason);
  } else if (reason && is.phase != JobPhase::kAborted) {
    say(LogLevel::kWarning, is, is.reason);
  }
  const bool new_phase = is.phase != was.phase && !aborted_between;
  const bool forms = is.phase == JobPhase::kForming;
  if (new_phase && forms) phase_line(was, is);
  compare_ranks(aborted_between ? JobStatus{} : was, is);
  const bool new_epoch = is.phase == JobPhase::kRunning && is.epoch != was.epoch;
  const bool aborted_again = is.phase == JobPhase::kAborted && reason;
  if ((new_phase && !forms) || new_epoch || aborted_again) phase_line(was, is);
}

void JobWatch::look(const std::vector<JobStatus>& now) {
  std::set<JobId> present;
  for (const JobStatus& is : now) {
    present.insert(is.id);
    const auto [known, fresh] = jobs_.try_emplace(is.id, is);
    if (fresh) {
      compare(JobStatus{.id = is.id, .name = is.name, .world = is.world}, is);
    } else {
      compare(known->second, is);
      known->second = is;
    }
  }
  for (auto& [id, status] : jobs_) {
    if (present.contains(id)) continue;
    if (status.session && status.phase != JobPhase::kEnded) {
      const SessionNews news = session_gone();
      say(news.level, status, news.text);
      status.phase = JobPhase::kEnded;
      status.live = 0;
    }
    if (status.generation == Generation{}) continue;
    say(LogLevel::kWarning, status, "withdrawn; its workers are told");
    status.phase = JobPhase::kAborted;
    status.generation = {};
    status.live = 0;
  }
}

}  // namespace tally
