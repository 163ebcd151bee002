#pragma once
// The place of a rack's box in the job of its parent (docs/protocol_racks.md, 18.2): JOIN until the parent says running,
// HEARTBEAT from then on, and at the end LEAVE or ABORT, as a worker does. What is said again and which secrets it bears
// is the worker's, too (engine/conversation.h). What is not: the box claims what its workers brought and not what it was
// told, it may ask the parent again while they go on, and they are told nothing before the parent has shown, by an
// echo, that it knows that the box is in the epoch: so an epoch that the parent takes for unknown to this rack is one that
// no worker of it was ever told of.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "engine/conversation.h"
#include "jobs/binding.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// What JOINED(running) of the parent said.
struct ParentTerm {
  JobId job{};  // there
  Epoch epoch{};
  Cookie cookie{};  // contribution cookie of the rack
  Cookie result{};
  GenerationRecord record{};
  std::uint32_t window = 0;
  std::uint8_t shards = 1;
  std::uint8_t most_advanced = 0;  // rack
  TimeNs lease = 0;
  jobs::Binding binding{};  // where it said so from
  auth::Key session{};

  [[nodiscard]] Generation generation() const noexcept { return Generation{record.generation.host()}; }
  [[nodiscard]] TimeNs heartbeat_period() const noexcept { return std::min(lease / 10, kSecond); }
  bool operator==(const ParentTerm&) const = default;
};

// What the workers of the rack bring, all of whom are there.
struct RackClaim {
  std::uint64_t instance = 0;  // of all of them together
  std::uint16_t elements = 0;  // the least wish
  Chunk lowest{};              // the oldest
  Chunk next{};                // the newest
  GenerationRecord last{};     // of all; zero where they differ

  // An answer to the one is an answer to the other.
  [[nodiscard]] bool same(const RackClaim& other) const noexcept {
    return instance == other.instance && elements == other.elements && last == other.last;
  }
};

// What a packet of the parent means for the job.
struct ParentNews {
  enum class Kind : std::uint8_t {
    kNone,
    kRefused,  // `text`. It is asked no more
    kOffered,  // another epoch, entered; workers that are in one must come back. The parent is to confirm it
    kConfirmed,  // by its first echo
    kSame,       // term() is the one there was; its binding may be another
    kCalled,     // for a new epoch
    kAborted,    // the job ended: `text`
  };
  Kind kind = Kind::kNone;
  std::string text;  // printable
};

// What the box says to its parent: complete but for checks and tag.
struct ToParent {
  Header header{};
  std::vector<std::byte> body{};
  auth::Key key{};
  jobs::Binding to{};
  bool everywhere = false;  // as in Outgoing
};

class RackSeat {
 public:
  // config: of a job that has a parent. seed: unguessable. calendar: MembershipOptions::calendar.
  RackSeat(const NativeConfig& config, std::uint64_t seed, std::uint64_t calendar);

  // Of the parent that is configured, under that token.
  [[nodiscard]] bool serves(const NativeConfig& config) const noexcept;

  // Is this, from the parent's address, for the seat at all?
  [[nodiscard]] bool awaits(const engine::Datagram& datagram) const noexcept;
  // Control of the parent; else why it was not obeyed.
  [[nodiscard]] std::optional<MembershipDrop> receive(const engine::Datagram& datagram,
                                                      const jobs::Binding& source, TimeNs now,
                                                      ParentNews& news);

  // Joins with this claim; who asks already goes on. Out of an epoch of other workers it goes by ABORT.
  void ask(const RackClaim& claim, TimeNs now);
  // The epoch that the parent told is an answer to this claim, and no worker was told it yet.
  [[nodiscard]] bool answers(const RackClaim& claim) const noexcept {
    return state_ == State::kMember && !used_ && claim_.same(claim);
  }
  [[nodiscard]] bool confirmed() const noexcept { return confirmed_; }
  // Its workers are told the epoch: that is what they bring from now on.
  void use() noexcept;
  // They are called back: the next claim needs an answer of its own. HEARTBEATs go on until then. Not from an epoch that
  // they were not told yet: what they come back with is what it answers.
  void recall() noexcept {
    if (used_ && has_epoch()) state_ = State::kRecalled;
  }
  // Out of the job, by LEAVE or by ABORT with that text. Without an epoch there is nobody to tell.
  void depart(PacketType how, std::string_view text);
  // What is due, one datagram after the other; LEAVE and ABORT at once. next: the newest of its workers.
  [[nodiscard]] std::optional<ToParent> say(Chunk next, TimeNs now);
  // When say() has something.
  [[nodiscard]] TimeNs due() const noexcept;

