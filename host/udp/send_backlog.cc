#include "send_backlog.h"

#include <algorithm>
#include <bit>

namespace tally {
namespace {

// Room comes by whole bursts: in less time one more or less would look like another rate. In more there may
// be a pause of the program.
constexpr TimeNs kLeastMeasured = 4 * kMillisecond;
constexpr TimeNs kMostMeasured = 100 * kMillisecond;
constexpr std::uint32_t kTooLarge = 4;  // times too large: only then it becomes smaller

constexpr std::size_t kHeaders = 128;
constexpr std::size_t kRecords = 320;
constexpr std::size_t kDescriptor = 256;

}  // namespace

void SendBacklog::start(std::uint32_t window) noexcept {
  window_ = window;
  limit_ = std::min(window, kLeastBacklog);
  measures_ = false;
}

bool SendBacklog::full(TimeNs now, std::uint64_t sent) noexcept {
  if (window_ <= kLeastBacklog) return false;
  const TimeNs took = now - since_;
  if (measures_ && took < kLeastMeasured) return false;
  const bool measured = measures_ && took <= kMostMeasured;
  const std::uint64_t left = sent - sent_then_;
  measures_ = true;
  since_ = now;
  sent_then_ = sent;
  if (!measured) return false;
  const std::uint64_t in_time = std::clamp<std::uint64_t>(left * kBacklogTime / took, kLeastBacklog, window_);
  const std::uint32_t wanted = std::bit_ceil(static_cast<std::uint32_t>(in_time));
  if (wanted <= limit_ && wanted > limit_ / kTooLarge) return false;
  limit_ = wanted;
  return true;
}

std::size_t send_buffer_of(std::uint32_t datagrams, std::size_t bytes_each) noexcept {
  return datagrams * (std::bit_ceil(bytes_each + kHeaders + kRecords) + kDescriptor) / 2;
}

}  // namespace tally
