#include "members/membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include "members/box_state.h"
#include "members/control_packet.h"
#include "members/ending.h"
#include "members/joining.h"
#include "members/member_packets.h"
#include "members/offer.h"
#include "members/rebalance.h"
#include "members/session_life.h"
#include "members/texts.h"

namespace tally::members {

struct MembershipEngine::State {
  State(const MembershipOptions& options, RandomWords random) : box(options, std::move(random)) {}

  BoxState box;
  std::uint32_t last_id = 0;  // ids rotate, so that a withdrawn job's is not taken at once
  std::string closed{};       // why nothing new is admitted; empty: it is

  // For a job of that name; fails if there is one, or no room.
  [[nodiscard]] Result<JobId> new_id(const std::string& name);
  void join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
};

namespace {

std::string shape_text(std::uint16_t elements, std::uint32_t total) {
  return std::to_string(elements) + " elements of an operation of " + std::to_string(total);
}

tl::unexpected<Error> unknown_job(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "no job of this name is declared",
              "job '" + std::string(name) + "'");
}

}  // namespace

Result<JobId> MembershipEngine::State::new_id(const std::string& name) {
  if (box.names.contains(name)) {
    return fail(ErrorCode::kInvalidArgument, "a job of this name is declared already", "job '" + name + "'");
  }
  if (box.names.size() >= kMaxJobs) {
    return fail(ErrorCode::kInvalidArgument, "the box holds at most " + std::to_string(kMaxJobs) + " jobs");
  }
  do {
    last_id = last_id % kMaxJobs + 1;
  } while (box.jobs[last_id] != nullptr || box.sessions[last_id] != nullptr);
  const JobId id{static_cast<std::uint16_t>(last_id)};
  box.names.emplace(name, id);
  return id;
}

void MembershipEngine::State::join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  const auto join = read_join(packet);
  if (!join) return box.count(join.error());
  const auto named = box.names.find(join->name);
  JobMembership* job = named == box.names.end() ? nullptr : box.find(named->second);
  if (auto no = objection_to(job, *join)) {
    if (job == nullptr && !closed.empty()) no->text = closed;
    if (job == nullptr && named != box.names.end()) no->text = nobody_joins_text(named->first);
    box.count(no->drop);
    if (box.refusals.take(source.address, now)) {
      answer_refused(box, join->fixed.nonce.host(), no->text, source);
    }
    return;
  }
  tick_job(*job, box, now);
  handle_join(*job, box, *join, source, now);
}

void MembershipEngine::State::probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  if (!box.probes.take(source.address, now)) return box.count(MembershipDrop::kRate);
  box.accept(PacketType::kProbe);
  box.outbox.send(packet.header, packet.payload, source);
}

void MembershipEngine::State::from_member(const ControlPacket& packet, const jobs::Binding& source,
                                          TimeNs now) {
  JobMembership* job = box.find(packet.header.job_id());
  if (job == nullptr) return reject(box, packet.header, source, now, MembershipDrop::kJob);
  tick_job(*job, box, now);
  handle_member_packet(*job, box, packet, source, now);
}

MembershipEngine::MembershipEngine(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
MembershipEngine::MembershipEngine(MembershipEngine&&) noexcept = default;
MembershipEngine& MembershipEngine::operator=(MembershipEngine&&) noexcept = default;
MembershipEngine::~MembershipEngine() = default;

Result<MembershipEngine> MembershipEngine::create(const MembershipOptions& options, RandomWords random) {
  if (auto valid = validate(options); !valid) return tl::unexpected<Error>(valid.error());
  if (!random) return fail(ErrorCode::kInvalidArgument, "membership needs a source of random words");
  return MembershipEngine(std::make_unique<State>(options, std::move(random)));
}

Result<JobId> MembershipEngine::declare(JobConfig config) noexcept {
  if (auto valid = validate(config); !valid) return tl::unexpected<Error>(valid.error());
  BoxState& box = state_->box;
  if (auto fits = validate(config, box.options); !fits) return tl::unexpected<Error>(fits.error());
  auto id = state_->new_id(config.name);
  if (!id) return id;
  auto job = std::make_unique<JobMembership>();
  job->config = std::move(config);
  job->id = *id;
  box.jobs.at(raw(*id)) = std::move(job);
  return id;
}

Result<JobId> MembershipEngine::declare(SessionConfig config) noexcept {
  BoxState& box = state_->box;
  for (const auto& valid : {validate(config), validate(config, box.options), objection_to(config, box)}) {
    if (!valid) return tl::unexpected<Error>(valid.error());
  }
  auto id = state_->new_id(config.name);
  if (id) declare_session(*id, std::move(config), box);
  return id;
}

Result<void> MembershipEngine::withdraw(std::string_view name, std::string_view reason) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  const JobId id = named->second;
  box.names.erase(named);
  if (end_session(id, box)) return {};
  abort_job(*box.find(id), box, reason);
  box.jobs.at(raw(id)).reset();
  return {};
}

std::size_t MembershipEngine::close(std::string_view reason) noexcept {
  BoxState& box = state_->box;
  state_->closed = reason;
  end_all_sessions(box);
  std::erase_if(box.names, [&](const auto& named) {
    JobMembership& job = *box.find(named.second);
    if (job.active() || job.reforming()) return false;
    abort_job(job, box, reason);
    box.jobs.at(raw(named.second)).reset();
    return true;
  });
  return box.names.size();
}

