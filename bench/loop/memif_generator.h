#pragma once
// Contributions of a two-member job through a memif client port as fast as the other end takes them, and a
// check of the results that come back.

#include <sys/types.h>
#include <time.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_job.h"
#include "pools.h"
#include "port.h"
#include "traffic.h"

struct rte_mbuf;

namespace tally::bench {

inline constexpr JobShape kMemifJob{.world = 2, .elements = 256};
inline constexpr std::uint16_t kMemifFrame = 1500 + 18;

// role: server or client.
[[nodiscard]] PortOptions memif_port(const std::string& role, const std::string& socket, int id);

// A client's port whose server has answered. Ends the process with a message if it does not within 1 s.
[[nodiscard]] Port connected(const PortOptions& options, rte_mempool* frames);

class MemifGenerator {
 public:
  // EAL has been started, and the server, process `other`, listens. other_is_box: what comes back is results;
  // else the frames themselves. Ends the process with a message if the other end does not answer.
  MemifGenerator(const std::string& socket, bool other_is_box, pid_t other);

  struct Load {
    std::uint32_t window = 0;  // most frames without an answer; 0: as many as the rings take
    double seconds = 1;        // measured, after a fifth of it to warm up
  };
  // {"sent_per_cpu_s": frames that the other end took in a second of its CPU time, which other work on the
  // machine disturbs less than its wall-clock rate; "sent_per_s"; "received_per_s"; "full": share of bursts
  // that found no room at the other end}. Ends the process if a result is wrong, or answers stop coming.
  [[nodiscard]] nlohmann::json run(const Load& load);
  // Frames that the other end took, ever.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  static constexpr std::size_t kGeneratorBurst = 32;
  void turn(std::uint32_t window);
  void take();
  void offer(std::size_t room);
  void drain();

  bool other_is_box_;
  clockid_t other_cpu_{};  // CPU time of the other end
  Traffic traffic_;
  Mempool contributions_;  // their values stay in them
  Mempool answers_;
  Port port_;
  std::array<rte_mbuf*, kGeneratorBurst> waiting_{};  // written, not yet taken
  std::size_t waits_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t bursts_ = 0;
  std::uint64_t full_ = 0;
  std::uint64_t answered_before_ = 0;  // contributions that need no answer to the present load
};

}  // namespace tally::bench
