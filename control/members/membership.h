#pragma once
// Membership of the native protocol (docs/protocol.md, 5) as a pure engine: datagrams, times and
// random words in; datagrams and job tables out. No socket, clock or thread; one thread at a time may call.
// Everything after construction is noexcept: out of memory ends the process, because a restart
// adopts the running generations, and half a change of membership would not heal.
//
// The caller's loop, in this order, as often as anything happens and no later than deadline():
//   1. unheard() if the loop was late (before receive and tick, which rely on it);
//   2. receive() for every punted control packet, report_mismatch() for events, tick(now);
//   3. publication(): if there is one, let every data core zero the `freed` lines and then load the table;
//      when all of them have (each passed a quiescent point), quiesced(version, now);
//   4. next() until it is empty, sending each datagram.
// A publication replaces those before it; several may be under way, and quiesced(v) covers all up to v.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

struct Reception;

class MembershipEngine {
 public:
  // random: not empty.
  MembershipEngine(const MembershipOptions& options, RandomWords random);
  MembershipEngine(MembershipEngine&&) noexcept;
  MembershipEngine& operator=(MembershipEngine&&) noexcept;
  ~MembershipEngine();

  // A job becomes known; a session runs as soon as there is slot memory for it (session_life.h). Its id stays
  // the same until withdraw(). Fails on a name already declared, kMaxJobs jobs, and a session of which a
  // member has the addresses of a member of another.
  [[nodiscard]] Result<JobId> declare(JobConfig config) noexcept;
  // The job becomes unknown: members get an ABORT (or JOINED(refused) while forming) with the reason, its row
  // is cleared and its lines are freed. Fails on an unknown name.
  [[nodiscard]] Result<void> withdraw(
      std::string_view name, std::string_view reason = "the job was withdrawn from the box") noexcept;
  // Admits nothing new from now on: sessions and jobs without a living generation are withdrawn with this
  // reason, and a JOIN for a job that is not declared is refused with it. Returns how many jobs are left; to
  // be called again when some may have ended.
  std::size_t close(std::string_view reason) noexcept;

  // A JOIN, LEAVE, HEARTBEAT, ABORT, PROBE, ENLIST, PLAN or LOST as punted by a data core: the UDP payload, from anyone. Verifies
  // everything. `source`: where it came from; answers go there.
  void receive(std::span<const std::byte> datagram, const jobs::Binding& source, TimeNs now) noexcept;

  // The next datagram to send; empty when there is none. `out` must hold kMaxMembershipBytes: a datagram that
  // does not fit is discarded.
  [[nodiscard]] std::optional<Outgoing> next(std::span<std::byte> out) noexcept;

  // The native job of this name is to be as `wanted`, which is a good configuration of the box. At once, of a
  // job that runs in a new epoch of its generation (its members are called back, and what they have begun
  // goes on): window of a pool, priority, lease, and, with the same discipline, quota and stragglers. The
  // rest (workers, token, ...; JobStatus::deferred) when nobody is in the job any more, or at once if nobody
  // is. Of its boxes nothing changes but by set_home(). Fails, and changes nothing, on other boxes, an unknown name, a session, a job that drains or is called back at the
  // moment, a window above the largest of the generation, and a quota that reserves more than is left. If
  // there is not enough memory a running job gets the largest window that fits, at least what it had.
  [[nodiscard]] Result<void> change(const NativeConfig& wanted, TimeNs now) noexcept;
  // The same with another window alone; fails also for a job that shares slots.
  [[nodiscard]] Result<void> resize(std::string_view name, std::uint32_t window, TimeNs now) noexcept;

  // What the job does at the moment ends: its members get an ABORT (or JOINED(refused) while forming) with
  // the reason, and may come back. Fails on an unknown name, a session, and a job in which nobody is.
  [[nodiscard]] Result<void> abort(std::string_view name, std::string_view reason, TimeNs now) noexcept;

