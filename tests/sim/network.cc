#include "network.h"

#include <algorithm>
#include <utility>

namespace tally::sim {
namespace {

constexpr std::size_t kOuterBytes = 42;        // Ethernet, IPv4, UDP
constexpr std::size_t kFramingBytes = 4 + 20;  // FCS, preamble and gap take their time on the wire

void flip_bit(Bytes& frame, Rng& rng, std::size_t from) {
  if (frame.size() <= from) return;
  const auto bit = rng.below(8 * (frame.size() - from));
  frame[from + bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
}

}  // namespace

Network::Network(Schedule& schedule, std::uint64_t seed, LinkOptions link, std::size_t endpoints)
    : schedule_(schedule), rng_(seed), options_(link), up_(endpoints), down_(endpoints) {}

void Network::connect(Receiver to_box, Receiver from_box) {
  box_ = std::move(to_box);
  endpoint_ = std::move(from_box);
}

// A sample of everything ever sent: recent frames and very old ones.
void Network::remember(Link& link, const Bytes& frame) {
  if (link.past.size() < kRemembered) {
    link.past.push_back(frame);
  } else if (rng_.chance(0.1)) {
    link.past[rng_.below(kRemembered)] = frame;
  }
}

void Network::cut(std::size_t endpoint, bool up, TimeNs until) {
  Link& link = (up ? up_ : down_)[endpoint];
  link.cut_until = std::max(link.cut_until, until);
}

void Network::replay_control(std::size_t endpoint, TimeNs within) {
  const std::vector<Bytes>& said = up_[endpoint].control;
  for (std::size_t i = 0; i < said.size(); ++i)
    deliver(endpoint, said[i], true, within * i / said.size(), options_.vouched);
}

void Network::deliver(std::size_t endpoint, Bytes frame, bool up, TimeNs delay, bool vouched) {
  schedule_.after(delay, [this, endpoint, up, vouched, f = std::move(frame)]() mutable {
    (up ? box_ : endpoint_)(endpoint, std::move(f), vouched);
  });
}

void Network::send(Link& link, std::size_t endpoint, Bytes frame, bool up) {
  ++sent_;
  if (observer_) observer_(endpoint, up, frame);
  const Fate fate = filter_ ? filter_(endpoint, up, frame) : Fate::kPass;
  if (fate == Fate::kLose) return;
  if (up && is_control(header_of(std::span{frame}.subspan(kOuterBytes)).type)) {
    if (link.control.size() == kRemembered) link.control.erase(link.control.begin() + kRemembered / 2);
    link.control.push_back(frame);
  }
  if (schedule_.now() < link.cut_until) return;
  TimeNs delay = options_.delay;
  if (options_.bits_per_second != 0) {
    const TimeNs on_wire = (frame.size() + kFramingBytes) * 8 * kSecond / options_.bits_per_second;
    link.busy_until = std::max(link.busy_until, schedule_.now()) + on_wire;
    delay += link.busy_until - schedule_.now();
  }
  if (fate == Fate::kTwice) deliver(endpoint, frame, up, delay, options_.vouched);
  const auto later = [&] { return delay + rng_.below(faults_.reorder_delay + 1); };
  if (faults_.replay > 0) {
    if (!link.past.empty() && rng_.chance(faults_.replay)) {
      deliver(endpoint, link.past[rng_.below(link.past.size())], up, later(), options_.vouched);
    }
    remember(link, frame);
  }
  if (faults_.loss > 0 && rng_.chance(faults_.loss)) return;
  if (faults_.duplicate > 0 && rng_.chance(faults_.duplicate))
    deliver(endpoint, frame, up, later(), options_.vouched);
  bool vouched = options_.vouched;
  if (faults_.corrupt > 0 && rng_.chance(faults_.corrupt)) {
    flip_bit(frame, rng_, 0);
    vouched = false;
  }
  if (faults_.poison > 0 && up && rng_.chance(faults_.poison)) flip_bit(frame, rng_, kOuterBytes);
  if (faults_.reorder > 0 && rng_.chance(faults_.reorder)) delay = later();
  if (faults_.late > 0 && rng_.chance(faults_.late)) delay += rng_.below(faults_.late_delay);
  deliver(endpoint, std::move(frame), up, delay, vouched);
}

}  // namespace tally::sim