  // In a job, or about to be.
  [[nodiscard]] bool waits_for_parent() const noexcept { return state_ != State::kIdle; }
  // And in an epoch, which its workers may not know yet.
  [[nodiscard]] bool has_epoch() const noexcept {
    return state_ == State::kMember || state_ == State::kDoubting;
  }
  // When the parent counts as gone, if it waits for it; else kNever.
  [[nodiscard]] TimeNs silent_at() const noexcept;
  [[nodiscard]] TimeNs heard_at() const noexcept { return heard_; }
  // Only with an epoch.
  [[nodiscard]] const ParentTerm& term() const noexcept { return *term_; }
  [[nodiscard]] ParentState state() const noexcept;
  [[nodiscard]] std::uint64_t missing_racks() const noexcept {
    return asks() ? missing_ : 0;
  }
  // The newest refusal that only who knows the token could prove, and which was not; printable.
  [[nodiscard]] const std::string& told() const noexcept { return told_; }

 private:
  static constexpr std::uint32_t kFarewells = 5;
  // Of the calendar: rarer than JOINs of a box that waits, and half of their range is four years.
  static constexpr TimeNs kAttemptUnit = 64 * kMillisecond;
  static constexpr std::uint32_t kUnanswered = 3;       // JOINs, after which it is looked for everywhere
  static constexpr TimeNs kBeforeFirst = 10 * kSecond;  // silence, before a lease is known

  enum class State : std::uint8_t {
    kIdle,
    kAsking,    // JOIN
    kMember,    // HEARTBEAT
    kDoubting,  // JOIN out of the epoch that it has, which goes on
    kRecalled,  // HEARTBEAT, while its workers come back
  };

  [[nodiscard]] bool asks() const noexcept { return state_ == State::kAsking || state_ == State::kDoubting; }
  [[nodiscard]] std::optional<MembershipDrop> on_joined(const engine::Datagram& datagram,
                                                        const jobs::Binding& source, TimeNs now,
                                                        ParentNews& news);
  [[nodiscard]] std::optional<MembershipDrop> on_running(const engine::Datagram& datagram,
                                                         const jobs::Binding& source, TimeNs now,
                                                         ParentNews& news);
  [[nodiscard]] std::optional<MembershipDrop> on_reject(const engine::Datagram& datagram, TimeNs now,
                                                        ParentNews& news);
  [[nodiscard]] std::optional<MembershipDrop> on_farewell(const engine::Datagram& datagram);
  [[nodiscard]] bool current(const Header& header) const noexcept;
  [[nodiscard]] bool bids_farewell(const Header& header) const noexcept;
  [[nodiscard]] TimeNs doubtful_at() const noexcept;
  [[nodiscard]] ToParent join(TimeNs now);
  [[nodiscard]] ToParent counted(PacketType type, const ParentTerm& as, Chunk next, std::string_view text);
  [[nodiscard]] ToParent addressed(Header header, std::vector<std::byte> body, const auth::Key& key) const;

  std::string name_;
  RacksConfig racks_;
  engine::Speaker speaker_;
  engine::Counters counters_;
  std::uint64_t calendar_;
  bool first_ = true;          // no JOIN was said yet
  std::uint32_t attempt_ = 0;  // never behind the calendar
  engine::Knock knock_;
  State state_ = State::kIdle;
  RackClaim claim_{};
  GenerationRecord brings_{};  // what JOIN says: the claim's, or what was told and no worker knows yet
  std::optional<ParentTerm> term_{};
  bool confirmed_ = false;
  bool used_ = false;
  Generation forsaken_{};  // that workers of this instance gave up
  std::uint64_t missing_ = 0;
  std::string told_{};
  std::optional<jobs::Binding> place_{};  // of the parent, as it answered last
  std::uint32_t unanswered_ = 0;
  TimeNs heard_ = 0;  // last answer, or when the waiting for one began
  TimeNs heartbeat_due_ = kNever;

  struct Farewell {
    PacketType type{};
    ParentTerm as{};
    std::string text{};
    engine::Backoff repeat{};
  };
  std::optional<Farewell> farewell_{};
};

}  // namespace tally::members
