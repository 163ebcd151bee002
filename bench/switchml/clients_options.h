#pragma once
// The command line of tally_switchml_clients. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stock_session.h"
#include "tally/error.h"

namespace tally::stock {

// One of the sessions that are run, one after the other.
struct PlannedSession {
  SessionOptions session{};
  std::string name{};  // its row: w8t4p1024, and l1 with 1 % loss
};

struct ClientsOptions {
  std::vector<std::string>
      ports{};  // devices as a worker has them, without `dpdk:`; rank r is behind the r-th mod ports
  std::vector<PlannedSession> sessions{};
  TimeNs patience = 10 * kSecond;  // without a result
  std::optional<std::uint16_t> cpu{};
  std::optional<int> box_pid{};  // tallyd on this machine, whose CPU time is of interest
  std::uint64_t memory_mib = 128;
  std::string service{};  // HOST:PORT of the session service; empty: the box's addresses are given
  bool hang_up = false;   // the connections to it are closed before the first packet
  std::string json{};
};

struct ClientsHelp {
  std::string text;
};

// Sessions are all combinations of workers, threads, payloads and losses, in this order, the last changing
// fastest. Their members have MAC and IPv4 addresses one after the other, through all sessions; with a
// session service, which has one session at a time on a port, each session begins with the first ones.
[[nodiscard]] Result<std::variant<ClientsOptions, ClientsHelp>> parse_clients_options(
    int argc, const char* const* argv);

}  // namespace tally::stock
