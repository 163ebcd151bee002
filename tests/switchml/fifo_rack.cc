#include "fifo_rack.h"

#include <algorithm>
#include <utility>

namespace tally::stock {

std::vector<StockAddresses> rack_members(std::size_t count) {
  std::vector<StockAddresses> members;
  for (std::size_t i = 0; i < count; ++i) {
    const auto low = static_cast<std::uint8_t>(i + 1);
    members.push_back({{0x02, 0, 0, 0, 0, low}, {10, 0, 0, low}, kRackSwitchMac, kRackSwitchIpv4});
  }
  return members;
}

void FifoRack::send(std::size_t rank, bool up, std::span<const std::byte> frame) {
  flying_.push_back({now_ + kDelay, rank, up, {frame.begin(), frame.end()}});
}

void FifoRack::send_all_due() {
  std::vector<std::byte> frame(session_.frame_bytes());
  for (std::size_t rank = 0; rank < session_.members(); ++rank) {
    const bool idle = std::ranges::none_of(
        flying_, [&](const Flying& f) { return !f.up && f.rank == rank && f.due <= now_; });
    while (session_.next(rank, frame, now_, idle)) send(rank, true, frame);
  }
}

// To the next frame's arrival or the next timer, whichever is first.
void FifoRack::move_on() {
  TimeNs next = flying_.empty() ? kNever : flying_.front().due;
  for (std::size_t rank = 0; rank < session_.members(); ++rank)
    next = std::min(next, session_.next_resend(rank));
  now_ = std::max(now_, next == kNever ? now_ + kMillisecond : next);
}

void FifoRack::arrive(Flying flying) {
  if (flying.up) {
    box_.receive(flying.rank, flying.frame, now_,
                 [this](std::size_t to, std::span<const std::byte> frame) { send(to, false, frame); });
  } else if (session_.receive(flying.frame, now_)) {
    send(flying.rank, true, flying.frame);
  }
}

std::string FifoRack::run() {
  std::uint64_t progress = 0;
  TimeNs moved = now_;
  while (!session_.done()) {
    send_all_due();
    move_on();
    while (!flying_.empty() && flying_.front().due <= now_) {
      Flying first = std::move(flying_.front());
      flying_.pop_front();
      arrive(std::move(first));
    }
    if (!session_.complaint().empty()) return session_.complaint();
    if (session_.progress() != progress) {
      progress = session_.progress();
      moved = now_;
    } else if (now_ - moved > kRackPatience) {
      return "nothing moves: " + session_.waiting();
    }
  }
  return {};
}

}  // namespace tally::stock
