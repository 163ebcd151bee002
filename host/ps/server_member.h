#pragma once
// The server's membership in one job: JOIN until the box says running, HEARTBEATs, and JOIN again for ever.
// A server outlives its jobs: when one was aborted or all its workers have left, it waits for the next.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/backoff.h"
#include "engine/datagram.h"
#include "engine/engine_operation.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "ps/ps_options.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::ps {

// What a datagram means for the sums of the job.
enum class MemberNews : std::uint8_t { kNone, kSameEpoch, kEpoch, kEnded };

class ServerMember {
 public:
  // job: index in options.jobs. kernels, events and statistics must outlive the member.
  ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels, PsEventLog& events,
               PsJobStatistics& statistics);

  // JOINED, REJECT, HEARTBEAT or ABORT. What is refused changes nothing.
  [[nodiscard]] std::optional<Refused> receive(const engine::Datagram& datagram, TimeNs now,
                                               MemberNews& news);
  // Job, epoch and result cookie are those of the newest epoch entered, also while joining again.
  [[nodiscard]] std::optional<Refused> check_current(const Header& header) const noexcept;
  // It waits for a JOINED with this nonce.
  [[nodiscard]] bool awaits(std::uint64_t nonce) const noexcept {
    return joining_ && nonce_ != 0 && nonce == nonce_;
  }

  // Tells control that the job cannot go on, and why; repeated until the epoch ends, a few times, during
  // which later words are not heard.
  void abort(std::string why, TimeNs now);

  void time_out(TimeNs now);
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, TimeNs now);  // 0: nothing is due
  [[nodiscard]] TimeNs deadline() const noexcept;

  // The newest epoch entered; nullopt: none, or its job has ended.
  [[nodiscard]] const std::optional<engine::Membership>& membership() const noexcept { return membership_; }
  [[nodiscard]] bool joining() const noexcept { return joining_; }
  [[nodiscard]] std::uint64_t missing() const noexcept { return missing_; }  // ranks, while forming
  [[nodiscard]] Rank rank() const noexcept { return options_.rank; }
  [[nodiscard]] const std::string& name() const noexcept { return options_.job; }

 private:
  [[nodiscard]] std::optional<Refused> on_joined(const engine::Datagram& datagram, TimeNs now,
                                                 MemberNews& news);
  [[nodiscard]] std::optional<Refused> on_running(const Header& header, const JoinedPayload& joined,
                                                  TimeNs now, MemberNews& news);
  void on_refused(const std::string& text, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_reject(const Header& header, TimeNs now);
  [[nodiscard]] std::optional<Refused> on_abort(const engine::Datagram& datagram, TimeNs now,
                                                MemberNews& news);
  void start_joining(TimeNs now);
  [[nodiscard]] std::size_t write_join(std::span<std::byte> out, TimeNs now);
  [[nodiscard]] std::size_t write_abort(std::span<std::byte> out, TimeNs now);
  [[nodiscard]] Header own_header(PacketType type) const noexcept;  // of the epoch
  void report(PsEventKind kind, std::string text) { events_.add({job_, kind, std::move(text)}); }

  engine::EngineOptions options_;
  std::size_t job_;
  const kernels::Kernels& kernels_;
  PsEventLog& events_;
  PsJobStatistics& statistics_;
  engine::EngineRandom random_;
  bool joining_ = true;
  std::optional<engine::Membership> membership_;
  GenerationRecord record_{};  // what the next JOIN says its last JOINED said
  Generation entered_{};       // the newest generation that was entered; zero: none since the last ABORT
  engine::Backoff join_;
  std::uint64_t nonce_ = 0;  // of the newest JOIN; 0: none sent since joining began
  std::uint32_t attempt_ = 0;
  std::uint64_t missing_ = 0;
  engine::Backoff abort_;
  std::string abort_text_;  // empty: nothing is being told
  std::string refusal_;     // the newest one reported, until the box says something else
  TimeNs heard_ = 0;
  TimeNs heartbeat_due_ = kNever;
};

}  // namespace tally::ps
