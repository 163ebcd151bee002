#include "members/guest_life.h"

#include <string>
#include <utility>

#include "members/texts.h"

namespace tally::members {

GuestLife::GuestLife(BoxState& box, JobId id, NativeConfig config)
    : ResidentJob(box, id, std::move(config)) {}

TimeNs GuestLife::lease() const noexcept { return said_.lease_ms.host() * kMillisecond; }

std::string GuestLife::home_text() const {
  return address_text(config_.boxes->addresses[config_.boxes->home]);
}

Result<void> GuestLife::give_up(std::string_view /*said*/, TimeNs /*now*/) {
  return fail(ErrorCode::kInvalidArgument, "its home ends it, the box at " + home_text(),
              "job '" + config_.name + "'");
}

Result<void> GuestLife::resize(std::uint32_t /*window*/, TimeNs /*now*/) {
  return fail(ErrorCode::kInvalidArgument, "its window is its home's, the box at " + home_text(),
              "job '" + config_.name + "'");
}

Result<void> GuestLife::replan(TimeNs /*now*/, std::uint64_t /*take_back*/) {
  return fail(ErrorCode::kInvalidArgument, "its plan is its home's, the box at " + home_text(),
              "job '" + config_.name + "'");
}

JobStatus GuestLife::status(TimeNs /*now*/) const {
  JobStatus s = common_status(term_);
  s.epoch = term_.epoch;
  if (term_.epoch != Epoch{}) s.lease = lease();
  s.live = joined();
  s.boxes = boxes_status(term_);
  s.boxes->missing_pages = pages_.missing();
  if (term_.epoch == Epoch{}) return s;
  s.boxes->plan = said_.plan;
  s.boxes->plan_bytes = said_.plan_bytes.host();
  return s;
}

}  // namespace tally::members
