#include "network.h"

#include <algorithm>
#include <utility>

namespace tally::sim {
namespace {

constexpr std::size_t kFramingBytes = 4 + 20;  // FCS, preamble and gap take their time on the wire

// A name of the datagram, but for what the tag of a control packet is not over: the last four fields of the
// header.
std::uint64_t name_of(const Bytes& frame) {
  std::uint64_t name = frame.size();
  for (std::size_t i = kOuterBytes; i < frame.size(); ++i) {
    const bool tagged = i < kOuterBytes + offsetof(Header, sum1) || i >= kOuterBytes + kHeaderBytes;
    if (tagged) name = mix64(name * 257 + std::to_integer<std::uint64_t>(frame[i]));
  }
  return name;
}

void flip_bit(Bytes& frame, Rng& rng, std::size_t from) {
  if (frame.size() <= from) return;
  const auto bit = rng.below(8 * (frame.size() - from));
  frame[from + bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
}

}  // namespace

Network::Network(Schedule& schedule, std::uint64_t seed, LinkOptions link, std::size_t links)
    : schedule_(schedule),
      rng_(seed),
      forging_(mix64(seed + 1)),
      forger_(mix64(seed + 2)),
      options_(link),
      faults_(links),
      up_(links),
      down_(links) {
  for (std::size_t i = 0; i < links; ++i)
    up_[i].bits_per_second = down_[i].bits_per_second = link.bits_per_second;
}

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

void Network::cut(std::size_t at, bool up, TimeNs until) {
  Link& link = (up ? up_ : down_)[at];
  link.cut_until = std::max(link.cut_until, until);
}

bool Network::obey(std::size_t at, bool up, const Bytes& frame) {
  std::set<std::uint64_t>& said = (up ? up_ : down_)[at].said;
  const auto known = said.find(name_of(frame));
  if (known == said.end()) return false;
  if (header_of(std::span{frame}.subspan(kOuterBytes)).type != PacketType::kLeave) said.erase(known);
  return true;
}

// The copy takes the frame's way, or another's: of a link beside it, or back to who sent it.
void Network::forge(std::size_t at, bool up, const Bytes& frame) {
  const auto copy = forging_.chance(0.7) ? forger_.changed(frame) : std::optional(frame);
  if (!copy) return;
  ++forged_;
  const TimeNs late = forging_.chance(0.5)   ? 0
                      : forging_.chance(0.5) ? forging_.below(100 * kMillisecond)
                                             : forging_.below(faults_[at].forge_delay);
  const std::size_t to = forging_.chance(0.8) ? at : forging_.below(up_.size());
  const bool way = forging_.chance(0.9) == up;
  deliver(to, *copy, way, options_.delay + late, options_.vouched);
}

void Network::replay_control(std::size_t at, bool up, TimeNs within) {
  const std::vector<Bytes>& said = (up ? up_ : down_)[at].control;
  for (std::size_t i = 0; i < said.size(); ++i)
    deliver(at, said[i], up, within * i / said.size(), options_.vouched);
}

void Network::deliver(std::size_t at, Bytes frame, bool up, TimeNs delay, bool vouched) {
  schedule_.after(delay, [this, at, up, vouched, f = std::move(frame)]() mutable {
    (up ? box_ : endpoint_)(at, std::move(f), vouched);
  });
}

// Job, epoch and chunk. Flips of two bits in one sum may cancel in sum1 and sum2 (docs/protocol.md, 13; seed
// 22059799 had bit 31 of the values 1 and 13): no receiver can find them, so that they prove nothing.
std::array<std::uint32_t, 3> Network::sum_of(const Bytes& frame) {
  const Header h = header_of(std::span{frame}.subspan(kOuterBytes));
  return {raw(h.job_id()), raw(h.epoch_id()), raw(h.chunk_id())};
}

void Network::send(Link& link, std::size_t at, Bytes frame, bool up) {
  const Faults& faults = faults_[at];
  ++sent_;
  if (observer_) observer_(at, up, frame);
  const Fate fate = filter_ ? filter_(at, up, frame) : Fate::kPass;
  if (fate == Fate::kLose) return;
  if (faults.forge > 0 && forging_.chance(faults.forge)) forge(at, up, frame);
  const PacketType type = header_of(std::span{frame}.subspan(kOuterBytes)).type;
  if (is_control(type)) link.said.insert(name_of(frame));
  if (is_control(type) || type == PacketType::kReject) {
    if (link.control.size() == kRemembered) link.control.erase(link.control.begin() + kRemembered / 2);
    link.control.push_back(frame);
  }
  if (schedule_.now() < link.cut_until) return;
  TimeNs delay = options_.delay;
  if (link.bits_per_second != 0) {
    const TimeNs on_wire = (frame.size() + kFramingBytes) * 8 * kSecond / link.bits_per_second;
    link.busy_until = std::max(link.busy_until, schedule_.now()) + on_wire;
    delay += link.busy_until - schedule_.now();
  }
  if (fate == Fate::kTwice) deliver(at, frame, up, delay, options_.vouched);
  const auto later = [&] { return delay + rng_.below(faults.reorder_delay + 1); };
  if (faults.replay > 0) {
    if (!link.past.empty() && rng_.chance(faults.replay)) {
      deliver(at, link.past[rng_.below(link.past.size())], up, later(), options_.vouched);
    }
    remember(link, frame);
  }
  if (faults.loss > 0 && rng_.chance(faults.loss)) return;
  if (faults.duplicate > 0 && rng_.chance(faults.duplicate))
    deliver(at, frame, up, later(), options_.vouched);
  bool vouched = options_.vouched;
  if (faults.corrupt > 0 && rng_.chance(faults.corrupt)) {
    flip_bit(frame, rng_, 0);
    vouched = false;
  }
  if (faults.poison > 0 && up && rng_.chance(faults.poison) && vouched == options_.vouched &&
      poisoned_.insert(sum_of(frame)).second)
    flip_bit(frame, rng_, kOuterBytes);
  if (faults.reorder > 0 && rng_.chance(faults.reorder)) delay = later();
  if (faults.late > 0 && rng_.chance(faults.late)) delay += rng_.below(faults.late_delay);
  deliver(at, std::move(frame), up, delay, vouched);
}

}  // namespace tally::sim
