#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/transport.h"
#include "ps/ps_command_line.h"
#include "ps/ps_engine.h"

namespace tally::ps {

// The loop of tally-ps: one thread that owns engine and transport, and takes turns at receiving, sending,
// telling people and sleeping.

class PsRun {
 public:
  PsRun(std::unique_ptr<Transport> transport, std::unique_ptr<PsEngine> engine, const PsSettings& settings);

  // Until stop(); then a last line of statistics. An error of the path ends it, too.
  [[nodiscard]] Result<void> run();
  void stop() noexcept;  // any thread

 private:
  // Datagrams sent in a turn: what one that was received brings with it is two at most.
  static constexpr std::size_t kBurst = 64;
  // A path that takes nothing is asked again so soon; it cannot wake us.
  static constexpr TimeNs kPathRetry = kMillisecond;

  void turn();
  void read_clock() noexcept;
  [[nodiscard]] bool transmit();
  void follow_memberships();
  void tell_events();
  void tell_statistics();
  [[nodiscard]] TimeNs statistics_interval() const noexcept;

  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<PsEngine> engine_;
  const PsSettings& settings_;
  const std::size_t datagram_bytes_;
  std::atomic<bool> stop_ = false;
  TimeNs now_ = 0;
  TimeNs statistics_due_ = kNever;
  bool path_full_ = false;
  std::vector<std::uint64_t> epochs_followed_;  // by job
  std::string trouble_;                         // of the path, as it was last told
};

}  // namespace tally::ps
