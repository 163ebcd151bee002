#include "socket_box.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "api/transport.h"
#include "jobs.h"
#include "jobs/binding.h"
#include "pipeline/reply.h"
#include "tally/check.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::e2e {
namespace {

constexpr const char* kJob = "resnet";

}  // namespace

SocketBox::SocketBox(const SocketBoxOptions& options)
    : options_(options), address_(*udp::parse_address(options.address)) {
  (void)schedule_.step(steady_now());
  sim::SwitchOptions box;
  box.cores = options.cores;
  box.slot_lines = 1 << 16;
  members::NativeConfig job;
  job.name = kJob;
  job.workers = options.workers;
  job.elements = options.elements;
  job.window = options.window;
  job.lease = options.lease;
  if (options.multicast) job.results = ResultsMode::kMulticast;
  box.jobs.push_back(job);
  node_ = std::make_unique<sim::SwitchNode>(
      schedule_, 1, box, [this](const jobs::Binding& to, const Bytes& frame) { deliver(to, frame); },
      [](const std::string& broken) { ADD_FAILURE() << broken; });
  open_sockets();
  thread_ = std::thread([this] { serve(); });
}

SocketBox::~SocketBox() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void SocketBox::open_sockets() {
  for (std::uint16_t shard = 0; shard < options_.cores; ++shard) {
    auto socket = udp::UdpSocket::open(address_.family());
    TALLY_CHECK(socket, "a socket of the box opens");
    udp::UdpAddress at = address_;
    at.set_port(static_cast<std::uint16_t>(kBasePort + shard));
    TALLY_CHECK(socket->bind(at) == 0, "the box's port is free");
    static_cast<void>(socket->grow_buffers(std::size_t{4} << 20));
    const ip_mreqn loopback{{}, {}, static_cast<int>(if_nametoindex("lo"))};
    if (address_.ipv4())
      static_cast<void>(setsockopt(socket->fd(), IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback));
    else
      static_cast<void>(socket->set(IPPROTO_IPV6, IPV6_MULTICAST_IF, loopback.imr_ifindex));
    sockets_.push_back(std::move(*socket));
  }
}

WorkerOptions SocketBox::worker(std::uint16_t rank) const {
  WorkerOptions options;
  options.job = kJob;
  options.box = options_.address;
  options.rank = rank;
  options.world = options_.workers;
  options.join_timeout = std::chrono::minutes(2);
  return options;
}

void SocketBox::go_away() {
  const std::lock_guard lock(mutex_);
  sockets_.clear();
}

void SocketBox::come_back() {
  const std::lock_guard lock(mutex_);
  open_sockets();
}

jobs::Binding SocketBox::binding_of(const udp::UdpAddress& sender) {
  const auto known = std::find_if(senders_.begin(), senders_.end(), [&](const udp::UdpAddress& each) {
    return each.same_ip(sender) && each.port() == sender.port();
  });
  const auto index = static_cast<std::uint16_t>(known - senders_.begin());
  TALLY_CHECK(index < kMostSenders, "there are addresses for all senders");
  if (known == senders_.end()) senders_.push_back(sender);
  jobs::Binding binding = test_binding(1, index);
  binding.port = PortIndex{0};
  return binding;
}

void SocketBox::take_from(const udp::UdpSocket& socket, std::uint16_t shard) {
  for (int i = 0; i < 64; ++i) {
    Bytes datagram(kMaxDatagramBytes);
    udp::UdpAddress from;
    socklen_t size = udp::UdpAddress::kRoom;
    const ssize_t got =
        recvfrom(socket.fd(), datagram.data(), datagram.size(), MSG_DONTWAIT, from.raw(), &size);
    if (got < 0) return;
    datagram.resize(static_cast<std::size_t>(got));
    const jobs::Binding sender = binding_of(from);
    node_->receive(wrap(datagram, sender, test_box(), static_cast<std::uint16_t>(kBasePort + shard)),
                   sender.port, false);
  }
}

bool SocketBox::to_group(const Header& header, udp::UdpAddress& to) {
  to = udp::UdpAddress(jobs::multicast_group(header.job_id(), !address_.ipv4()), kMulticastPort);
  const std::uint64_t now = std::uint64_t{header.epoch.host()} << 32 | header.chunk.host();
  return std::exchange(grouped_, now) != now;
}

void SocketBox::deliver(const jobs::Binding& to, const Bytes& frame) {
  const std::size_t head = pipeline::encapsulation_bytes(to);
  Header header;
  std::memcpy(&header, frame.data() + head, sizeof header);
  udp::UdpAddress receiver = senders_.at(to.address[15] - 1U);
  const bool first = header.type == PacketType::kResult && (header.flags & kFlagRetransmit) == 0;
  if (options_.multicast && first && !to_group(header, receiver)) return;
  if (sockets_.empty()) return;
  static_cast<void>(sendto(sockets_[0].fd(), frame.data() + head, frame.size() - head, MSG_DONTWAIT,
                           receiver.raw(), receiver.size()));
}

void SocketBox::serve() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      while (schedule_.step(steady_now())) continue;
      for (std::uint16_t shard = 0; shard < sockets_.size(); ++shard) take_from(sockets_[shard], shard);
      while (schedule_.step(steady_now())) continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // publications have no other alarm
  }
}

}  // namespace tally::e2e
