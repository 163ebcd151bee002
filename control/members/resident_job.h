#pragma once
// What a native job is on a box, be the box its home (native_life.h) or another one of its plan (guest_life.h):
// configuration, places, the epoch, slot memory and quota. Here is what both do alike (places.cc;
// of slot memory room.cc); what an event means for the job is their own.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "auth/auth.h"
#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "jobs/plan_part.h"
#include "members/control_packet.h"
#include "members/job_config.h"
#include "members/life_phase.h"
#include "members/membership_status.h"
#include "members/plan_source.h"
#include "members/texts.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

struct BoxState;
struct ParentTerm;

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
  std::uint64_t features = 0;  // that it understands
  Chunk next{};
  Chunk lowest{};               // as its newest JOIN said
  GenerationRecord reported{};  // in the JOIN that formed this epoch
  jobs::Binding binding{};
  TimeNs last_seen = 0;
  std::uint64_t answer_at = 0;  // publication that must be in force before JOINED(running) leaves; 0 = none
  bool told = false;            // at a box that is not the home: JOINED(running) left for its newest ENLIST

  void heard(TimeNs at) noexcept { last_seen = std::max(last_seen, at); }
  // Whether this request, or a later one of its process, was taken before. Attempts count up from any start and
  // may wrap.
  [[nodiscard]] bool had(const Request& request) const noexcept {
    const auto newest =
        request.instance == instance ? std::optional(attempt) : former.attempt_of(request.instance);
    return newest && static_cast<std::int32_t>(request.attempt - *newest) <= 0;
  }
  void note(const Request& request, TimeNs now) noexcept {
    if (request.instance != instance) {
      if (instance != 0) former.add(instance, attempt);
      counter = 0;
    }
    instance = request.instance;
    attempt = request.attempt;
    nonce = request.nonce;
    heard(now);
  }
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
  bool sparse = false;  // rows and runs of zeros may be used
  Ipv6 group{};
  // Adopted from JOINs alone, which may be old copies: nothing is INCOMPLETE before all workers are
  // confirmed.
  bool held = false;
  // Of a job over several boxes; nullptr: it has none.
  std::shared_ptr<const NamedPlan> plan{};
  std::shared_ptr<const jobs::PlanPart> part{};  // of it this box's
  std::optional<BoxIndex> guest{};               // which of the plan's boxes this is, that is not the home
  std::shared_ptr<const ParentTerm> parent{};    // of a rack's box: what its parent told of the epoch

  [[nodiscard]] Generation generation() const noexcept { return Generation{record.generation.host()}; }
  void take_plan(std::shared_ptr<const NamedPlan> taken, BoxIndex own) {
    part = std::make_shared<const jobs::PlanPart>(jobs::part_of(taken->plan, own));
    plan = std::move(taken);
  }
  // Between this box and the process of that instance.
  [[nodiscard]] auth::Key session_key(Rank rank, std::uint64_t instance) const noexcept {
    const auth::Key session =
        auth::session_key(key, generation(), epoch, result, contribution.at(place_of(rank)), instance, rank);
    return guest ? auth::box_session_key(session, *guest) : session;
  }
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

// In the box's list of lives; never deleted through this.
class ResidentJob {
 public:
  ResidentJob(const ResidentJob&) = delete;
  ResidentJob& operator=(const ResidentJob&) = delete;

  // What happens to it. from_member(), disagree(), give_up() and change() end leases first: who is silent for too
  // long is dead, also where nobody ticked. Each packet is counted as accepted or under one drop reason.

