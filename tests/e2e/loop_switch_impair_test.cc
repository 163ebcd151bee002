// The switch and faults on purpose together: what goes to some ports is altered, and what goes to the others
// from the same mbuf is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_switch_rig.h"
#include "rng.h"

namespace tally::e2e {
namespace {

class LoopSwitchImpair : public testing::TestWithParam<SwitchCase> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

constexpr impair::ImpairOptions kEveryFault{.loss_ppm = 50'000,
                                            .burst = 3,
                                            .duplicate_ppm = 200'000,
                                            .reorder_ppm = 100'000,
                                            .corrupt_ppm = 300'000,
                                            .delay = 100 * kMicrosecond,
                                            .jitter = 30 * kMicrosecond,
                                            .queue = 256,
                                            .seed = 5};
constexpr impair::ImpairOptions kAtOnce{.duplicate_ppm = 300'000, .corrupt_ppm = 500'000, .seed = 7};

constexpr std::size_t kNumbers = 5;  // of each frame, behind its header: one may be hit by each way

Bytes numbered(const Mac& to, const Mac& from, std::uint32_t n, std::size_t bytes) {
  Bytes frame = plain_frame(to, from, bytes);
  for (std::size_t i = 0; i < kNumbers; ++i) std::memcpy(frame.data() + 14 + 4 * i, &n, sizeof n);
  return frame;
}

std::uint32_t number_of(const Bytes& frame) {
  std::array<std::uint32_t, kNumbers> numbers{};
  std::memcpy(numbers.data(), frame.data() + 14, sizeof numbers);
  std::ranges::sort(numbers);
  return numbers[kNumbers / 2];
}

// nullopt: they are not of one length.
std::optional<int> bits_between(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return std::nullopt;
  int bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) bits += std::popcount(std::to_integer<unsigned>(a[i] ^ b[i]));
  return bits;
}

struct Seen {
  std::size_t altered = 0;
  std::size_t wrong = 0;  // not what was sent, but for a bit of each way that may have hit it
};

void look(SwitchRig& rig, const SwitchCase& c, const std::vector<Bytes>& sent, Seen& seen) {
  for (std::size_t p = 0; p < c.ports; ++p) {
    const int most = (c.impair.in.on() ? 1 : 0) + ((c.impaired >> p & 1) != 0 && c.impair.out.on() ? 1 : 0);
    for (const Bytes& frame : rig.received(p)) {
      const std::uint32_t n = number_of(frame);
      const auto bits = n < sent.size() ? bits_between(frame, sent[n]) : std::nullopt;
      if (!bits || *bits > most) ++seen.wrong;
      if (bits && *bits != 0) ++seen.altered;
    }
  }
}

TEST_P(LoopSwitchImpair, OnlyImpairedPortsSeeAnotherBitAndEveryMbufComesBack) {
  const SwitchCase& c = GetParam();
  SwitchRig rig(c);
  Rng rng(c.impaired + c.cores);
  std::vector<Bytes> sent;
  Seen seen;
  TimeNs now = 2 * kSecond;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 8; ++i) {
      const auto from = static_cast<std::uint8_t>(rng.below(c.ports));
      const Mac to =
          rng.chance(0.7) ? kBroadcastMac : host_mac(static_cast<std::uint8_t>(rng.below(c.ports)));
      const auto number = static_cast<std::uint32_t>(sent.size());
      sent.push_back(numbered(to, host_mac(from), number, rng.between(60, 1'459)));
      rig.send(from, sent.back(), static_cast<std::uint16_t>(rng.below(c.up)), rng.between(1, 3));
    }
    now += 20 * kMicrosecond;
    rig.set_time(now);
    rig.turn();
    look(rig, c, sent, seen);
  }
  EXPECT_EQ(seen.wrong, 0U);
  EXPECT_GT(seen.altered, 0U);
  rig.expect_clean();  // with what still waits
}

std::vector<SwitchCase> cases() {
  std::vector<SwitchCase> all;
  const auto add = [&](SwitchCase c, std::string name, unsigned ports, const impair::PortImpairment& impair) {
    c.name.append(name);
    c.impaired = ports;
    c.impair = impair;
    if (c.frame_mbufs == SwitchCase{}.frame_mbufs) c.frame_mbufs = 4'096;
    all.push_back(std::move(c));
  };
  for (const SwitchCase& form :
       {SwitchCase{.name = "RingPorts"}, SwitchCase{.name = "SharingPorts", .copies = true},
        SwitchCase{.name = "NoSegments", .segments = false, .copies = true},
        SwitchCase{.name = "TwoCores", .cores = 2, .up = 2, .down = 2, .copies = true},
        SwitchCase{.name = "TwoCoresOneQueue", .cores = 2, .up = 2},
        SwitchCase{.name = "TwoCoresOneQueueShared", .cores = 2, .up = 2, .copies = true},
        SwitchCase{.name = "TinyPool", .copies = true, .frame_mbufs = 20}}) {
    add(form, "Later", 0b0101, {.out = kEveryFault});
    add(form, "AtOnce", 0b0010, {.out = kAtOnce});
  }
  add({.name = "SharingPorts", .copies = true}, "BothWays", 0b1111, {kEveryFault, kEveryFault});
  add({.name = "TwoCoresOneQueue", .cores = 2, .up = 2, .copies = true}, "BothWays", 0b0010,
      {kEveryFault, kEveryFault});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Forms, LoopSwitchImpair, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tally::e2e
