#pragma once
// All jobs of the box, and what they share.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jobs/layout.h"
#include "jobs/source_limiter.h"
#include "members/agenda.h"
#include "members/control_packet.h"
#include "members/groups.h"
#include "members/guest_life.h"
#include "members/membership_status.h"
#include "members/native_life.h"
#include "members/session_life.h"
#include "members/slot_allocator.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

// Draws what must be unguessable or unique: epochs, cookies, salts, generations (docs/protocol.md, 1).

class EpochSource {
 public:
  explicit EpochSource(RandomWords random) : random_(std::move(random)) {}

  [[nodiscard]] std::uint64_t word() { return random_(); }
  [[nodiscard]] std::uint64_t nonzero();
  [[nodiscard]] Cookie cookie() { return Cookie{nonzero()}; }
  [[nodiscard]] Generation generation() { return Generation{nonzero()}; }
  // An epoch other than 0 that `taken` denies. `taken` must deny some.
  [[nodiscard]] Epoch epoch(const std::function<bool(Epoch)>& taken);

 private:
  RandomWords random_;
};

// Datagrams that wait to be sent, and how each kind is written.

class Outbox {
 public:
  // Completes `header` (rank of the box, payload CRC, check) and queues it with the body, and the tag of
  // both under `key`; nullptr: no tag.
  void send(Header header, std::span<const std::byte> body, const auth::Key* key, const jobs::Binding& to);
  // The same under the rank that the header has; to whom `everywhere` (Outgoing).
  void post(Header header, std::span<const std::byte> body, const auth::Key* key, const jobs::Binding& to,
            bool everywhere = false);
  // A JOINED: text_bytes is filled in, the text bounded. key: the job's; nullptr: a tag of zeros.
  void send_joined(Header header, JoinedPayload fixed, std::string_view text, const auth::Key* key,
                   const jobs::Binding& to);

  // Under a session key of the term, with the next counter.

  void send_abort(JobId job, const Term& term, std::string_view text, const auth::Key& session,
                  const jobs::Binding& to);
  // A LEAVE or HEARTBEAT back to its sender, with the ranks that are live.
  void send_echo(const Header& received, const Term& term, std::uint64_t live, const auth::Key& session,
                 const jobs::Binding& to);
  // The members are called back.
  void send_reject(JobId job, const Term& term, const auth::Key& session, const jobs::Binding& to);

  [[nodiscard]] std::optional<Outgoing> next(std::span<std::byte> out);

 private:
  struct Datagram {
    jobs::Binding to;
    std::vector<std::byte> bytes;
    bool everywhere = false;
  };
  void say(Header header, const Term& term, std::string_view text, const auth::Key& session,
           const jobs::Binding& to);

  std::deque<Datagram> queue_;
  std::uint64_t counter_ = 0;  // of the box: greater than all before it in every session
};

// The job table that the data cores shall load next, and the lines they must zero before they do.

class Publisher {
 public:
  void set(JobId id, jobs::Row row);
  void clear(JobId id);  // nothing to publish if the row is empty already
  // The job's cap in the shared region: the cores see it soon, with no publication; with those of its rows
  // that are published from now on at the latest.
  void cap(JobId id, std::uint32_t entries) noexcept { (*caps_)[raw(id)] = entries; }
  void freed(const jobs::FreedLines& lines);
  // Whose control the cores listen to, whether there are rows or not.
  void parents(std::vector<Ipv6> addresses);
  void republish() noexcept { dirty_ = true; }

  // The version that will carry everything said so far. Asked after set(): the version that carries the row.
  [[nodiscard]] std::uint64_t next_version() const noexcept { return version_ + 1; }
  [[nodiscard]] std::optional<jobs::Publication> take();

 private:
  std::shared_ptr<jobs::SharedCaps> caps_ = std::make_shared<jobs::SharedCaps>();
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<const jobs::JobTable>(caps_);  // as taken
  jobs::ChangedRows changed_;  // since: a publication copies the table once
  std::optional<std::vector<Ipv6>> parents_;
  std::vector<jobs::FreedLines> freed_;
  std::uint64_t version_ = 0;
  bool dirty_ = true;  // the empty table is published too: cores always have one
};

// Lines of each core that pools and ledgers may take.
constexpr std::uint32_t own_slot_lines(const MembershipOptions& o) noexcept {
  return o.slot_lines - static_cast<std::uint32_t>(jobs::shared_lines(o.shared_entries, o.shared_elements));
}

using Life = std::variant<NativeLife, SessionLife, GuestLife>;
using LifeById = std::array<std::unique_ptr<Life>, kMaxJobs + 1>;

struct BoxState {
  BoxState(const MembershipOptions& o, RandomWords random)
      : options(o), source(std::move(random)), slots(own_slot_lines(o)) {}
  BoxState(const BoxState&) = delete;  // the lives know where it is
  BoxState& operator=(const BoxState&) = delete;

  MembershipOptions options;
  EpochSource source;
  SlotAllocator slots;         // in front of the shared region
  bool slots_changed = false;  // jobs that wait for lines are to be tried again
  TimeNs grow_at = kNever;     // when the next shrunk pool may grow
  Publisher publisher{};
  Outbox outbox{};
  jobs::SourceLimiter refusals{{.per_second = 10, .burst = 10}, source.word()};  // also REJECT
  // Answers to proven members of generations that have ended: strangers cannot use them up.
  jobs::SourceLimiter farewells{{.per_second = 10, .burst = 10}, source.word()};
  jobs::SourceLimiter probes{{.per_second = 100, .burst = 100}, source.word()};
  Groups groups{source.word()};
  MembershipCounters counters{};
  LastSeen last_seen{};  // of the data cores; empty: there are none
  UnheardTimes unheard{};
  LifeById lives{};
  std::map<std::string, JobId, std::less<>> names{};
  // What follows names the jobs that something is to be done about, so that nobody has to ask them all.
  Agenda agenda{};
  std::set<JobId> touched{};        // since the agenda was brought up to date
  std::set<JobId> changed{};        // since MembershipEngine::changed()
  std::set<JobId> forming{};        // in that phase
  std::set<JobId> running{};        // in that phase
  std::set<JobId> sharing{};        // run or drain, and share slots
  std::set<JobId> shrunk{};         // window limited
  std::set<JobId> unadmitted{};     // sessions
  std::set<JobId> awaiting{};       // a publication
  std::map<JobId, Ipv6> parents{};  // of those that have one: the boxes of racks
  std::uint64_t reserved = 0;       // shared entries of each core, for all jobs
  auth::Key secret = new_secret();  // of challenges

