#include "members/native_life.h"

#include <algorithm>
#include <utility>

namespace tally::members {

NativeLife::NativeLife(BoxState& box, JobId id, NativeConfig config)
    : ResidentJob(box, id, std::move(config)) {}

std::uint64_t NativeLife::left() const noexcept {
  std::uint64_t bits = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (members_[r].left) bits |= bit_of(Rank{r});
  }
  return bits;
}

std::uint64_t NativeLife::live(TimeNs now) const noexcept {
  std::uint64_t bits = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    const MemberState& m = members_[r];
    if (m.joined && !m.left && lease_end(Rank{r}) > now) bits |= bit_of(Rank{r});
  }
  return bits;
}

TimeNs NativeLife::lease() const noexcept {
  return term_.parent ? std::max(config_.lease, term_.parent->lease) : config_.lease;
}

TimeNs NativeLife::patience() const noexcept { return std::max(lease(), kJoinPatience); }

HomeNeeds NativeLife::needs() const noexcept {
  if (const Term& term = newest_term(); term.epoch != Epoch{})
    return {term.record.elements.host(), term.record.largest_window.host()};
  if (!waits() || !lacks_ || lacks_->largest_window == 0) return {};
  return {lacks_->elements, lacks_->largest_window};
}

std::string NativeLife::objection_to_home(const HomeNeeds& needs) const {
  if (active() || offered()) return {};
  if (std::string no = no_room(); !no.empty()) return no;
  return ResidentJob::objection_to_home(needs);
}

JobStatus NativeLife::status(TimeNs now) const {
  const Term& term = newest_term();
  JobStatus s = common_status(term);
  if (offered() || active()) s.epoch = term.epoch;
  s.limit = limit_ == kNoLimit ? 0 : limit_;
  s.shrunk_for = shrunk_for_;
  if (phase_ == JobPhase::kForming) {
    s.missing = missing();
    s.missing_servers = missing_servers();
  }
  s.live = live(now);
  if (config_.racks) s.racks = racks_status();
  if (!config_.boxes) return s;
  s.boxes = boxes_status(term);
  s.boxes->stand_in = stand_in_;
  for (std::size_t i = 0; i < s.boxes->boxes.size(); ++i)
    s.boxes->boxes[i].left_out = (left_out_ >> i & 1U) != 0;
  return s;
}

}  // namespace tally::members
