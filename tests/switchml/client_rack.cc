#include "client_rack.h"

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

void ClientRack::send(std::size_t rank, bool up, std::span<const std::byte> frame) {
  const TimeNs due = now_ + kDelay + (options_.jitter == 0 ? 0 : random_.next(options_.jitter));
  flying_.emplace(due, Flying{rank, up, {frame.begin(), frame.end()}});
}

// All that has arrived was taken: clients are idle.
void ClientRack::send_all_due() {
  std::vector<std::byte> frame(session_.frame_bytes());
  for (std::size_t rank = 0; rank < session_.members(); ++rank)
    while (session_.next(rank, frame, now_, true)) send(rank, true, frame);
}

// To the next frame's arrival or the next timer, whichever is first.
void ClientRack::move_on() {
  TimeNs next = flying_.empty() ? kNever : flying_.begin()->first;
  for (std::size_t rank = 0; rank < session_.members(); ++rank)
    next = std::min(next, session_.next_resend(rank));
  now_ = std::max(now_, next == kNever ? now_ + kMillisecond : next);
  if (options_.pause == 0 || session_.progress() < paused_ + options_.results_between_pauses) return;
  paused_ = session_.progress();
  now_ += options_.pause;
}

void ClientRack::arrive(Flying flying) {
  if (flying.up) {
    box_.receive(flying.rank, flying.frame, now_,
                 [this](std::size_t to, std::span<const std::byte> frame) { send(to, false, frame); });
  } else if (session_.receive(flying.frame, now_)) {
    send(flying.rank, true, flying.frame);
  }
}

std::string ClientRack::run() {
  std::uint64_t progress = 0;
  TimeNs moved = now_;
  while (!session_.done()) {
    send_all_due();
    move_on();
    while (!flying_.empty() && flying_.begin()->first <= now_)
      arrive(std::move(flying_.extract(flying_.begin()).mapped()));
    if (!session_.complaint().empty()) return session_.complaint();
    if (session_.progress() != progress) {
      progress = session_.progress();
      moved = now_;
    } else if (now_ - moved > options_.patience) {
      return "nothing moves: " + session_.waiting();
    }
  }
  return {};
}

}  // namespace tally::stock