  [[nodiscard]] Life* find(JobId id) const noexcept {
    return raw(id) <= kMaxJobs ? lives[raw(id)].get() : nullptr;
  }
  [[nodiscard]] NativeLife* find_native(JobId id) const noexcept { return std::get_if<NativeLife>(find(id)); }
  [[nodiscard]] NativeLife* find_native(std::string_view name) const noexcept {
    const auto named = names.find(name);
    return named == names.end() ? nullptr : find_native(named->second);
  }
  // A native job, be this its home or not.
  [[nodiscard]] ResidentJob* find_resident(JobId id) const noexcept {
    if (NativeLife* const native = find_native(id); native != nullptr) return native;
    return std::get_if<GuestLife>(find(id));
  }
  [[nodiscard]] ResidentJob* find_resident(std::string_view name) const noexcept {
    const auto named = names.find(name);
    return named == names.end() ? nullptr : find_resident(named->second);
  }
  // The declared job of which `name`, that is not declared, could be a group; nullptr: there is none.
  [[nodiscard]] const NativeLife* admits(std::string_view name) const;
  // The lives of one kind, in the order of their ids.
  template <class L>
  [[nodiscard]] std::vector<std::reference_wrapper<L>> all() const {
    std::vector<std::reference_wrapper<L>> found;
    for (const auto& life : lives) {
      if (auto* const one = std::get_if<L>(life.get()); one != nullptr) found.emplace_back(*one);
    }
    return found;
  }
  // Of all cores together.
  [[nodiscard]] std::uint32_t shared_slots() const noexcept {
    return options.shared_entries * options.shards;
  }
  void count(MembershipDrop d) noexcept { ++counters.drops[static_cast<std::size_t>(d)]; }
  void accept(PacketType t) noexcept { ++counters.accepted[static_cast<std::size_t>(t)]; }
  // A job that has all its ranks and waits for slot memory; nullptr: none does.
  [[nodiscard]] const ResidentJob* awaits_slots() const noexcept;
  // An epoch that no job of the box lives in, is about to live in, or last lived in.
  [[nodiscard]] Epoch draw_epoch(JobId id);
  // Another job does.
  [[nodiscard]] bool in_use_beside(JobId id, Epoch epoch) const noexcept;
  // ... and for a session: its lower 24 bits are not all 0, and those of no other.
  [[nodiscard]] Epoch draw_session_epoch(JobId id);
  // What people see of the job, or when it must be ticked, may be another from now on.
  void touch(JobId id) { touched.insert(id); }
  // Changes `phase`, which is the job's.
  void enter(JobId id, LifePhase& phase, JobPhase to, bool shares);
  // The job is to hear when the cores use what was said to the publisher so far: that version.
  std::uint64_t await(JobId id);
  // The agenda of those that were touched.
  void settle();
  // The job is gone.
  void forget(JobId id);

  // What a JOINED says whatever its job.
  [[nodiscard]] JoinedPayload joined_part(std::uint64_t nonce, JoinStatus status) const;
  // Final: the worker gives up with this text.
  // key: the job's; nullptr: the other has not shown that it has it.
  void answer_refused(std::uint64_t nonce, std::string_view text, const auth::Key* key,
                      const jobs::Binding& to);
  // ... within the rate limit; counts `why`.
  void refuse(const Request& request, const jobs::Binding& from, TimeNs now, MembershipDrop why,
              std::string_view text);
  // A JOIN of another version, in that version; within the rate limit.
  void refuse_version(const ControlPacket& join, const jobs::Binding& from, TimeNs now);
  [[nodiscard]] auth::Key new_secret() {
    return auth::box_key(std::array{source.word(), source.word(), source.word(), source.word()});
  }
  // What a job knew of its members' JOINs is forgotten: those that came before are no longer fresh.
  void renew_secret() { secret = new_secret(); }
  // It brings a challenge that in this epoch (of a box that is not the home; else 0) was given to this sender a moment ago.
  [[nodiscard]] bool fresh(const Request& request, const jobs::Binding& from, TimeNs now,
                           Epoch in = {}) const noexcept;
  // Remembers nothing and says less than it was asked: the budget of the request at the data core is its own.
  void send_challenge(const Request& request, const jobs::Binding& from, TimeNs now, Epoch in = {});
  // Counts `why`. A HEARTBEAT under the key of a declared job, whose session is unknown here, is answered by
  // REJECT under that key, within the rate limit.
  void reject(const ControlPacket& packet, const jobs::Binding& from, TimeNs now, MembershipDrop why);

 private:
  [[nodiscard]] bool in_use(Epoch epoch) const noexcept;
  void note_parent(JobId id);
  Epoch drawn(JobId id, Epoch epoch) noexcept;

  std::array<EpochsInUse, kMaxJobs + 1> epochs_{};  // of each job, side by side: a draw looks at all
  std::array<Epoch, kMaxJobs + 1> drawn_{};         // since
};

}  // namespace tally::members
