#pragma once
// A transport that notes when what happens to one operation, and does everything else as the one inside it.
// Scheme 'traced': traced:udp, traced:dpdk:DEVICE. Owner threads as Transport's.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "api/transport.h"

namespace tally::bench {

// Of one operation, steady_clock, ns; 0: it has not happened. The caller arms it, the progress thread writes.
struct OperationTrace {
  std::atomic<TimeNs> lent = 0;        // room for the first datagram was asked for
  std::atomic<TimeNs> first_sent = 0;  // the first burst is with the port or the kernel
  std::atomic<TimeNs> last_sent = 0;
  std::atomic<TimeNs> last_empty =
      0;  // receive() was called last without finding anything before the last result
  std::atomic<TimeNs> last_found = 0;  // receive() was called that found the last result
  std::atomic<TimeNs> last_taken = 0;  // ... and has handed it to the engine
  std::atomic<bool> armed = false;

  // The caller's thread, with no operation under way.
  void arm() noexcept;
};

// Transports that are opened while a thread has one of these belong to it.
extern thread_local OperationTrace* trace_to_open;
// Called by progress threads before their first turn, if set; for watching them. Set before threads exist.
extern std::function<void()> on_attach;

void register_traced_transport();

}  // namespace tally::bench
