#include "ps/path_boxes.h"

namespace tally::ps {

void PathBoxes::clear() {
  all_.assign(1, BoxAddress{});
  places_ = {{first_, std::uint16_t{0}}};
}

void PathBoxes::list(const PsEngine& engine) {
  const bool changed = changed_;
  const std::vector<BoxAddress> before = std::exchange(all_, {});
  clear();
  for (std::size_t job = 0; job < engine.jobs(); ++job) {
    const ServerMember& member = engine.member(job);
    (void)place_of(member.seat().address());
    if (!member.membership()) continue;
    // The first box, where it is somebody's home, tells the transport itself what it is.
    if (place_of(member.address(0)) != 0) add(member.address(0), member.membership()->box_mac);
    for (std::size_t box = 1; box <= member.guests().size(); ++box) {
      const engine::GuestSeat& guest = member.guests().at(box);
      add(member.address(box), guest.running() ? guest.mac() : kBroadcastMac);
    }
  }
  changed_ = changed || all_ != before;
}

std::uint16_t PathBoxes::place_of(const Ipv6& box) {
  const auto [at, added] = places_.try_emplace(box, static_cast<std::uint16_t>(all_.size()));
  if (added) {
    all_.push_back({box, kBroadcastMac});
    changed_ = true;
  }
  return at->second;
}

// Jobs may have a box in common: what one of them knows of it is enough.
void PathBoxes::add(const Ipv6& box, const Mac& mac) {
  const std::uint16_t place = place_of(box);
  if (mac != kBroadcastMac) all_[place].mac = mac;
}

}  // namespace tally::ps