  // Of a job over several boxes whose home this is (docs/protocol_boxes.md): its plan is to be asked for anew, with
  // those boxes again that members lost and of which take_back has the bit (by their place in `boxes`); a lost box comes
  // back in no other way. If it runs, in a new epoch of its
  // generation. Fails on an unknown name, a job of this box alone, one whose home is another box, and one that
  // drains.
  [[nodiscard]] Result<void> replan(std::string_view name, TimeNs now,
                                    std::uint64_t take_back = ~std::uint64_t{0}) noexcept;
  // The box of this address is the home from now on; the owner says so to all boxes of the job. If this box was it,
  // the members are called back, and hear where to go when they JOIN; if it is it now, it adopts the generation from
  // what they report, as after a restart. Fails on an unknown name, a job of this box alone, and an address that is
  // none of its boxes.
  [[nodiscard]] Result<void> set_home(std::string_view name, const Ipv6& address, TimeNs now) noexcept;

  // What the fleet says of the home of such a job; nothing of other jobs. It is forgotten with set_home().
  void hear_of_home(std::string_view name, const HomeNews& news) noexcept;

  // A job over several boxes. Empty: there is no such job.
  [[nodiscard]] std::optional<BoxesJob> boxes_job(std::string_view name) const noexcept;
  // Why this box could not be the home of such a job, if pools of lower priority gave what they can; empty: it could, or
  // there is no such job. Costs as admission does.
  [[nodiscard]] std::string objection_to_home(std::string_view name, const HomeNeeds& needs) const noexcept;

  // The session's clients are other processes than before: nothing that was begun, and no stored result, has
  // a part in what they send from now on (from when the cores have the next publication). Nothing on the wire
  // says so, and neither does time. Fails on an unknown name and on a job that is no session.
  [[nodiscard]] Result<void> reset_session(std::string_view name, TimeNs now) noexcept;

  // Of a group (groups.h) the name of its job; of any other name empty.
  [[nodiscard]] std::string group_of(std::string_view name) const noexcept;

  // Where to ask for what the data cores have seen, from now on.
  void listen(LastSeen last_seen) noexcept;

  // A core dropped a contribution of rank `a` (elements_a, total_a) because the chunk's entry, filled by the
  // ranks `others`, has elements_b, total_b: aborts the job naming both sides. Ignored for a dead epoch.
  void report_mismatch(JobId job, Epoch epoch, Rank a, std::uint64_t others, std::uint16_t elements_a,
                       std::uint16_t elements_b, std::uint32_t total_a, std::uint32_t total_b,
                       TimeNs now) noexcept;

  // Nobody called for `time` until `now`, because the caller was starved or stopped: leases are longer by
  // that (twice as long at most). Before receive() and tick(), else members are buried whose heartbeats lie
  // in a queue.
  void unheard(TimeNs time, TimeNs now) noexcept;

  // Ends leases. After tick(now), deadline() > now. Neither costs more where more jobs are declared.
  void tick(TimeNs now) noexcept;
  [[nodiscard]] TimeNs deadline() const noexcept;  // kNever: nothing to wait for

  // Divides the shared slots among the jobs that run, by what they want now (rebalance.h), and gives each its
  // cap. To be called every 10 to 100 ms while jobs share slots; jobs that are not named want nothing.
  void rebalance(std::span<const SharedDemand> demand) noexcept;

  // What the data cores must load next; empty when they have been given the newest already. The first
  // call returns the empty table.
  [[nodiscard]] std::optional<jobs::Publication> publication() noexcept;
  // Every data core uses publication `version` or a later one. Only now are the members told.
  void quiesced(std::uint64_t version, TimeNs now) noexcept;
  // The data plane lost slots and table. Every running job goes on in its generation with a new epoch; the
  // present table is published anew.
  void restart_data_plane(TimeNs now) noexcept;

  [[nodiscard]] std::vector<JobStatus> status(TimeNs now) const noexcept;  // by job id
  [[nodiscard]] std::optional<JobStatus> status(JobId job, TimeNs now) const noexcept;
  // The jobs of which status() may say something else than at the last call, but for what data cores and time
  // alone change (last_seen, live, next) and caps; also those that are gone.
  [[nodiscard]] std::set<JobId> changed() noexcept;
  [[nodiscard]] const std::set<JobId>& sharing() const noexcept;  // run or drain, and share slots
  [[nodiscard]] std::size_t running() const noexcept;             // how many
  [[nodiscard]] std::size_t declared() const noexcept;
  [[nodiscard]] const MembershipCounters& counters() const noexcept;

 private:
  std::unique_ptr<Reception> reception_;
};

}  // namespace tally::members