void MembershipEngine::receive(std::span<const std::byte> datagram, const jobs::Binding& source,
                               TimeNs now) noexcept {
  const auto packet = read_control(datagram);
  if (!packet) return state_->box.count(packet.error());
  if (packet->header.rank_id() == kSwitchRank) return state_->box.count(MembershipDrop::kRank);
  switch (packet->header.type) {
    case PacketType::kJoin:
      state_->join(*packet, source, now);
      break;
    case PacketType::kProbe:
      return state_->probe(*packet, source, now);
    default:
      state_->from_member(*packet, source, now);
  }
  settle_slots(state_->box, now);
}

Result<void> MembershipEngine::resize(std::string_view name, std::uint32_t window, TimeNs now) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  JobMembership* const job = box.find(named->second);
  if (job != nullptr) return resize_job(*job, box, window, now);
  return fail(ErrorCode::kInvalidArgument, "it is a session of the dialect switchml, which has no window",
              "job '" + std::string(name) + "'");
}

std::optional<Outgoing> MembershipEngine::next(std::span<std::byte> out) noexcept {
  return state_->box.outbox.next(out);
}

void MembershipEngine::seen(JobId job, Rank rank, TimeNs last_seen) noexcept {
  if (SessionMembership* const session = state_->box.find_session(job); session != nullptr)
    return note_seen(*session, rank, last_seen);
  JobMembership* j = state_->box.find(job);
  if (j == nullptr || raw(rank) >= j->config.workers || !j->active()) return;
  MemberState& m = j->member(rank);
  if (!m.joined) return;
  m.heard(last_seen);
  // What a core saw after the members were told bears the epoch they were told.
  m.confirmed = m.confirmed || last_seen > j->running_since;
}

void MembershipEngine::report_mismatch(JobId job, Epoch epoch, Rank a, std::uint64_t others,
                                       std::uint16_t elements_a, std::uint16_t elements_b,
                                       std::uint32_t total_a, std::uint32_t total_b, TimeNs now) noexcept {
  JobMembership* j = state_->box.find(job);
  if (j == nullptr) return;
  tick_job(*j, state_->box, now);
  if (!j->active() || j->term.epoch != epoch) return;
  std::string text = "the ranks issued different operations: rank " + std::to_string(raw(a)) + " sent " +
                     shape_text(elements_a, total_a) + ", " + ranks_text(others) + " " +
                     shape_text(elements_b, total_b);
  if (elements_a == elements_b && total_a == total_b) text += " with another element type";
  abort_job(*j, state_->box, text);
  settle_slots(state_->box, now);
}

void MembershipEngine::unheard(TimeNs time) noexcept {
  for (const auto& job : state_->box.jobs) {
    if (job == nullptr) continue;
    for (MemberState& m : job->members) m.unheard = after(m.unheard, time);
  }
}

void MembershipEngine::tick(TimeNs now) noexcept {
  for (const auto& job : state_->box.jobs) {
    if (job != nullptr) tick_job(*job, state_->box, now);
  }
  settle_slots(state_->box, now);
  grow_pools(state_->box, now);
}

TimeNs MembershipEngine::deadline() const noexcept {
  if (state_->box.slots_changed) return 0;  // jobs wait for what close() or withdraw() freed
  TimeNs next = state_->box.grow_at;
  for (const auto& job : state_->box.jobs) {
    if (job != nullptr) next = std::min(next, deadline_of(*job));
  }
  return next;
}

void MembershipEngine::rebalance(std::span<const SharedDemand> demand) noexcept {
  rebalance_shared(state_->box, demand);
}

std::optional<jobs::Publication> MembershipEngine::publication() noexcept {
  return state_->box.publisher.take();
}

void MembershipEngine::quiesced(std::uint64_t version, TimeNs now) noexcept {
  for (const auto& job : state_->box.jobs) {
    if (job != nullptr) tell_members(*job, state_->box, version, now);
  }
  sessions_in_force(state_->box, version, now);
  settle_slots(state_->box, now);
}

void MembershipEngine::restart_data_plane(TimeNs now) noexcept {
  BoxState& box = state_->box;
  for (const auto& job : box.jobs) {
    if (job == nullptr) continue;
    // Who has left will not come back, and who remains lacks nothing but the result of the last barrier.
    if (job->phase == JobPhase::kDraining) {
      end_job(*job, box);
      continue;
    }
    if (job->active()) begin_reforming(*job, box, now);
    if (job->offered()) job->offer_version = box.publisher.next_version();
  }
  restart_sessions(box);
  box.publisher.republish();
  settle_slots(box, now);
}

std::vector<JobStatus> MembershipEngine::status(TimeNs now) const noexcept {
  std::vector<JobStatus> all;
  for (std::uint16_t id = 1; id <= kMaxJobs; ++id) {
    if (auto job = status(JobId{id}, now); job) all.push_back(std::move(*job));
  }
  return all;
}

std::optional<JobStatus> MembershipEngine::status(JobId job, TimeNs now) const noexcept {
  const BoxState& box = state_->box;
  if (const SessionMembership* const session = box.find_session(job); session != nullptr)
    return status_of(*session, box);
  const JobMembership* j = box.find(job);
  if (j == nullptr) return std::nullopt;
  return status_of(*j, now);
}

const MembershipCounters& MembershipEngine::counters() const noexcept { return state_->box.counters; }

}  // namespace tally::members
