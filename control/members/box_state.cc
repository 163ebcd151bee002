#include "box_state.h"

#include <algorithm>

namespace tally {
namespace {

constexpr std::uint32_t lower_24_bits(Epoch epoch) noexcept { return raw(epoch) & 0xFF'FFFFU; }

}  // namespace

bool BoxState::in_use(Epoch epoch) const noexcept {
  const bool native = std::any_of(jobs.begin(), jobs.end(), [epoch](const auto& job) {
    return job != nullptr &&
           (job->term.epoch == epoch || job->offer.epoch == epoch || job->gone.term.epoch == epoch);
  });
  return native || std::any_of(sessions.begin(), sessions.end(), [epoch](const auto& session) {
           return session != nullptr && session->epoch == epoch;
         });
}

Epoch BoxState::draw_epoch() {
  return source.epoch([this](Epoch candidate) { return in_use(candidate); });
}

Epoch BoxState::draw_session_epoch() {
  return source.epoch([this](Epoch candidate) {
    const std::uint32_t bits = lower_24_bits(candidate);
    return bits == 0 || in_use(candidate) ||
           std::any_of(sessions.begin(), sessions.end(), [bits](const auto& session) {
             return session != nullptr && lower_24_bits(session->epoch) == bits;
           });
  });
}

}  // namespace tally
