#pragma once
// The life of a native job where it is joined: who has a place, which epoch it lives in, which slot memory it
// holds. Its state is private. What happens to it are the events; what follows they send, publish and count
// through the box.
// The phases, and what leads from one to another, are the table of life_phase.h.
//
// By concern: joining.cc takes JOINs, offer.cc begins an epoch, ending.cc ends it or calls its members back,
// racked.cc speaks for a rack to the parent of its job, room.cc has the slot memory, changing.cc takes another configuration, native_life.cc has what others may ask.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/binding.h"
#include "members/control_packet.h"
#include "members/job_config.h"
#include "members/rack_seat.h"
#include "members/resident_job.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

class NativeLife final : public ResidentJob {
 public:
  // The box owns this life.
  NativeLife(BoxState& box, JobId id, NativeConfig config);

  // join() and resize() end leases first, as what ResidentJob says of.

  // A JOIN whose job, token, world and rank are right.
  void join(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  // One that gives up, with the right tag.
  void give_up(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) override;
  // Of a rack's box: its parent is at that address, and waits for, or is to take, such a packet.
  [[nodiscard]] bool awaits(const engine::Datagram& datagram, const Ipv6& from) const noexcept;
  void from_parent(const engine::Datagram& datagram, const jobs::Binding& source, TimeNs now);
  // Its members are told of the plan, page by page.
  void from_planned(const PlanPacket& packet, const jobs::Binding& source, TimeNs now) override;
  void disagree(Epoch epoch, std::string_view text, TimeNs now) override;
  [[nodiscard]] Result<void> give_up(std::string_view said, TimeNs now) override;
  void tick(TimeNs now) override;
  // When tick() has something to do, or earlier, as data cores may have seen members since; kNever if never.
  // Always later than the last tick().
  [[nodiscard]] TimeNs deadline() const noexcept;
  // The cores use publication `version`: an offer it carries becomes the term, and the members who wait for
  // it are told. False: something waits for a later one.
  bool in_force(std::uint64_t version, TimeNs now);
  // The data plane lost its slots.
  void restart(TimeNs now);
  // As MembershipEngine::resize says.
  [[nodiscard]] Result<void> resize(std::uint32_t window, TimeNs now);
  [[nodiscard]] Result<void> change(const NativeConfig& wanted, TimeNs now) override;
  [[nodiscard]] Result<void> replan(TimeNs now, std::uint64_t take_back) override;
  void hear_of_home(const HomeNews& news) override { sure_until_ = news.sure_until; }
  void hand_over() override;
  [[nodiscard]] std::string nobody_joins_text() const { return {}; }  // its workers do
  // Tells the members and holds nothing any more.
  void withdraw(std::string_view reason);

  // Events of slot memory (room.h).

  void try_to_begin(TimeNs now) override;
  // A pool of lower priority goes on with this window, for the job of that name.
  void give(std::uint32_t window, const std::string& taker, TimeNs now);
  // A pool that was shrunk goes on with room_to_grow().
  void grow(TimeNs now);

  // What others may ask.

  [[nodiscard]] JobStatus status(TimeNs now) const;
  [[nodiscard]] bool reforming() const noexcept override {
    return phase_ == JobPhase::kForming && term_.epoch != Epoch{};
  }
  // A generation is alive.
  [[nodiscard]] bool alive() const noexcept { return active() || reforming(); }
  [[nodiscard]] bool offered() const noexcept { return offer_.epoch != Epoch{}; }
  // Every rank is there, and there is no offer: only slot memory is missing.
  [[nodiscard]] bool waits() const noexcept override {
    return phase_ == JobPhase::kForming && complete() && !offered() && parent_answered();
  }
  [[nodiscard]] std::string no_room() const override {
    return waits() && lacks_ ? objection_to_room(*lacks_) : std::string();
  }
  [[nodiscard]] HomeNeeds needs() const noexcept override;
  [[nodiscard]] std::string objection_to_home(const HomeNeeds& needs) const override;
  // It lives in one, is about to, or last did.
  [[nodiscard]] EpochsInUse epochs() const noexcept { return {term_.epoch, offer_.epoch, gone_.term.epoch}; }
  // Of the offer or else of the term; 0 without either.
  [[nodiscard]] std::uint32_t window() const noexcept { return newest_term().window; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  // When the term came into force.
  [[nodiscard]] TimeNs running_since() const noexcept { return running_since_; }
  // The largest window, above its present one, to which a running pool could grow now; 0: to none.
  [[nodiscard]] std::uint32_t room_to_grow() const;

 private:
  [[nodiscard]] const Term& newest_term() const noexcept { return offered() ? offer_ : term_; }
  void limit_to(std::uint32_t window);
  // Whom the data cores have seen by now knows the epoch.
  void confirm_seen();

  // Bitmaps are of workers, where nothing else is said.
  [[nodiscard]] std::uint64_t left() const noexcept;
  // Whom forming waits for: everyone who has neither joined nor left.
  [[nodiscard]] std::uint64_t missing() const noexcept { return everyone() & ~joined() & ~left(); }
  [[nodiscard]] bool complete() const noexcept { return missing() == 0 && missing_servers() == 0; }
  // Who has joined and has not left: what echoes say. A lease that has run out is an ABORT's business, and a
  // worker takes a rank that is missing in an echo for one that has left.
  [[nodiscard]] std::uint64_t present() const noexcept { return joined() & ~left(); }
  [[nodiscard]] std::uint64_t live(TimeNs now) const noexcept;
  // When the silence of a member ends its lease.
  [[nodiscard]] TimeNs lease_end(Rank rank) const noexcept;
  [[nodiscard]] TimeNs patience() const noexcept;
  // Of the members now: that of the parent too, if there is one.
  [[nodiscard]] TimeNs lease() const noexcept;

  // joining.cc
  void join_as_server(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  using ResidentJob::answer_gone;
  [[nodiscard]] bool answer_gone(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] bool answer_active(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] bool asks_others_first(const JoinRequest& join, TimeNs now);
  void join_forming(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void lose_member(Rank rank, std::string_view how);
  void take_place(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void answer_member(const JoinRequest& join, const jobs::Binding& source, TimeNs now);
  void let_wait(const JoinRequest& join, const jobs::Binding& source);
  [[nodiscard]] std::uint64_t strangers_to(const MemberState& m) const noexcept;
  void answer_running(Rank rank);
  void confirm(Rank rank);

  // offer.cc
  void make_offer(TimeNs now);
  // The first peer to QUERY: the furthest in numbers; of those the one that lacks least.
  [[nodiscard]] Rank most_advanced() const;
  void cancel_offer();
  [[nodiscard]] bool refuse_narrow_servers(std::uint16_t elements);
  [[nodiscard]] std::uint16_t negotiated_elements() const;
  [[nodiscard]] bool may_be_sparse() const;
  [[nodiscard]] std::shared_ptr<const NamedPlan> new_plan();
  void fill_group(Term& term) const;
  // And the epoch, if it has none.
  void draw_secrets(Term& term);
  [[nodiscard]] GenerationRecord new_record(std::uint32_t window, std::uint16_t elements);
  // (Re)publishes the row of a term with the members' present bindings; returns the version that carries it.
  std::uint64_t publish_row(const Term& term);

  // ending.cc
  void abort(std::string_view text, std::optional<Rank> except = {});
  void end();
  void close(JobPhase phase);
  void refuse_waiting(std::uint64_t which, std::string_view text);
  [[nodiscard]] bool watched(Rank rank) const noexcept;
  [[nodiscard]] std::vector<Rank> silent_ranks(TimeNs now) const;
  [[nodiscard]] std::uint64_t returning_ranks() const;
  void free_places(const std::vector<Rank>& which, const std::string& why);
  void tick_fresh(TimeNs now);
  void tick_draining(TimeNs now);
  void leave(const Header& h);
  void heartbeat(const Header& h, TimeNs now);
  void leave_out(std::uint64_t boxes);
  void lost(Rank rank, std::uint64_t gone, TimeNs now);
  [[nodiscard]] bool makes_no_sense(const LostPayload& lost) const;
  void call_missing();
  void begin_reforming(TimeNs now);

  // racked.cc
  [[nodiscard]] bool needs_parent() const noexcept;
  [[nodiscard]] bool parent_answered() const noexcept;
  [[nodiscard]] RackClaim claim() const;
  [[nodiscard]] Chunk newest_next() const noexcept;
  void offer_of_parent(TimeNs now);
  void refused_by_parent(const std::string& text);
  void called_by_parent(TimeNs now);
  void aborted_by_parent(const std::string& text);
  void at_same_epoch(TimeNs now);
  void tick_parent(TimeNs now);
  void say_to_parent(TimeNs now);
  void leave_parent(PacketType how, std::string_view text);
  [[nodiscard]] RacksStatus racks_status() const;

  // changing.cc
  [[nodiscard]] std::string objection_to_window(std::uint32_t window) const;
  [[nodiscard]] std::string objection_to_change(const NativeConfig& next) const;

  Term offer_{};  // forming: its row is published, nobody was told yet
  std::uint64_t offer_version_ = 0;
  std::uint32_t limit_ = kNoLimit;   // of the window, while a job of higher priority has what it gave
  std::string shrunk_for_{};         // the name of that job
  TimeNs returning_since_ = kNever;  // fresh forming: first JOIN that reported a living generation
  std::uint64_t left_out_ = 0;       // of the job's boxes: members lost them, and plans do without
  bool stand_in_ = false;            // the plan source gave none that fits
  std::optional<Wish>
      lacks_{};  // what there was no room for, when all ranks were there; of a job whose home moves
  TimeNs sure_until_ = kNever;  // as HomeNews
  struct SentOn {
    std::uint64_t instance = 0;
    TimeNs at = 0;
  };
  std::map<Rank, SentOn> sent_on_{};  // to another box, by a home that may be none any more
  BoxIndex sent_to_ = 0;              // the last of them
  std::unique_ptr<RackSeat> seat_;    // of a rack's box, since its workers were there for the first time
};

}  // namespace tally::members
