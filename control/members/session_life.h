#pragma once
// Sessions of SwitchML's clients. A session is a job that runs from its declaration until it is withdrawn:
// its members are configured, so there is no JOIN, no lease and no LEAVE, and its clients are never told
// anything. Job ids, names and the slot allocator are those of native jobs.
//
//   declared (no room: `reason`) -> forming (the cores do not know the row yet) -> running -> gone
//
// A session takes slot memory only while no native job waits for some, and all that it asks for: it neither
// gives to jobs of higher priority nor has them called back for it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/job_table.h"
#include "members/job_config.h"
#include "members/life_phase.h"
#include "members/membership_status.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::members {

struct BoxState;

constexpr std::uint32_t lower_24_bits(Epoch epoch) noexcept { return raw(epoch) & 0xFF'FFFFU; }

class SessionLife {
 public:
  // The box owns this life. No other session of it has a member's addresses. It begins at once, if it can.
  SessionLife(BoxState& box, JobId id, SessionConfig config);

  // Unless it is admitted: takes its slot memory, if there is room and no native job waits for some.
  void try_to_begin(TimeNs now);
  // What follows is as NativeLife's.
  bool in_force(std::uint64_t version, TimeNs now);
  void restart(TimeNs now);
  [[nodiscard]] Result<void> resize(std::uint32_t window, TimeNs now);  // fails: it has no window
  void withdraw(std::string_view reason);                               // nobody is told

  [[nodiscard]] JobStatus status(TimeNs now) const;
  [[nodiscard]] const SessionConfig& config() const noexcept { return config_; }
  [[nodiscard]] std::string nobody_joins_text() const;         // for a JOIN that names it
  [[nodiscard]] bool alive() const noexcept { return false; }  // nobody has to go on with it
  [[nodiscard]] TimeNs deadline() const noexcept { return kNever; }
  [[nodiscard]] EpochsInUse epochs() const noexcept { return {epoch_}; }
  [[nodiscard]] bool resembles(Epoch epoch) const noexcept {
    return lower_24_bits(epoch_) == lower_24_bits(epoch);
  }

 private:
  void publish_row();
  [[nodiscard]] jobs::FreedLines freed_lines() const;

  BoxState& box_;
  JobId id_;
  SessionConfig config_;
  Epoch epoch_{};                  // 0: not admitted
  jobs::LineRange slots_{};        // of every core; only the home core uses its own
  std::uint64_t row_version_ = 0;  // publication that carries the row
  LifePhase phase_{};
  TimeNs running_since_ = 0;
  SessionLacks lacks_ = SessionLacks::kNothing;
  std::string reason_{};  // why it is not admitted
};

}  // namespace tally::members
