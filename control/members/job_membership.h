#pragma once
// What membership remembers of one job.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "members/job_config.h"
#include "members/life_phase.h"
#include "members/membership_status.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// A worker that waits repeats its JOIN at least once a second; three misses end its patience with us and ours
// with it, also where the lease is shorter than that.
inline constexpr TimeNs kJoinPatience = 3 * kSecond;

inline constexpr std::uint32_t kNoLimit = kMaxWindow;

// Workers and servers of a job side by side: where what is kept of a rank stands in an array of kMaxPlaces.
inline constexpr std::size_t kMaxPlaces = kMaxRanks + kMaxServers;
// rank: below kMaxRanks, or a server's with an index below kMaxServers.
constexpr std::size_t place_of(Rank rank) noexcept {
  const std::uint32_t server = server_index(rank);
  return server < kMaxServers ? kMaxRanks + server : raw(rank);
}
constexpr bool is_server(Rank rank) noexcept { return server_index(rank) < kMaxServers; }

// All ranks of a job: its workers (at least one), then its servers.
class RankRange {
 public:
  class Iterator {
   public:
    constexpr Iterator(std::uint16_t rank, std::uint16_t workers) noexcept : rank_(rank), workers_(workers) {}
    constexpr Rank operator*() const noexcept { return Rank{rank_}; }
    constexpr Iterator& operator++() noexcept {
      if (++rank_ == workers_) rank_ = kServerRankBase;
      return *this;
    }
    constexpr bool operator!=(const Iterator& other) const noexcept { return rank_ != other.rank_; }

   private:
    std::uint16_t rank_;
    std::uint16_t workers_;
  };

  constexpr RankRange(std::uint16_t workers, std::uint16_t servers) noexcept
      : workers_(workers), servers_(servers) {}
  [[nodiscard]] constexpr Iterator begin() const noexcept { return {0, workers_}; }
  [[nodiscard]] constexpr Iterator end() const noexcept {
    return {static_cast<std::uint16_t>(kServerRankBase + servers_), workers_};
  }

 private:
  std::uint16_t workers_;
  std::uint16_t servers_;
};

inline constexpr bool is_zero(const GenerationRecord& r) noexcept { return r == GenerationRecord{}; }
inline constexpr TimeNs after(TimeNs t, TimeNs d) noexcept { return t > kNever - d ? kNever : t + d; }

// Former processes of a rank, so that a replayed JOIN of one is known for what it is.
class FormerInstances {
 public:
  void add(std::uint64_t instance, std::uint32_t attempt) noexcept {
    former_[oldest_] = {instance, attempt};
    oldest_ = (oldest_ + 1) % former_.size();
  }
  // The newest attempt of a former instance; nothing if it is not remembered.
  [[nodiscard]] std::optional<std::uint32_t> attempt_of(std::uint64_t instance) const noexcept {
    std::optional<std::uint32_t> newest;
    for (const Former& f : former_) {
      if (f.instance != instance) continue;
      if (!newest || static_cast<std::int32_t>(f.attempt - *newest) > 0) newest = f.attempt;
    }
    return newest;
  }

 private:
  struct Former {
    std::uint64_t instance = 0;  // 0: none; no JOIN has it
    std::uint32_t attempt = 0;
  };
  std::array<Former, 8> former_{};
  std::size_t oldest_ = 0;
};

struct MemberState {
  bool joined = false;     // has a place in this forming or epoch
  bool left = false;       // LEAVE accepted, or silent for a lease while draining
  bool confirmed = false;  // showed that it knows the term's epoch
  bool repeated = false;   // forming: joined and repeated its JOIN, which a replayed JOIN does not
  std::uint64_t instance = 0;
  std::uint32_t attempt = 0;
  FormerInstances former{};
  std::uint64_t nonce = 0;
  std::uint16_t elements = 0;  // wish
  Chunk next{};
  Chunk lowest{};               // as its newest JOIN said
  GenerationRecord reported{};  // in the JOIN that formed this epoch
  jobs::Binding binding{};
  TimeNs last_seen = 0;
  TimeNs unheard = 0;           // of the time since then: nobody listened
  std::uint64_t answer_at = 0;  // publication that must be in force before JOINED(running) leaves; 0 = none

  void heard(TimeNs at) noexcept {
    if (at <= last_seen) return;
    last_seen = at;
    unheard = 0;
  }
};

// One epoch of a job.
struct Term {
  GenerationRecord record{};
  Epoch epoch{};  // 0: no term
  Cookie result{};
  std::uint64_t salt = 0;
  std::array<Cookie, kMaxPlaces> contribution{};
  std::uint32_t window = 0;
  Rank most_advanced{};
  Chunk base{};  // the newest number when the epoch began; renewal counts from here
  ResultsMode results = ResultsMode::kUnicast;
  Ipv6 group{};

