#include "ps/ps_engine.h"

#include <new>
#include <set>
#include <string>
#include <utility>

#include "engine/worker_join.h"
#include "jobs/job_table.h"
#include "text/text.h"

namespace tally::ps {

namespace {

constexpr TimeNs kAbsent = 100 * kMillisecond;  // so late a caller did not run

// Meant for a rank that is in no epoch yet.
bool names_nonce(PacketType type) noexcept {
  return type == PacketType::kJoined || type == PacketType::kChallenge;
}

}  // namespace

std::string objection_to(const std::vector<PsJobOptions>& jobs) {
  if (jobs.empty() || jobs.size() > kMaxJobs)
    return std::to_string(jobs.size()) + " jobs; a server needs 1.." + std::to_string(kMaxJobs);
  std::set<std::string_view> names;
  for (const PsJobOptions& job : jobs) {
    const std::string name = text::in_quotes(job.job);
    if (job.job.empty() || job.job.size() > kMaxNameBytes)
      return name + ": a job's name has 1.." + std::to_string(kMaxNameBytes) + " letters";
    if (const std::string why = text::objection_to(job.token, kMaxTokenBytes); !why.empty())
      return (name + ": its token").append(why);
    if (job.index >= kMaxServers)
      return name + ": index " + std::to_string(job.index) + " is not in 0.." +
             std::to_string(kMaxServers - 1);
    if (!names.insert(job.job).second)
      return name + " is named twice; two servers of one job are two processes, each with its own address";
  }
  return {};
}

namespace {

Result<void> validate(const PsOptions& o) {
  if (std::string why = objection_to(o.jobs); !why.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(why), "jobs");
  if (o.elements == 0 || !valid_elements(o.elements))
    return fail(ErrorCode::kInvalidArgument,
                "elements: " + std::to_string(o.elements) + " is not a multiple of 16 in 16..2224");
  const std::size_t least = jobs::entry_lines(o.elements) * sizeof(jobs::Line);
  if (o.memory < least)
    return fail(ErrorCode::kInvalidArgument, "memory: " + std::to_string(o.memory) +
                                                 " bytes hold no sum of " + std::to_string(o.elements) +
                                                 " elements; the least is " + std::to_string(least));
  return {};
}

}  // namespace

Result<std::unique_ptr<PsEngine>> PsEngine::create(const PsOptions& options,
                                                   const kernels::Kernels& kernels) {
  if (auto valid = validate(options); !valid) return tl::unexpected<Error>(std::move(valid.error()));
  const std::size_t lines = options.memory / sizeof(jobs::Line);
  Lines memory(new (std::nothrow) jobs::Line[lines]);
  if (memory == nullptr)
    return fail(ErrorCode::kSystem, "memory: " + std::to_string(options.memory) + " bytes are not to be had");
  return std::unique_ptr<PsEngine>(new PsEngine(options, std::move(memory), lines, kernels));
}

PsEngine::PsEngine(const PsOptions& options, Lines memory, std::size_t lines, const kernels::Kernels& kernels)
    : kernels_(kernels),
      elements_(options.elements),
      memory_(std::move(memory)),
      table_({memory_.get(), lines}, options.elements, kernels, server::Share::kNone),
      timers_(table_.capacity()),
      first_(options.boxes.empty() ? Ipv6{} : options.boxes.front()) {
  const PsShared shared{kernels_, table_, timers_, queue_};
  for (std::size_t i = 0; i < options.jobs.size(); ++i)
    seats_.emplace_back(options, static_cast<std::uint16_t>(i), shared, events_);
}

void PsEngine::receive(std::span<const std::byte> bytes, TimeNs now, const Ipv6& from) {
  notice_absence(now);
  if (const auto refused = dispatch(bytes, now, from)) ++refused_[static_cast<std::size_t>(*refused)];
}

std::optional<Refused> PsEngine::dispatch(std::span<const std::byte> bytes, TimeNs now, const Ipv6& from) {
  engine::Datagram datagram;
  if (const auto wrong = engine::open_datagram(bytes, kernels_, datagram, engine::Opener::kServer))
    return wrong;
  const Header& header = datagram.header;
  if (names_nonce(header.type)) return dispatch_knock(datagram, now, from);
  if (is_control(header.type) || header.type == PacketType::kReject)
    return dispatch_control(datagram, now, from);
  const Ids* const ids = ids_at(from);
  const Place at = ids != nullptr && header.job.host() <= kMaxJobs ? ids->by_id[header.job.host()] : Place{};
  if (at.seat == nullptr) return Refused::kJob;
  ServerMember& member = at.seat->member;
  auto wrong = member.check_current(header, at.box);
  if (!wrong && member.in_plan(at.box) == PlannedText::kNoBox) wrong = Refused::kState;  // it only controls
  if (!wrong) wrong = at.seat->sums.receive(datagram, member.in_plan(at.box), now);
  if (!wrong && header.rank_id() == kSwitchRank) member.heard(at.box, now);
  if (const auto why = at.seat->sums.take_failure(); !why.empty()) member.abort(why, now);
  due_ = std::min(due_, at.seat->deadline());
  return wrong;
}

// A JOINED or CHALLENGE names the nonce, in the same place, of a JOIN or of an ENLIST.
std::optional<Refused> PsEngine::dispatch_knock(const engine::Datagram& datagram, TimeNs now,
                                                const Ipv6& from) {
  const std::uint64_t nonce = wire_at<ChallengePayload>(datagram.payload.data()).nonce.host();
  const auto it = std::find_if(seats_.begin(), seats_.end(),
                               [&](const Seat& s) { return s.member.seat().awaits(nonce); });
  if (it != seats_.end()) return to_member({&*it, 0}, datagram, now);
  if (const Ids* const ids = ids_at(from)) {
    for (const Place& guest : ids->guests) {
      const auto wrong = to_member(guest, datagram, now);
      if (wrong != Refused::kNonce && wrong != Refused::kState) return wrong;
    }
  }
  return Refused::kNonce;
}

// What belongs to a running epoch is found by the box's id; only who has lost its id to another job, by a restart of
// the box, is looked for by its epoch, in what may tell it so.
std::optional<Refused> PsEngine::dispatch_control(const engine::Datagram& datagram, TimeNs now,
                                                  const Ipv6& from) {
  const Header& header = datagram.header;
  if (header.type == PacketType::kPlan) {
    Seat* const seat = seat_of_plan(datagram);
    return seat == nullptr ? Refused::kJob : to_member({seat, 0}, datagram, now);
  }
  const auto in_epoch = [&](const Place& at) {
    const auto& m = at.seat->member.membership();
    return m && m->epoch == header.epoch_id() &&
           (at.box == 0 ? m->job : at.seat->member.guests().at(at.box).job()) == header.job_id();
  };
  const Ids* const ids = ids_at(from);
  Place at = ids != nullptr && header.job.host() <= kMaxJobs ? ids->by_id[header.job.host()] : Place{};
  if (at.seat == nullptr) return Refused::kJob;
  if (!in_epoch(at)) {
    const auto guest = std::find_if(ids->guests.begin(), ids->guests.end(), in_epoch);
    const auto home = std::find_if(seats_.begin(), seats_.end(), [&](Seat& s) {
      return s.member.address(0) == from && in_epoch({&s, 0});
    });
    if (home != seats_.end())
      at = {&*home, 0};
    else if (guest != ids->guests.end())
      at = *guest;
  }
  return to_member(at, datagram, now);
}

// Pages of plans name the job, and no epoch.
PsEngine::Seat* PsEngine::seat_of_plan(const engine::Datagram& datagram) noexcept {
  const std::size_t name_bytes = wire_at<PlanPayload>(datagram.payload.data()).name_bytes;
  if (datagram.payload.size() < sizeof(PlanPayload) + name_bytes) return nullptr;
  const auto* const text = reinterpret_cast<const char*>(datagram.payload.data() + sizeof(PlanPayload));
  const std::string_view name(text, name_bytes);
  const auto it =
      std::find_if(seats_.begin(), seats_.end(), [&](const Seat& s) { return s.member.name() == name; });
  return it == seats_.end() ? nullptr : &*it;
}

std::optional<Refused> PsEngine::to_member(const Place& at, const engine::Datagram& datagram, TimeNs now) {
  Seat& seat = *at.seat;
  MemberNews news{};
  const auto wrong = seat.member.receive(datagram, at.box, now, news);
  switch (news) {
    case MemberNews::kNone:
      break;
    case MemberNews::kEnded:
      seat.sums.end();
      break;
    case MemberNews::kSameEpoch:
      seat.sums.renew(*seat.member.membership());
      if (seat.sums.boxes().planned()) list_places(seat);  // the home may say so from elsewhere
      break;
    case MemberNews::kEpoch:
      enter(seat);
      break;
    case MemberNews::kBoxes:
      follow_boxes(seat);
      break;
  }
  due_ = std::min(due_, seat.deadline());
  return wrong;
}

PsEngine::Ids* PsEngine::ids_at(const Ipv6& box) noexcept {
  if (box == first_) return &at_first_;
  const auto it = at_.find(box);
  return it == at_.end() ? nullptr : &it->second;
}

void PsEngine::enter(Seat& seat) {
  const engine::Membership& membership = *seat.member.membership();
  std::shared_ptr<const Plan> plan;
  if (membership.plan) plan = {membership.plan, &membership.plan->plan};
  planned_ |= plan != nullptr;
  seat.sums.enter(membership, std::move(plan), membership.home_box);
  list_places(seat);
}

void PsEngine::list_places(Seat& seat) {
  forget_places(seat);
  const auto ids = [this](const Ipv6& box) -> Ids& { return box == first_ ? at_first_ : at_[box]; };
  const ServerMember& member = seat.member;
  ids(member.address(0)).by_id[raw(member.membership()->job)] = {&seat, 0};
  for (std::size_t box = 1; box <= member.guests().size(); ++box)
    ids(member.address(box)).guests.push_back({&seat, static_cast<std::uint8_t>(box)});
  follow_boxes(seat);
}

void PsEngine::forget_places(const Seat& seat) {
  const auto of_seat = [&seat](const Place& at) { return at.seat == &seat; };
  const auto forget = [&of_seat](Ids& ids) {
    std::replace_if(ids.by_id.begin(), ids.by_id.end(), of_seat, Place{});
    std::erase_if(ids.guests, of_seat);
  };
  forget(at_first_);
  for (auto it = at_.begin(); it != at_.end();) {
    Ids& ids = it->second;
    forget(ids);
    const bool empty = ids.guests.empty() && std::all_of(ids.by_id.begin(), ids.by_id.end(),
                                                         [](const Place& at) { return at.seat == nullptr; });
    it = empty ? at_.erase(it) : std::next(it);
  }
}

// Where the server is a member now, other than at the home.
void PsEngine::follow_boxes(Seat& seat) {
  for (std::size_t box = 1; box <= seat.member.guests().size(); ++box) {
    const engine::GuestSeat& guest = seat.member.guests().at(box);
    if (!guest.running()) {
      seat.sums.close(guest.box());
      continue;
    }
    seat.sums.open(guest.box(), guest.job(), guest.shards());
    if (Ids* const ids = ids_at(seat.member.address(box)))
      ids->by_id[raw(guest.job())] = {&seat, static_cast<std::uint8_t>(box)};
  }
}

// Before an input changes when the caller had to come. Whoever had nothing to do was not away.
void PsEngine::notice_absence(TimeNs now) noexcept {
  const TimeNs ran = std::exchange(ran_at_, now);
  if (!planned_ || ran == kNever || now < ran + kAbsent) return;
  const TimeNs awaited = std::max(deadline(), ran);
  if (awaited > now || now - awaited < kAbsent) return;
  for (Seat& seat : seats_) seat.member.was_away(now - awaited, now);
}

void PsEngine::time_out(TimeNs now) {
  due_ = kNever;
  for (Seat& seat : seats_) {
    if (seat.member.time_out(now) == MemberNews::kBoxes) follow_boxes(seat);
    seat.sums.time_out(now);
    due_ = std::min(due_, seat.deadline());
  }
}

std::size_t PsEngine::transmit(std::span<std::byte> out, TimeNs now, PsDestination& to) {
  notice_absence(now);
  if (due_ <= now) time_out(now);
  if (out.size() < max_datagram_bytes()) return 0;
  if (due_ <= now) {  // somebody has something to say to control
    to.port = kBasePort;
    for (Seat& seat : seats_) {
      if (const std::size_t bytes = seat.member.transmit(out, now, to.box)) return bytes;
    }
  }
  while (owed_ || (owed_ = queue_.pop())) {
    Seat& seat = seats_[owed_->job];
    BoxIndex box = 0;
    const std::size_t bytes = seat.sums.write(*owed_, out, to.port, box);
    if (owed_->ranks == 0) owed_.reset();
    if (bytes == 0) continue;
    to.box = seat.member.address(seat.sums.boxes().planned() ? seat.member.guests().place_of(box) : 0);
    return bytes;
  }
  return 0;
}

}  // namespace tally::ps
