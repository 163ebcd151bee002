#pragma once
// What a data core counts, by itself and of each port, and how it idles: known to its parts and to control.

#include <cstdint>

#include "dpdk/mbuf.h"
#include "impair/faults.h"
#include "l2/forwarding.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::io {

enum class IdlePolicy : std::uint8_t {
  kPoll,      // never sleeps
  kAdaptive,  // yields, then sleeps for at most kLongestSleep when nothing arrives
};
inline constexpr TimeNs kLongestSleep = kMillisecond;

// Written by one core, read by anyone.
struct alignas(64) CoreStatistics : dpdk::MbufCounters {
  OneWriter<std::uint64_t> turns = 0;        // of the loop
  OneWriter<std::uint64_t> bursts = 0;       // receive bursts with at least one frame
  OneWriter<std::uint64_t> frames_in = 0;    // received by this core from ports
  OneWriter<std::uint64_t> frames_out = 0;   // taken by ports
  OneWriter<std::uint64_t> handed_over = 0;  // contributions that another core owns
  OneWriter<std::uint64_t> taken_over = 0;   // ... and those that this one got
  OneWriter<std::uint64_t> sent_for = 0;     // frames of control, and of cores without a queue of their own
  OneWriter<std::uint64_t> results = 0;      // finished chunks
  OneWriter<std::uint64_t> replicas = 0;     // frames made of them
  OneWriter<std::uint64_t> rejects = 0;      // REJECTs sent
  OneWriter<std::uint64_t> nacks = 0;        // NACKs sent
  OneWriter<std::uint64_t> impaired_in = 0;  // lost on purpose
  OneWriter<std::uint64_t> impaired_out = 0;
  OneWriter<std::uint64_t> not_ours = 0;        // frames for the L2 switch: see l2
  OneWriter<std::uint64_t> punts_lost = 0;      // control packets that found control's ring full
  OneWriter<std::uint64_t> hand_over_lost = 0;  // frames that found another core's ring full
  OneWriter<std::uint64_t> events_lost = 0;
  OneWriter<std::uint64_t> server_queued = 0;   // frames that wait for external servers now
  OneWriter<std::uint64_t> server_refused = 0;  // ... that were dropped since their port's queue was full
  OneWriter<std::uint64_t> to_servers = 0;      // ... that ports, or cores that send for this one, have taken
  OneWriter<std::uint64_t> sleeps = 0;
  OneWriter<std::uint64_t> busy_cycles = 0;  // TSC cycles of turns that moved a frame
  OneWriter<std::uint64_t> last_turn = 0;    // TimeNs: the watchdog's witness
  l2::SwitchCounters l2{};
};

// What one core took from a port and gave to it. A driver's own counters are not used for this: memif's are
// forgotten with each worker that goes.
struct alignas(64) PortTraffic {
  OneWriter<std::uint64_t> frames_in = 0;
  OneWriter<std::uint64_t> bytes_in = 0;  // from the Ethernet header on, without FCS
  OneWriter<std::uint64_t> frames_out = 0;
  OneWriter<std::uint64_t> bytes_out = 0;
  impair::ImpairCounters impaired_in{};  // frames_in: what the port gave; frames_out: what it took after this
  impair::ImpairCounters impaired_out{};
};

}  // namespace tally::io
