// Another configuration for a job that is declared: what of it the job can take at once, and what waits until
// nobody is in it.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "members/box_state.h"
#include "members/native_life.h"

namespace tally::members {
namespace {

// at_once: packets of a burst; a hundredth of a second's are one in any case.
std::optional<jobs::Budget> packet_budget(const CommonConfig& job, std::uint32_t at_once,
                                          std::uint32_t cores) {
  if (!job.packet_rate) return std::nullopt;
  const std::uint32_t rate = std::max(*job.packet_rate / cores, 1U);
  return jobs::Budget{.per_second = rate, .burst = std::max(rate / 100, (at_once + cores - 1) / cores)};
}

}  // namespace

jobs::RateLimits rate_limits(const NativeConfig& job, std::uint8_t cores) noexcept {
  jobs::RateLimits limits{.packets = packet_budget(job, 2U * job.workers * job.window, cores)};
  if (job.bad_packet_rate) {
    const std::uint32_t rate = std::max(*job.bad_packet_rate / cores, 1U);
    limits.bad_packets = {.per_second = rate, .burst = std::max(rate / 10, 64U)};
  }
  return limits;
}

jobs::RateLimits rate_limits(const SessionConfig& session) noexcept {
  const auto members = static_cast<std::uint32_t>(session.members.size());
  return {.packets = packet_budget(session, 2 * members * session.slots, 1)};
}

NativeConfig taken_at_once(NativeConfig is, const NativeConfig& wanted) {
  is.priority = wanted.priority;
  is.lease = wanted.lease;
  is.admit = wanted.admit;
  is.packet_rate = wanted.packet_rate;
  is.bad_packet_rate = wanted.bad_packet_rate;
  if (is.discipline != wanted.discipline) return is;
  is.quota = wanted.quota;
  if (is.discipline == Discipline::kPool) is.window = wanted.window;
  // They go by the number of workers that it has.
  if (!wanted.stragglers || wanted.stragglers->least <= is.workers) is.stragglers = wanted.stragglers;
  return is;
}

std::string NativeLife::objection_to_window(std::uint32_t window) const {
  if (config_.discipline != Discipline::kPool)
    return "it shares slots: what it holds follows from its quota, not from its window";
  // Without a generation the job takes it when it forms.
  const std::uint32_t largest = term_.record.largest_window.host();
  if (!alive() || window <= largest) return {};
  return "window is " + std::to_string(window) + "; the largest of this generation is " +
         std::to_string(largest) + ", and its workers and their histories are sized for that";
}

std::string NativeLife::objection_to_change(const NativeConfig& next) const {
  if (next == config_) return {};
  const bool fresh = !alive() && !offered();
  if (!fresh && phase_ != JobPhase::kRunning)
    return "a job can be changed while it runs or before it begins, and this one is " +
           std::string(name_of(phase_));
  if (!nobody_is_in(phase_) && next.window != config_.window) {
    if (std::string no = objection_to_window(next.window); !no.empty()) return no;
  }
  return objection_to_quota(next);
}

Result<void> NativeLife::change(const NativeConfig& wanted, TimeNs now) {
  tick(now);  // who is dead by now cannot be called back
  const NativeConfig next = nobody_is_in(phase_) ? wanted : taken_at_once(config_, wanted);
  if (std::string no = objection_to_change(next); !no.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(no), "job '" + config_.name + "'");
  box_.slots_changed = true;
  touch();
  deferred_ = next == wanted ? std::nullopt : std::optional(wanted);
  NativeConfig silent = next;  // but for what no member has to be told
  silent.admit = config_.admit;
  const bool other = silent != config_;
  silent.packet_rate = config_.packet_rate;
  silent.bad_packet_rate = config_.bad_packet_rate;
  const bool more_than_rates = silent != config_;
  silent.priority = config_.priority;
  const bool told = more_than_rates && (shares_slots(config_.discipline) || silent != config_);
  // A window that was given to another job comes back when the operator says what it is to be.
  if (next.window != config_.window) limit_to(kNoLimit);
  adopt(next);
  if (!other || phase_ != JobPhase::kRunning) return {};
  // Workers of a pool need not know its priority, and nobody the quotas of rate.
  if (told)
    begin_reforming(now);
  else
    publish_row(term_);
  return {};
}

Result<void> NativeLife::resize(std::uint32_t window, TimeNs now) {
  tick(now);
  if (std::string no = objection_to_window(window); !no.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(no), "job '" + config_.name + "'");
  const bool repeated = window == config_.window;
  NativeConfig wanted = deferred_.value_or(config_);
  wanted.window = window;
  if (auto done = change(wanted, now); !done) return done;
  // Who asks again for what there was no room for is to get it.
  if (!repeated || (alive() && phase_ != JobPhase::kRunning)) return {};
  limit_to(kNoLimit);
  if (phase_ == JobPhase::kRunning && window != term_.window) begin_reforming(now);
  return {};
}

// Boxes that are taken back may be in the next plan again: whether they are is the plan source's business.
Result<void> NativeLife::replan(TimeNs now, std::uint64_t take_back) {
  tick(now);
  if (phase_ == JobPhase::kDraining)
    return fail(ErrorCode::kInvalidArgument, "its members leave it, and need no other plan",
                "job '" + config_.name + "'");
  left_out_ &= ~take_back;
  touch();
  if (phase_ == JobPhase::kRunning) begin_reforming(now);
  if (offered()) make_offer(now);
  return {};
}

}  // namespace tally::members
