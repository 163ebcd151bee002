#include "job_config.h"

#include <algorithm>
#include <bit>

#include "tally/wire.h"

namespace tally {
namespace {

bool has_control_characters(const std::string& s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

tl::unexpected<Error> bad(const std::string& where, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, where);
}

std::string not_in(const char* key, std::uint64_t value, const std::string& range) {
  return std::string(key) + " is " + std::to_string(value) + "; it must be " + range;
}

}  // namespace

Result<void> validate(const JobConfig& c) {
  const std::string job = "job '" + c.name.substr(0, kMaxNameBytes) + "'";
  if (c.name.empty() || c.name.size() > kMaxNameBytes || has_control_characters(c.name)) {
    return bad(job, "name must be 1 to 64 bytes without control characters");
  }
  if (c.token.size() > kMaxTokenBytes)
    return bad(job, not_in("token length", c.token.size(), "at most 64 bytes"));
  if (c.workers < 1 || c.workers > kMaxRanks) return bad(job, not_in("workers", c.workers, "1 to 64"));
  if (c.elements < kMinElements || !valid_elements(c.elements)) {
    return bad(job, not_in("elements", c.elements, "a multiple of 16 from 16 to 2224"));
  }
  if (c.window < kMinWindow || c.window > kMaxWindow || !std::has_single_bit(c.window)) {
    return bad(job, not_in("window", c.window, "a power of two from 16 to 16384"));
  }
  if (c.priority > kMaxPriority) return bad(job, not_in("priority", c.priority, "0 to 254"));
  if (c.lease < kMinLease || c.lease > kMaxLease || c.lease % kMillisecond != 0) {
    return bad(job, not_in("lease in ns", c.lease, "100 ms to 1 h in whole milliseconds"));
  }
  if (c.results != ResultsMode::kUnicast && c.results != ResultsMode::kMulticast) {
    return bad(job, not_in("results", static_cast<std::uint8_t>(c.results), "unicast or multicast"));
  }
  return {};
}

Result<void> validate(const MembershipOptions& o) {
  if (o.shards < 1 || o.shards > kMaxShards) return bad("shards", not_in("shards", o.shards, "1 to 64"));
  if ((o.box_mac[0] & 1U) != 0 || o.box_mac == Mac{}) {
    return bad("box_mac", "the box's MAC must be a unicast address");
  }
  return {};
}

}  // namespace tally
