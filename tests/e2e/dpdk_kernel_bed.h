#pragma once
// Frames between ports of DPDK and the kernel's ends of their interfaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "device/kernel_device.h"
#include "dpdk_namespace.h"
#include "dpdk_testbed.h"

namespace tally::e2e {

class KernelPorts : public testing::Test {
 protected:
  // Opens the port that `options` describe, with a pool as the daemon would make it, if there is none yet.
  [[nodiscard]] dpdk::Port open(const dpdk::PortOptions& options);
  // As the daemon: for all ports that there are going to be.
  void make_pools_for(const std::vector<dpdk::PortOptions>& options);
  // Of the first of them, and of ports that were not among them.
  [[nodiscard]] rte_mempool* frames() const { return pools_.frames[0]; }
  [[nodiscard]] unsigned in_use() const;
  // A frame of test_frame() in an mbuf of the pool.
  [[nodiscard]] rte_mbuf* mbuf_of(std::span<const std::byte> frame);
  // The port delivers this frame, sent at the wire, and the other way round.
  void carries(const dpdk::Port& port, const Wire& wire, std::size_t bytes, bool tagged = false);
  // After `ip link set up`: the other end hears of the carrier by way of a queue of the kernel's, and what it
  // sends before is lost. Waits until a frame arrives.
  void comes_back(const dpdk::Port& port, const Wire& wire);
  // What the port delivers next, within about a second; only the tests' frames.
  [[nodiscard]] std::vector<std::vector<std::byte>> receive_copies(const dpdk::Port& port,
                                                                   std::size_t wanted);
  // Sends all of `burst` and gives the driver the chance to give back what is sent.
  [[nodiscard]] std::size_t send_all(const dpdk::Port& port, std::vector<rte_mbuf*> burst);
  // Mbufs in use become `wanted`, soon.
  [[nodiscard]] bool in_use_becomes(const std::vector<const dpdk::Port*>& ports, unsigned wanted);

  dpdk::Pools pools_;
  std::vector<std::string> ports_;  // whose pools they are
  dpdk::MbufCounters counters_;
};

}  // namespace tally::e2e