  // HEARTBEAT, LEAVE, ABORT and LOST.
  virtual void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) = 0;
  // PLAN, whose tag is right.
  virtual void from_planned(const PlanPacket& packet, const jobs::Binding& source, TimeNs now) = 0;
  // The members of this epoch cannot agree.
  virtual void disagree(Epoch epoch, std::string_view text, TimeNs now) = 0;
  // As MembershipEngine::abort says.
  [[nodiscard]] virtual Result<void> give_up(std::string_view said, TimeNs now) = 0;
  // As MembershipEngine::change and replan say.
  [[nodiscard]] virtual Result<void> change(const NativeConfig& wanted, TimeNs now) = 0;
  [[nodiscard]] virtual Result<void> replan(TimeNs now, std::uint64_t take_back) = 0;
  // As MembershipEngine::hear_of_home says.
  virtual void hear_of_home(const HomeNews& news) = 0;
  // Another box is the home: of the two, this one is neither.
  void follow(BoxIndex home);
  // This box is the home, or no longer: who is in it is told so, and it holds nothing any more.
  virtual void hand_over() = 0;
  // Ends leases.
  virtual void tick(TimeNs now) = 0;
  // If it waits(): perhaps there is room now.
  virtual void try_to_begin(TimeNs now) = 0;
  // Another cap in the shared region.
  void give_cap(std::uint32_t cap);

  // What others may ask.

  // All that slot memory is wanted for is there, but for the memory.
  [[nodiscard]] virtual bool waits() const noexcept = 0;
  // Why all who came wait for a home with more room; empty: they do not.
  [[nodiscard]] virtual std::string no_room() const { return {}; }
  // As BoxesJob says.
  [[nodiscard]] virtual HomeNeeds needs() const noexcept { return {}; }
  // As MembershipEngine::objection_to_home says.
  [[nodiscard]] virtual std::string objection_to_home(const HomeNeeds& needs) const;
  // The members of a living generation are called back.
  [[nodiscard]] virtual bool reforming() const noexcept = 0;
  [[nodiscard]] JobId id() const noexcept { return id_; }
  [[nodiscard]] const NativeConfig& config() const noexcept { return config_; }
  [[nodiscard]] const auth::Key& key() const noexcept { return key_; }
  [[nodiscard]] JobPhase phase() const noexcept { return phase_; }
  // What people call its ranks.
  [[nodiscard]] RankNames names() const noexcept {
    if (!config_.racks) return {};
    return config_.ranks_are_racks() ? RankNames{.word = "rack"}
                                     : RankNames{.first = config_.racks->first_of(*config_.racks->rack)};
  }
  [[nodiscard]] bool active() const noexcept {
    return phase_ == JobPhase::kRunning || phase_ == JobPhase::kDraining;
  }
  [[nodiscard]] jobs::LineRange slots() const noexcept { return slots_; }
  [[nodiscard]] std::uint16_t slot_elements() const noexcept { return slot_elements_; }
  [[nodiscard]] const SharedQuota& quota() const noexcept { return quota_; }
  // Lines of its own that the job needs for such a window.
  [[nodiscard]] std::uint32_t lines_for(const Wish& wish, std::uint32_t window) const noexcept;
  // What waits until nobody is in the job.
  [[nodiscard]] const std::optional<NativeConfig>& deferred() const noexcept { return deferred_; }
  void defer(std::optional<NativeConfig> wanted) { deferred_ = std::move(wanted); }

 protected:
  ResidentJob(BoxState& box, JobId id, NativeConfig config);
  ~ResidentJob() = default;

  [[nodiscard]] MemberState& member(Rank r) { return members_.at(place_of(r)); }
  [[nodiscard]] const MemberState& member(Rank r) const { return members_.at(place_of(r)); }
  [[nodiscard]] std::span<const MemberState> workers() const noexcept {
    return std::span(members_).first(config_.workers);
  }
  [[nodiscard]] bool has_rank(Rank r) const noexcept {
    return raw(r) < config_.workers || server_index(r) < config_.external_servers();
  }
  // config().boxes: there are.
  [[nodiscard]] const Ipv6& own_address() const { return config_.boxes->addresses[config_.boxes->here]; }
  // Where nobody is in the job any more, what was deferred takes effect.
  void enter(JobPhase phase);
  void adopt(NativeConfig config);
  void touch();

  // Bitmaps are of workers, where nothing else is said.
  [[nodiscard]] std::uint64_t everyone() const noexcept { return members_of(config_.workers); }
  [[nodiscard]] std::uint64_t joined() const noexcept;
  // By index the servers that have not joined.
  [[nodiscard]] std::uint32_t missing_servers() const noexcept;
  // Neither a worker nor a server has a place.
  [[nodiscard]] bool deserted() const noexcept;
  // When control, or a data core, last had a valid packet of it.
  [[nodiscard]] TimeNs heard_at(Rank rank) const noexcept;
  // When its silence for so long ends its lease. Time in which nobody listened counts for nothing up to one
  // more lease; by then a worker that had no echo has closed by itself, and a box that is always late must
  // notice the dead all the same.
  [[nodiscard]] TimeNs silence_end(Rank rank, TimeNs lease) const noexcept;
  // "rank 1 at 10.0.0.1 was silent for 10.0 s (lease 10.0 s)"
  [[nodiscard]] std::string silence_text(const std::vector<Rank>& silent, TimeNs lease, TimeNs now) const;

  // Whether the process of that instance, whose session key it is, said it. A HEARTBEAT bears the job's key,
  // that a box which has lost the session can prove it, too: who cannot be proven gets no tag to try tokens
  // on.
  [[nodiscard]] static bool said_by(const Term& term, std::uint64_t instance, const auth::Key& session,
                                    const ControlPacket& packet) noexcept;
  // Of the process that holds the rank, in the present term.
  [[nodiscard]] auth::Key session_key(Rank r) const noexcept {
    return term_.session_key(r, member(r).instance);
  }
  // A member of the present term by its secrets, binding, tag and counter; else why not.
  [[nodiscard]] std::optional<MembershipDrop> objection_to(const ControlPacket& packet,
                                                           const jobs::Binding& source) const;
  // The term ends, and is kept for members who have not heard.
  void remember(bool aborted, std::string_view text);
  // Of a member of the term that ended last; false: of nobody who is to be told.
  [[nodiscard]] bool answer_gone(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  // Tells one member of the living term to come anew.
  void call_back(Rank rank);

  [[nodiscard]] JoinedPayload joined_part(std::uint64_t nonce, JoinStatus status) const;
  // What JOINED says with kFlagRacks, to a worker of this rack or to that rack: in the text the first rank to ask.
  [[nodiscard]] std::string racks_text(Rank to, std::uint8_t most_advanced) const;
  // `awaited`: of the home the workers whose JOIN forming waits for; 0 also while it waits for servers only.
  void answer_forming(std::uint64_t nonce, std::uint64_t awaited, const jobs::Binding& to);
  // Who joins hears which box to ask.
  void answer_elsewhere(std::uint64_t nonce, BoxIndex box, const jobs::Binding& to);
  void refuse_held(const Request& request, const jobs::Binding& source, TimeNs now);
  // The row of a term with the members' present bindings, but for what only one of the lives knows.
  [[nodiscard]] std::shared_ptr<jobs::NativeJob> row_of(const Term& term) const;
  std::uint64_t publish(std::shared_ptr<const jobs::NativeJob> row);  // the version that carries it
  // What every life says of itself.
  [[nodiscard]] JobStatus common_status(const Term& term) const;
  [[nodiscard]] BoxesStatus boxes_status(const Term& term) const;

  // room.cc

  // Holds the lines of the job's own for the largest power of two <= wish.window that fits, and its quota of
  // the shared slots; returns the window, or why there is none, with the numbers.
  [[nodiscard]] tl::expected<std::uint32_t, std::string> admit(const Wish& wish);
  [[nodiscard]] std::string objection(const Wish& wish) const;
  // Why admit(wish) would fail, also when pools of lower priority had given; empty: it would not.
  [[nodiscard]] std::string objection_to_room(const Wish& wish) const;
  // More would be reserved than there is.
  [[nodiscard]] std::string objection_to_quota(const NativeConfig& config) const;
  [[nodiscard]] std::uint32_t hold_lines(const Wish& wish);
  [[nodiscard]] std::string no_room_text(const Wish& wish) const;
  void hold(const SharedQuota& quota);
  void hold_quota();  // as configured
  void release_slots();

  BoxState& box_;
  JobId id_;
  NativeConfig config_;
  std::optional<NativeConfig> deferred_{};  // wanted, but for what must wait until nobody is in the job
  auth::Key key_{};
  std::vector<Rank> ranks_{};  // all: the workers, then the external servers
  LifePhase phase_{};
  std::array<MemberState, kMaxPlaces> members_{};
  Term term_{};  // told to the members
  GoneTerm gone_{};
  jobs::LineRange slots_{};          // of its own
  std::uint16_t slot_elements_ = 0;  // layout of `slots_`; 0: a ledger
  SharedQuota quota_{};
  TimeNs running_since_ = 0;
  std::string reason_{};
};

}  // namespace tally::members
