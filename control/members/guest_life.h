#pragma once
// The life of a job over several boxes on a box that is not its home (docs/protocol_boxes.md, 17.3): members of an
// epoch that the home began enlist here, and bring what the home told them. What they say of it must be equal; this
// box asks nobody else, decides nothing, and forgets the epoch when nobody is enlisted any more.
//
// Its phases are those of life_phase.h: forming from the first ENLIST until the cores have the row, draining after
// the first LEAVE, ended when nobody is left; or declared again, if it came to no row.
//
// By concern: enlisting.cc takes members and begins an epoch, forgetting.cc ends it, guest_life.cc has what others may
// ask.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/binding.h"
#include "jobs/source_limiter.h"
#include "members/control_packet.h"
#include "members/groups.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "members/plan_pages.h"
#include "members/resident_job.h"
#include "tally/error.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::members {

class GuestLife final : public ResidentJob {
 public:
  // Each member that enlists may bring another epoch. Plans change once a second at most, and a box that is started
  // again begins another a few times; who makes epochs up has what is left.
  static constexpr jobs::Budget kEpochs{.per_second = 4, .burst = 8};

  // The box owns this life. config: of a job over several boxes.
  GuestLife(BoxState& box, JobId id, NativeConfig config);

  // A JOIN whose job, token, world and rank are right: it hears where the home is, or waits until there is one.
  void join(const JoinRequest& join, const jobs::Binding& source);
  // The ENLIST brings a challenge that was given to this sender a moment ago. To put another epoch in the place of
  // the present one it must have been given in the present one: so whoever was told of its epoch long ago, and is
  // late, does not bring it back.
  [[nodiscard]] bool fresh(const EnlistRequest& request, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] Epoch epoch() const noexcept { return term_.epoch; }
  // A fresh ENLIST whose job and token are right.
  void enlist(const EnlistRequest& request, const jobs::Binding& source, TimeNs now);
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) override;
  // Pages of the plan that is awaited, from who has enlisted for it.
  void from_planned(const PlanPacket& packet, const jobs::Binding& source, TimeNs now) override;
  void disagree(Epoch epoch, std::string_view text, TimeNs now) override;
  [[nodiscard]] Result<void> give_up(std::string_view said, TimeNs now) override;  // fails: the home does
  void tick(TimeNs now) override;
  [[nodiscard]] TimeNs deadline() const noexcept;
  // The cores use publication `version`: who waits for it is told. False: something waits for a later one.
  bool in_force(std::uint64_t version, TimeNs now);
  // The data plane lost its slots: all who were told hear that the epoch is forgotten.
  void restart(TimeNs now);
  [[nodiscard]] Result<void> resize(std::uint32_t window, TimeNs now);  // fails: the home does
  [[nodiscard]] Result<void> change(const NativeConfig& wanted, TimeNs now) override;
  [[nodiscard]] Result<void> replan(TimeNs now, std::uint64_t take_back) override;  // fails: the home does
  void hear_of_home(const HomeNews& news) override { nobody_is_home_ = news.nobody; }
  void hand_over() override;
  [[nodiscard]] std::string nobody_joins_text() const { return {}; }  // they hear where to
  // Members hear that the epoch is forgotten, and are refused when they enlist again: the job goes on without
  // this box.
  void withdraw(std::string_view reason);

  void try_to_begin(TimeNs now) override;

  // Everything is there but slot memory.
  [[nodiscard]] bool waits() const noexcept override {
    return phase_ == JobPhase::kForming && term_.plan != nullptr && version_ == 0;
  }
  [[nodiscard]] bool reforming() const noexcept override { return false; }
  [[nodiscard]] bool alive() const noexcept { return false; }  // its generation lives elsewhere
  [[nodiscard]] EpochsInUse epochs() const noexcept { return {term_.epoch, gone_.term.epoch, {}}; }
  [[nodiscard]] JobStatus status(TimeNs now) const;

 private:
  [[nodiscard]] TimeNs lease() const noexcept;
  [[nodiscard]] TimeNs lease_end(Rank rank) const noexcept;
  [[nodiscard]] std::string home_text() const;
  [[nodiscard]] std::optional<Objection> objection_to_enlist(const EnlistRequest& request) const;
  using ResidentJob::answer_gone;
  [[nodiscard]] bool answer_gone(const EnlistRequest& request, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] bool begin(const EnlistRequest& request);
  void take_place(const EnlistRequest& request, const jobs::Binding& source, TimeNs now);
  [[nodiscard]] std::string objection_to_plan(const NamedPlan* plan) const;
  std::uint64_t publish_row();
  // The row that says where it is, and where all servers are, is in force.
  [[nodiscard]] bool ready(Rank rank) const noexcept;
  void tell_ready(TimeNs now);
  void answer_running(Rank rank, TimeNs now);
  void vacate(MemberState& m) noexcept;
  // The rank is unknown here again.
  void lose(Rank rank);
  void refuse_waiting(std::string_view text);
  void call_back_told();
  // Of the epoch nothing is left but slot memory.
  void drop_epoch();
  void forget();

  EnlistPayload said_{};  // what all say of the epoch; zero where they differ
  PlanPages pages_{};
  std::uint64_t version_ = 0;  // publication that brought the row; 0: there is none
  Epoch former_{};             // that was here before the present one
  bool nobody_is_home_ = false;
  jobs::TokenBucket begun_{};
};

}  // namespace tally::members
