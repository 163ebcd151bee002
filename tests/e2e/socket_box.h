#pragma once
// A box behind sockets of the kernel: the simulator's switch (production pipeline and membership engine) on a
// thread and in real time, at the ports where tallyd is. Its address is one of this machine.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "frames.h"
#include "schedule.h"
#include "switch_node.h"
#include "tally/worker.h"
#include "udp/udp_socket.h"

namespace tally::e2e {

struct SocketBoxOptions {
  std::string address = "127.0.0.1";
  std::uint16_t workers = 2;
  std::uint8_t cores = 1;
  std::uint32_t window = 64;
  std::uint16_t elements = 352;
  TimeNs lease = 10 * kSecond;
  bool multicast = false;
};

class SocketBox {
 public:
  explicit SocketBox(const SocketBoxOptions& options = {});
  SocketBox(const SocketBox&) = delete;
  SocketBox& operator=(const SocketBox&) = delete;
  ~SocketBox();

  // What a worker of `rank` must say: the box's address, job, rank and world; the transport is the default.
  [[nodiscard]] WorkerOptions worker(std::uint16_t rank) const;
  // The sockets close: the kernel answers 'port unreachable'. Afterwards the box comes back as it was.
  void go_away();
  void come_back();

 private:
  void open_sockets();
  void serve();
  void take_from(const udp::UdpSocket& socket, std::uint16_t shard);
  // The switch knows IPv4 hosts only; each of ours is one of them to it.
  [[nodiscard]] jobs::Binding binding_of(const udp::UdpAddress& sender);
  void deliver(const jobs::Binding& to, const Bytes& frame);
  // False: this RESULT has gone to the group already.
  [[nodiscard]] bool to_group(const Header& header, udp::UdpAddress& to);

  const SocketBoxOptions options_;
  const udp::UdpAddress address_;
  sim::Schedule schedule_;
  std::unique_ptr<sim::SwitchNode> node_;
  static constexpr std::size_t kMostSenders = 200;
  std::vector<udp::UdpAddress> senders_;       // by number
  std::uint64_t grouped_ = ~std::uint64_t{0};  // epoch and chunk of the last RESULT to the group

  std::mutex mutex_;  // of everything below; the thread holds it while it serves
  std::vector<udp::UdpSocket> sockets_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tally::e2e