  [[nodiscard]] Generation generation() const noexcept { return Generation{record.generation.host()}; }
};

// The last term that came to its end, kept for members who have not heard of it.
struct GoneTerm {
  Term term{};
  std::array<jobs::Binding, kMaxPlaces> bindings{};
  bool aborted = false;  // else ended by LEAVEs
  std::string text{};
};

// What an admitted job may hold of the shared slots, in entries of one core; zero before and after.
struct SharedQuota {
  std::uint32_t reserved = 0;
  std::uint32_t limit = 0;  // never exceeded
  std::uint32_t cap = 0;    // now in force: what the other jobs leave, at most the limit
};

struct JobMembership {
  JobId id{};
  JobConfig config{};
  LifePhase phase{};
  std::array<MemberState, kMaxPlaces> members{};
  Term term{};   // told to the members
  Term offer{};  // forming: its row is published, nobody was told yet
  std::uint64_t offer_version = 0;
  GoneTerm gone{};
  jobs::LineRange slots{};          // of its own
  std::uint16_t slot_elements = 0;  // layout of `slots`; 0: a ledger
  SharedQuota quota{};
  std::uint32_t limit = kNoLimit;  // of the window, while a job of higher priority has what it gave
  std::string shrunk_for{};        // the name of that job
  TimeNs running_since = 0;
  TimeNs returning_since = kNever;  // fresh forming: first JOIN that reported a living generation
  std::string reason{};

  [[nodiscard]] bool reforming() const noexcept {
    return phase == JobPhase::kForming && term.epoch != Epoch{};
  }
  [[nodiscard]] bool offered() const noexcept { return offer.epoch != Epoch{}; }
  [[nodiscard]] bool active() const noexcept {
    return phase == JobPhase::kRunning || phase == JobPhase::kDraining;
  }
  [[nodiscard]] MemberState& member(Rank r) { return members.at(place_of(r)); }
  [[nodiscard]] const MemberState& member(Rank r) const { return members.at(place_of(r)); }
  [[nodiscard]] RankRange ranks() const noexcept { return {config.workers, config.servers}; }
  [[nodiscard]] bool has_rank(Rank r) const noexcept {
    return raw(r) < config.workers || server_index(r) < config.servers;
  }

  // Bitmaps are of workers, where nothing else is said.
  [[nodiscard]] std::uint64_t everyone() const noexcept { return members_of(config.workers); }
  [[nodiscard]] std::uint64_t joined() const noexcept;
  [[nodiscard]] std::uint64_t left() const noexcept;
  // Whom forming waits for: everyone who has neither joined nor left, and by index the servers that have not
  // joined.
  [[nodiscard]] std::uint64_t missing() const noexcept { return everyone() & ~joined() & ~left(); }
  [[nodiscard]] std::uint32_t missing_servers() const noexcept;
  [[nodiscard]] bool complete() const noexcept { return missing() == 0 && missing_servers() == 0; }
  // Every rank is there, and there is no offer: only slot memory is missing.
  [[nodiscard]] bool waits() const noexcept {
    return phase == JobPhase::kForming && complete() && !offered();
  }
  // Neither a worker nor a server has a place.
  [[nodiscard]] bool deserted() const noexcept;
  // Who has joined and has not left: what echoes say. A lease that has run out is an ABORT's business, and a
  // worker takes a rank that is missing in an echo for one that has left.
  [[nodiscard]] std::uint64_t present() const noexcept { return joined() & ~left(); }
  [[nodiscard]] std::uint64_t live(TimeNs now) const noexcept;
  // When the silence of a member ends its lease. Time in which nobody listened counts for nothing up to one
  // more lease; by then a worker that had no echo has closed by itself, and a box that is always late must
  // notice the dead all the same.
  [[nodiscard]] TimeNs lease_end(const MemberState& m) const noexcept;
  [[nodiscard]] TimeNs patience() const noexcept;
};

[[nodiscard]] JobStatus status_of(const JobMembership& job, TimeNs now);

// A session: its members are configured, so nobody joins (session_life.h).
struct SessionMembership {
  JobId id{};
  SessionConfig config{};
  Epoch epoch{};                  // 0: not admitted
  jobs::LineRange slots{};        // of every core; only the home core uses its own
  std::uint64_t row_version = 0;  // publication that carries the row
  LifePhase phase{};
  TimeNs running_since = 0;
  SessionLacks lacks = SessionLacks::kNothing;
  std::string reason{};             // why it is not admitted
  std::vector<TimeNs> last_seen{};  // by rank
};

}  // namespace tally::members
