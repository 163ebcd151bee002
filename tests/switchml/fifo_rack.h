#pragma once
// Clients of a session and a switch on paths that keep the order of frames, in virtual time: each way takes
// kDelay. One thread.

#include <deque>
#include <string>
#include <vector>

#include "client_switch.h"
#include "stock_session.h"

namespace tally::stock {

inline constexpr Mac kRackSwitchMac{0x02, 0x7a, 0x11, 0, 0, 0xfe};
inline constexpr Ipv4 kRackSwitchIpv4{10, 0, 0, 254};
inline constexpr TimeNs kDelay = 10 * kMicrosecond;
inline constexpr TimeNs kRackPatience = 10 * kSecond;  // of virtual time, without a result

[[nodiscard]] std::vector<StockAddresses> rack_members(std::size_t count);

class FifoRack {
 public:
  FifoRack(StockSession& session, ClientSwitch& box) noexcept : session_(session), box_(box) {}

  // Until all have their results, a reply is wrong, or nobody had a result for kRackPatience. Empty: the
  // first. Else what is wrong.
  [[nodiscard]] std::string run();
  [[nodiscard]] TimeNs now() const noexcept { return now_; }

 private:
  struct Flying {
    TimeNs due;
    std::size_t rank;
    bool up;
    std::vector<std::byte> frame;
  };

  void send(std::size_t rank, bool up, std::span<const std::byte> frame);
  void send_all_due();
  void move_on();
  void arrive(Flying flying);

  StockSession& session_;
  ClientSwitch& box_;
  std::deque<Flying> flying_;  // all ways take the same time, so the first to leave is the first to arrive
  TimeNs now_ = kMillisecond;
};

}  // namespace tally::stock
