#pragma once
// Stands between memif's driver and the daemon's socket, and passes their control messages on both ways. The
// packets themselves do not come here: they go through the shared memory that these messages set up.
//
// Why. What the driver of DPDK 22.11 does by itself when the daemon goes away (read in its sources, seen in
// tests/e2e/transport_reconnect_test.cc):
//  - EAL's interrupt thread gets the end of the socket and, at once and without a lock, unmaps the shared
//    memory and frees the records of it, while our thread may be copying a packet there. A plain client died
//    of it in 3 of 60 kills of its daemon under traffic.
//  - the port stays 'started' with its link down and never connects again; a start without a daemon fails.
//  - connect() blocks the thread that starts the port while the daemon's backlog (1) is full or it is
//    stopped.
//  - DISCONNECT with its reason ('ID not found', 'Already connected', 'Invalid ring index') is only logged.
// With the relay the driver's peer is this object in the same process, which never goes away. The daemon's
// end is seen here, on the thread that sends and receives; it stops using the port, waits until the interrupt
// thread is through (InterruptFence), restarts the port, and shows it the next daemon. A daemon that is not
// there costs one connect() per attempt, which never blocks.
//
// The driver's end is an abstract socket (nothing to clean up after kill -9) that takes connections of this
// process only.

#include <cstdint>
#include <memory>
#include <string>

#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::dpdk_transport {

// Owner: one thread. Nothing here blocks.
class MemifRelay {
 public:
  // daemon: the path, or the abstract name, at which the daemon's memif listens.
  [[nodiscard]] static Result<std::unique_ptr<MemifRelay>> create(std::string daemon, bool abstract);
  MemifRelay(const MemifRelay&) = delete;
  MemifRelay& operator=(const MemifRelay&) = delete;
  ~MemifRelay() { hang_up(); }

  // For the driver's socket= with socket-abstract=yes.
  [[nodiscard]] const std::string& private_name() const noexcept { return private_name_; }

  // Tries once to reach the daemon. False: not there, why() says more.
  bool call_daemon();
  // Passes on what has arrived. False: the daemon is gone or refused, and is not heard any more.
  bool pump();
  // Also for copies of the connection in children of fork(), which would keep the daemon's port occupied.
  void hang_up() noexcept;
  // The driver was restarted: its next connection is the one that counts.
  void new_driver() noexcept;

  // Whether the driver was told anything by this daemon: then it has to be restarted before the next one.
  [[nodiscard]] bool driver_involved() const noexcept { return involved_; }
  // The daemon's last word of the introduction has been passed on; the driver is about to use the memory.
  [[nodiscard]] bool introduced() const noexcept { return introduced_; }
  // Why there is no connection, for people; empty if nothing went wrong.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  MemifRelay() = default;
  enum class Moved : std::uint8_t { kNothing, kMessage, kEnd };
  Moved from_daemon();
  Moved from_driver();
  void accept_driver() noexcept;
  void refused(int error);

  std::string daemon_name_;
  bool abstract_ = false;
  std::string private_name_;
  std::string why_;
  UniqueFd listener_;
  UniqueFd driver_;
  UniqueFd daemon_;
  bool involved_ = false;
  bool introduced_ = false;
};

}  // namespace tally::dpdk_transport
