#include "host_stack.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tally/net.h"

namespace tally::sim {
namespace {

constexpr std::size_t kInbox = 256;  // frames a paused process can hold

Ipv4Header ip_of(const Bytes& frame) {
  Ipv4Header ip;
  std::memcpy(&ip, frame.data() + sizeof(EthernetHeader), sizeof ip);
  return ip;
}

}  // namespace

std::span<const std::byte> unwrap(const Bytes& frame, const jobs::Binding& self) {
  constexpr std::size_t kOuter = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
  if (frame.size() < kOuter) return {};
  EthernetHeader ethernet;
  Ipv4Header ip;
  UdpHeader udp;
  std::memcpy(&ethernet, frame.data(), sizeof ethernet);
  std::memcpy(&ip, frame.data() + sizeof ethernet, sizeof ip);
  std::memcpy(&udp, frame.data() + sizeof ethernet + sizeof ip, sizeof udp);
  const bool mine = ethernet.destination == self.mac && ethernet.type.host() == kEtherIpv4 &&
                    ip.version_ihl == 0x45 && mapped(ip.destination) == self.address &&
                    udp.destination.host() == self.udp_port;
  const std::size_t length = udp.length.host();
  if (!mine || length < sizeof udp || length > frame.size() - kOuter + sizeof udp) return {};
  return std::span{frame}.subspan(kOuter, length - sizeof udp);
}

Ipv6 source_of(const Bytes& frame) { return mapped(ip_of(frame).source); }
Ipv6 destination_of(const Bytes& frame) { return mapped(ip_of(frame).destination); }

const jobs::Box* box_at(std::span<const jobs::Box> boxes, const Ipv6& address) {
  const auto box = std::find_if(boxes.begin(), boxes.end(),
                                [&](const jobs::Box& one) { return mapped(one.ipv4) == address; });
  return box == boxes.end() ? nullptr : &*box;
}

void HostProcess::begin_life() {
  ++life_;
  wake_ = kNever;
}

void HostProcess::end_life() {
  ++life_;
  inbox_.clear();
}

void HostProcess::pause(TimeNs until) {
  paused_until_ = std::max(paused_until_, until);
  schedule_.at(until, [this] {
    if (!runs()) return;  // it crashed, or a longer pause began meanwhile
    while (!inbox_.empty()) {
      const Bytes frame = std::move(inbox_.front());
      inbox_.pop_front();
      receive(frame);
    }
    service();
  });
}

void HostProcess::receive(const Bytes& frame) {
  if (!alive()) return;
  if (!runs()) {
    if (inbox_.size() < kInbox) inbox_.push_back(frame);
    return;
  }
  const auto datagram = unwrap(frame, self_);
  if (datagram.data() == nullptr) return;
  const Bytes exact(datagram.begin(), datagram.end());  // its own heap block: over-reads are found
  take(exact, source_of(frame));
}

void HostProcess::wake_at(TimeNs when) {
  if (when >= wake_) return;
  wake_ = when;
  schedule_.at(when, [this, when, life = life_] {
    if (life != life_ || wake_ != when) return;
    wake_ = kNever;
    service();
  });
}

}  // namespace tally::sim
