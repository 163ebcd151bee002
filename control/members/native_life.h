#pragma once
// The life of a native job: who has a place, which epoch it lives in, which slot memory it holds. Its state
// is private. What happens to it are the events; what follows they send, publish and count through the box.
// The phases, and what leads from one to another, are the table of life_phase.h.
//
// By concern: joining.cc takes JOINs, offer.cc begins an epoch, ending.cc ends it or calls its members back,
// room.cc has the slot memory, changing.cc takes another configuration, native_life.cc has what others may ask.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "members/control_packet.h"
#include "members/job_config.h"
#include "members/life_phase.h"
#include "members/membership_status.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

struct BoxState;

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
  std::uint64_t counter = 0;   // greatest of the process
  std::uint16_t elements = 0;  // wish
  Chunk next{};
  Chunk lowest{};               // as its newest JOIN said
  GenerationRecord reported{};  // in the JOIN that formed this epoch
  jobs::Binding binding{};
  TimeNs last_seen = 0;
  std::uint64_t answer_at = 0;  // publication that must be in force before JOINED(running) leaves; 0 = none

  void heard(TimeNs at) noexcept { last_seen = std::max(last_seen, at); }
};

// One epoch of a job.
struct Term {
  GenerationRecord record{};
  Epoch epoch{};    // 0: no term
  auth::Key key{};  // the job's, of the token it had then
  Cookie result{};
  std::uint64_t salt = 0;
  std::array<Cookie, kMaxPlaces> contribution{};
  std::uint32_t window = 0;
  Rank most_advanced{};
  Chunk base{};  // the newest number when the epoch began; renewal counts from here
  ResultsMode results = ResultsMode::kUnicast;
  Ipv6 group{};
  // Adopted from JOINs alone, which may be old copies: nothing is INCOMPLETE before all workers are
  // confirmed.
  bool held = false;

  [[nodiscard]] Generation generation() const noexcept { return Generation{record.generation.host()}; }
};

// The last term that came to its end, kept for members who have not heard of it.
struct GoneTerm {
  Term term{};
  std::array<jobs::Binding, kMaxPlaces> bindings{};
  std::array<std::uint64_t, kMaxPlaces> instances{};
  bool aborted = false;  // else ended by LEAVEs
  std::string text{};
};

// What an admitted job may hold of the shared slots, in entries of one core; zero before and after.
struct SharedQuota {
  std::uint32_t reserved = 0;
  std::uint32_t limit = 0;  // never exceeded
  std::uint32_t cap = 0;    // now in force: what the other jobs leave, at most the limit
};

// What a job that forms would like of slot memory.
struct Wish {
  std::uint16_t elements = 0;
  std::uint32_t window = 0;
  std::uint32_t largest_window = 0;  // of a generation that goes on; 0: the window granted will be it
  bool grows = false;  // after it was shrunk: at the upper end, so that what is free stays in one piece for
                       // the other pools that lie at the lower end since they were shrunk
  bool moves = false;  // to lower lines, also where the present ones fit exactly
};

class NativeLife {
 public:
  // The box owns this life.
  NativeLife(BoxState& box, JobId id, NativeConfig config);

  // join(), from_member(), disagree() and resize() end leases first: who is silent for too long is dead, also
  // where nobody ticked. Each packet is counted as accepted or under one drop reason.

