// A switch of the original's rules behind a memif of role server, for tests of programs that play its
// clients. Until SIGTERM. Arguments: the device; members, of which the first is 02:00:00:00:00:01, 10.0.0.11;
// bytes of payload; slots; and, to be wrong, the number of a reply of which one bit is to flip.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fake_box.h"
#include "original_switch.h"

namespace {

volatile std::sig_atomic_t stop = 0;  // NOLINT: written by the handler below

std::vector<tally::stock::StockAddresses> members_of(std::size_t count) {
  std::vector<tally::stock::StockAddresses> members;
  for (std::size_t i = 0; i < count; ++i) {
    const auto low = static_cast<std::uint8_t>(i);
    members.push_back({.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + low)},
                       .ipv4 = {10, 0, 0, static_cast<std::uint8_t>(11 + low)},
                       .switch_mac = tally::e2e::FakeBox::kMac,
                       .switch_ipv4 = {10, 0, 0, 1}});
  }
  return members;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const auto number = [argv](int i) { return std::strtoul(argv[i], nullptr, 10); };
  const std::size_t count = number(2);
  const unsigned long wrong = argc > 5 ? number(5) : 0;
  std::signal(SIGTERM, [](int) { stop = 1; });
  tally::e2e::FakeBox box(argv[1]);
  const auto members = members_of(count);
  tally::stock::OriginalSwitch rules(members, static_cast<std::uint16_t>(number(3)),
                                     static_cast<std::uint16_t>(number(4)));
  unsigned long replies = 0;
  while (stop == 0) {
    const auto arrived = box.poll();
    for (const auto& frame : arrived) {
      if (frame.frame.size() < tally::stock::kHeads) continue;
      const std::size_t rank =
          std::to_integer<std::size_t>(frame.frame[11]) - 1U;  // the last byte of its MAC
      if (rank >= count) continue;
      rules.receive(rank, frame.frame, 0, [&](std::size_t, std::span<const std::byte> reply) {
        std::vector<std::byte> bytes(reply.begin(), reply.end());
        if (++replies == wrong) bytes[tally::stock::kHeads] ^= std::byte{1};
        static_cast<void>(box.send_frame(bytes));  // what finds no room is lost, as on any path
      });
    }
    if (arrived.empty()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::printf("%lu replies, %lu frames of strangers\n", replies,
              static_cast<unsigned long>(rules.counters().strangers));
  return 0;
}
