#include "core_calls_ends.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tally/check.h"

#include <rte_byteorder.h>
#include <rte_ethdev.h>

namespace tally::e2e {
namespace {

constexpr std::size_t kLongest = 2048;

class EthdevEnd : public MembersEnd {
 public:
  EthdevEnd(std::uint16_t ethdev, rte_mempool* pool) : ethdev_(ethdev), pool_(pool) {}

  bool send(std::span<const std::byte> frame) override {
    rte_mbuf* m = dpdk::allocate(pool_, mbufs_);
    if (m == nullptr) return false;
    std::memcpy(dpdk::data_of(m), frame.data(), frame.size());
    m->data_len = static_cast<std::uint16_t>(frame.size());
    m->pkt_len = m->data_len;
    return tally::dpdk::send(ethdev_, 0, {&m, 1}, mbufs_) == 1;
  }

  std::size_t receive(const std::function<void(std::span<const std::byte>)>& each) override {
    std::array<rte_mbuf*, 32> room{};
    const auto burst = tally::dpdk::receive(ethdev_, 0, room);
    for (rte_mbuf* m : burst) {
      std::size_t bytes = 0;
      for (const rte_mbuf* s = m; s != nullptr; s = s->next) {
        TALLY_CHECK(bytes + s->data_len <= line_.size(), "the box sends no longer frames");
        std::memcpy(&line_[bytes], dpdk::data_of(s), s->data_len);
        bytes += s->data_len;
      }
      each(std::span{line_}.first(bytes));
      dpdk::drop(m);
    }
    return burst.size();
  }

 private:
  std::uint16_t ethdev_;
  rte_mempool* pool_;
  dpdk::MbufCounters mbufs_;
  std::array<std::byte, kLongest> line_{};
};

class PortEnd final : public EthdevEnd {
 public:
  PortEnd(dpdk::Port port, rte_mempool* pool) : EthdevEnd(port.traits().id, pool), port_(std::move(port)) {}

 private:
  dpdk::Port port_;
};

class SocketEnd final : public MembersEnd {
 public:
  explicit SocketEnd(const std::string& interface) : fd_(socket(AF_PACKET, SOCK_RAW, 0)) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = rte_cpu_to_be_16(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    const int on = 1;
    const int room = 4 << 20;
    TALLY_CHECK(fd_ >= 0 && setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) == 0 &&
                    setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0 &&
                    bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
                "a raw socket is bound to the interface");
  }
  SocketEnd(const SocketEnd&) = delete;
  SocketEnd& operator=(const SocketEnd&) = delete;
  ~SocketEnd() override { close(fd_); }

  bool send(std::span<const std::byte> frame) override {
    return ::send(fd_, frame.data(), frame.size(), MSG_DONTWAIT) == static_cast<ssize_t>(frame.size());
  }

  std::size_t receive(const std::function<void(std::span<const std::byte>)>& each) override {
    std::size_t frames = 0;
    for (; frames < 32; ++frames) {
      const ssize_t bytes = recv(fd_, line_.data(), line_.size(), MSG_DONTWAIT);
      if (bytes < 0) break;
      each(std::span{line_}.first(static_cast<std::size_t>(bytes)));
    }
    return frames;
  }

 private:
  int fd_;
  std::array<std::byte, kLongest> line_{};
};

}  // namespace

std::unique_ptr<MembersEnd> ethdev_end(std::uint16_t ethdev, rte_mempool* pool) {
  return std::make_unique<EthdevEnd>(ethdev, pool);
}
std::unique_ptr<MembersEnd> port_end(dpdk::Port port, rte_mempool* pool) {
  return std::make_unique<PortEnd>(std::move(port), pool);
}
std::unique_ptr<MembersEnd> socket_end(const std::string& interface) {
  return std::make_unique<SocketEnd>(interface);
}

}  // namespace tally::e2e