  // A JOIN whose job, token, world and rank are right.
  void join(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  // LEAVE, HEARTBEAT and ABORT.
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  // The members of this epoch cannot agree.
  void disagree(Epoch epoch, std::string_view text, TimeNs now);
  // As MembershipEngine::abort says.
  [[nodiscard]] Result<void> give_up(std::string_view said, TimeNs now);
  // Ends leases.
  void tick(TimeNs now);
  // When tick() has something to do, or earlier, as data cores may have seen members since; kNever if never.
  // Always later than the last tick().
  [[nodiscard]] TimeNs deadline() const noexcept;
  // The cores use publication `version`: an offer it carries becomes the term, and the members who wait for
  // it are told. False: something waits for a later one.
  bool in_force(std::uint64_t version, TimeNs now);
  // The data plane lost its slots.
  void restart(TimeNs now);
  // As MembershipEngine::change and resize say.
  [[nodiscard]] Result<void> change(const NativeConfig& wanted, TimeNs now);
  [[nodiscard]] Result<void> resize(std::uint32_t window, TimeNs now);
  [[nodiscard]] std::string nobody_joins_text() const { return {}; }  // its workers do
  // Tells the members and holds nothing any more.
  void withdraw(std::string_view reason);

  // Events of slot memory (room.h).

  // If it waits(): perhaps there is room now.
  void try_to_begin(TimeNs now);
  // A pool of lower priority goes on with this window, for the job of that name.
  void give(std::uint32_t window, const std::string& taker, TimeNs now);
  // A pool that was shrunk goes on with room_to_grow().
  void grow(TimeNs now);
  // Another cap in the shared region.
  void give_cap(std::uint32_t cap);

  // What others may ask.

  [[nodiscard]] JobStatus status(TimeNs now) const;
  [[nodiscard]] JobId id() const noexcept { return id_; }
  [[nodiscard]] const NativeConfig& config() const noexcept { return config_; }
  [[nodiscard]] const auth::Key& key() const noexcept { return key_; }
  [[nodiscard]] JobPhase phase() const noexcept { return phase_; }
  [[nodiscard]] bool active() const noexcept {
    return phase_ == JobPhase::kRunning || phase_ == JobPhase::kDraining;
  }
  [[nodiscard]] bool reforming() const noexcept {
    return phase_ == JobPhase::kForming && term_.epoch != Epoch{};
  }
  // A generation is alive.
  [[nodiscard]] bool alive() const noexcept { return active() || reforming(); }
  [[nodiscard]] bool offered() const noexcept { return offer_.epoch != Epoch{}; }
  // Every rank is there, and there is no offer: only slot memory is missing.
  [[nodiscard]] bool waits() const noexcept {
    return phase_ == JobPhase::kForming && complete() && !offered();
  }
  // It lives in one, is about to, or last did.
  [[nodiscard]] EpochsInUse epochs() const noexcept { return {term_.epoch, offer_.epoch, gone_.term.epoch}; }
  // Of the offer or else of the term; 0 without either.
  [[nodiscard]] std::uint32_t window() const noexcept { return newest_term().window; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] jobs::LineRange slots() const noexcept { return slots_; }
  [[nodiscard]] std::uint16_t slot_elements() const noexcept { return slot_elements_; }
  [[nodiscard]] const SharedQuota& quota() const noexcept { return quota_; }
  // When the term came into force.
  [[nodiscard]] TimeNs running_since() const noexcept { return running_since_; }
  // The largest window, above its present one, to which a running pool could grow now; 0: to none.
  [[nodiscard]] std::uint32_t room_to_grow() const;
  // Lines of its own that the job needs for such a window.
  [[nodiscard]] std::uint32_t lines_for(const Wish& wish, std::uint32_t window) const noexcept;

 private:
  [[nodiscard]] MemberState& member(Rank r) { return members_.at(place_of(r)); }
  [[nodiscard]] const MemberState& member(Rank r) const { return members_.at(place_of(r)); }
  [[nodiscard]] std::span<const MemberState> workers() const noexcept {
    return std::span(members_).first(config_.workers);
  }
  [[nodiscard]] bool has_rank(Rank r) const noexcept {
    return raw(r) < config_.workers || server_index(r) < config_.external_servers();
  }
  // Of the process that holds the rank, in the present term.
  // Whether the process of that instance, whose session key it is, said it. A HEARTBEAT bears the job's key,
  // that a box which has lost the session can prove it, too: who cannot be proven gets no tag to try tokens
  // on.
  [[nodiscard]] static bool said_by(const Term& term, std::uint64_t instance, const auth::Key& session,
                                    const ControlPacket& packet) noexcept;
  [[nodiscard]] auth::Key session_key(Rank r) const noexcept {
    return session_key_of(term_, r, member(r).instance);
  }
  [[nodiscard]] auth::Key session_key_of(const Term& term, Rank r, std::uint64_t instance) const noexcept {
    return auth::session_key(term.key, term.generation(), term.epoch, term.result,
                             term.contribution.at(place_of(r)), instance, r);
  }
  [[nodiscard]] const Term& newest_term() const noexcept { return offered() ? offer_ : term_; }
  // Where nobody is in the job any more, what was deferred takes effect.
  void enter(JobPhase phase);
  void adopt(NativeConfig config);
  void limit_to(std::uint32_t window);
  // Whom the data cores have seen by now knows the epoch.
  void confirm_seen();
  void touch();

  // Bitmaps are of workers, where nothing else is said.
  [[nodiscard]] std::uint64_t everyone() const noexcept { return members_of(config_.workers); }
  [[nodiscard]] std::uint64_t joined() const noexcept;
  [[nodiscard]] std::uint64_t left() const noexcept;
  // Whom forming waits for: everyone who has neither joined nor left, and by index the servers that have not
  // joined.
  [[nodiscard]] std::uint64_t missing() const noexcept { return everyone() & ~joined() & ~left(); }
  [[nodiscard]] std::uint32_t missing_servers() const noexcept;
  [[nodiscard]] bool complete() const noexcept { return missing() == 0 && missing_servers() == 0; }
  // Neither a worker nor a server has a place.
  [[nodiscard]] bool deserted() const noexcept;
  // Who has joined and has not left: what echoes say. A lease that has run out is an ABORT's business, and a
  // worker takes a rank that is missing in an echo for one that has left.
  [[nodiscard]] std::uint64_t present() const noexcept { return joined() & ~left(); }
  [[nodiscard]] std::uint64_t live(TimeNs now) const noexcept;
  // When control, or a data core, last had a valid packet of it.
  [[nodiscard]] TimeNs heard_at(Rank rank) const noexcept;
  // When the silence of a member ends its lease. Time in which nobody listened counts for nothing up to one
  // more lease; by then a worker that had no echo has closed by itself, and a box that is always late must
  // notice the dead all the same.
  [[nodiscard]] TimeNs lease_end(Rank rank) const noexcept;
  [[nodiscard]] TimeNs patience() const noexcept;

  // joining.cc
  void join_as_server(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] bool answer_gone(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] bool answer_active(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void join_forming(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void lose_member(Rank rank);
  void take_place(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void answer_member(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void let_wait(const JoinRequest& join, const jobs::Binding& source);
  void refuse_held(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] JoinedPayload joined_part(std::uint64_t nonce, JoinStatus status) const;
  void answer_forming(std::uint64_t nonce, std::uint64_t awaited, const jobs::Binding& to);
  [[nodiscard]] std::uint64_t strangers_to(const MemberState& m) const noexcept;
  void answer_running(Rank rank);
  void confirm(Rank rank);

  // offer.cc
  void make_offer(TimeNs now);
  void cancel_offer();
  [[nodiscard]] bool refuse_narrow_servers(std::uint16_t elements);
  [[nodiscard]] std::uint16_t negotiated_elements() const;
  void fill_group(Term& term) const;
  void draw_secrets(Term& term);
  [[nodiscard]] GenerationRecord new_record(std::uint32_t window, std::uint16_t elements);
  // (Re)publishes the row of a term with the members' present bindings; returns the version that carries it.
  std::uint64_t publish_row(const Term& term);

  // ending.cc
  void abort(std::string_view text, std::optional<Rank> except = {});
  void end();
  void close(JobPhase phase);
  void remember(bool aborted, std::string_view text);
  void refuse_waiting(std::uint64_t which, std::string_view text);
  [[nodiscard]] bool watched(Rank rank) const noexcept;
  [[nodiscard]] std::vector<Rank> silent_ranks(TimeNs now) const;
  [[nodiscard]] std::string silence_text(const std::vector<Rank>& silent, TimeNs now) const;
  [[nodiscard]] std::uint64_t returning_ranks() const;
  void tick_fresh(TimeNs now);
  void tick_draining(TimeNs now);
  [[nodiscard]] bool answer_gone(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  // A member of the present term by its secrets, binding, tag and counter; else why not.
  [[nodiscard]] std::optional<MembershipDrop> objection_to(const ControlPacket& packet,
                                                           const jobs::Binding& source) const;
  void leave(const Header& h);
  void heartbeat(const Header& h, TimeNs now);
  void call_back(Rank rank);
  void call_missing();
  void begin_reforming(TimeNs now);

  // changing.cc
  [[nodiscard]] std::string objection_to_window(std::uint32_t window) const;
  [[nodiscard]] std::string objection_to_change(const NativeConfig& next) const;

  // room.cc
  [[nodiscard]] tl::expected<std::uint32_t, std::string> admit(const Wish& wish);
  [[nodiscard]] std::string objection(const Wish& wish) const;
  // More would be reserved than there is.
  [[nodiscard]] std::string objection_to_quota(const NativeConfig& config) const;
  [[nodiscard]] std::uint32_t hold_lines(const Wish& wish);
  [[nodiscard]] std::string no_room_text(const Wish& wish) const;
  void hold(const SharedQuota& quota);
  void release_slots();

  BoxState& box_;
  JobId id_;
  NativeConfig config_;
  std::optional<NativeConfig> deferred_{};  // wanted, but for what must wait until nobody is in the job
  auth::Key key_{};
  std::vector<Rank> ranks_{};  // all: the workers, then the external servers
  LifePhase phase_{};
  std::array<MemberState, kMaxPlaces> members_{};
  Term term_{};   // told to the members
  Term offer_{};  // forming: its row is published, nobody was told yet
  std::uint64_t offer_version_ = 0;
  GoneTerm gone_{};
  jobs::LineRange slots_{};          // of its own
  std::uint16_t slot_elements_ = 0;  // layout of `slots_`; 0: a ledger
  SharedQuota quota_{};
  std::uint32_t limit_ = kNoLimit;  // of the window, while a job of higher priority has what it gave
  std::string shrunk_for_{};        // the name of that job
  TimeNs running_since_ = 0;
  TimeNs returning_since_ = kNever;  // fresh forming: first JOIN that reported a living generation
  std::string reason_{};
};

}  // namespace tally::members
