#pragma once
// Clients of a session and a switch, in virtual time. Each way takes kDelay, so that the order of frames
// stays, and with a jitter up to so much more, so that it does not. One thread.

#include <map>
#include <string>
#include <vector>

#include "client_switch.h"
#include "stock_session.h"

namespace tally::stock {

inline constexpr Mac kRackSwitchMac{0x02, 0x7a, 0x11, 0, 0, 0xfe};
inline constexpr Ipv4 kRackSwitchIpv4{10, 0, 0, 254};
inline constexpr TimeNs kDelay = 10 * kMicrosecond;

[[nodiscard]] std::vector<StockAddresses> rack_members(std::size_t count);

struct RackOptions {
  TimeNs jitter = 0;
  TimeNs begin = kMillisecond;
  TimeNs patience = 10 * kSecond;  // without a result
  // All clients stand still for so long, again and again after so many results of all; 0: never.
  TimeNs pause = 0;
  std::uint64_t results_between_pauses = 97;
};

class ClientRack {
 public:
  ClientRack(StockSession& session, ClientSwitch& box, const RackOptions& options = {}) noexcept
      : session_(session), box_(box), options_(options), now_(options.begin) {}

  // Until all have their results, a reply is wrong, or nobody had a result for the time of the patience.
  // Empty: the first. Else what is wrong.
  [[nodiscard]] std::string run();
  [[nodiscard]] TimeNs now() const noexcept { return now_; }

 private:
  struct Flying {
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
  std::multimap<TimeNs, Flying> flying_;  // by arrival; of one time, the first to leave is the first
  RackOptions options_;
  impair::FaultRandom random_{1, 0, 0};
  TimeNs now_;
  std::uint64_t paused_ = 0;  // at so many results, last
};

}  // namespace tally::stock
