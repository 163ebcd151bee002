#include "members/membership.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "auth/auth.h"
#include "members/box_state.h"
#include "members/rebalance.h"
#include "members/reception.h"
#include "members/room.h"
#include "members/texts.h"

namespace tally::members {
namespace {

std::string shape_text(std::uint16_t elements, std::uint32_t total) {
  return std::to_string(elements) + " elements of an operation of " + std::to_string(total);
}

tl::unexpected<Error> of_one_box(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "it is of this box alone", "job '" + std::string(name) + "'");
}

// Why a job with such members cannot be declared beside the others of its dialect.
template <class Config>
Result<void> objection_to(const Config& config, const BoxState& box) {
  for (const typename Config::Life& other : box.all<typename Config::Life>()) {
    const std::string clash = clash_text(config, other.config());
    if (!clash.empty())
      return fail(ErrorCode::kInvalidArgument, clash + ": a packet could be of either",
                  "job '" + config.name + "'");
  }
  return {};
}

std::unique_ptr<Life> new_life(BoxState& box, JobId id, SessionConfig config) {
  return std::make_unique<Life>(std::in_place_type<SessionLife>, box, id, std::move(config));
}
std::unique_ptr<Life> new_life(BoxState& box, JobId id, NativeConfig config) {
  if (config.boxes && config.boxes->home != config.boxes->here)
    return std::make_unique<Life>(std::in_place_type<GuestLife>, box, id, std::move(config));
  return std::make_unique<Life>(std::in_place_type<NativeLife>, box, id, std::move(config));
}

// Where boxes are, and which of them this is, stays; which is the home, set_home() says.
bool has_other_boxes(const NativeConfig& is, const NativeConfig& wanted) {
  if (is.boxes.has_value() != wanted.boxes.has_value()) return true;
  return is.boxes && (is.boxes->addresses != wanted.boxes->addresses || is.boxes->here != wanted.boxes->here);
}

tl::unexpected<Error> unknown_job(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "no job of this name is declared",
              "job '" + std::string(name) + "'");
}

}  // namespace

MembershipEngine::MembershipEngine(const MembershipOptions& options, RandomWords random)
    : reception_(std::make_unique<Reception>(options, std::move(random))) {}
MembershipEngine::MembershipEngine(MembershipEngine&&) noexcept = default;
MembershipEngine& MembershipEngine::operator=(MembershipEngine&&) noexcept = default;
MembershipEngine::~MembershipEngine() = default;

Result<JobId> MembershipEngine::declare(JobConfig config) noexcept {
  BoxState& box = reception_->box;
  return jobs::with_dialect(config, [&](auto& job) -> Result<JobId> {
    if (auto good = objection_to(job, box); !good) return tl::unexpected<Error>(good.error());
    auto id = reception_->new_id(job.name);
    if (!id) return id;
    box.lives.at(raw(*id)) = new_life(box, *id, std::move(job));
    box.touch(*id);
    box.settle();
    return id;
  });
}

Result<void> MembershipEngine::withdraw(std::string_view name, std::string_view reason) noexcept {
  BoxState& box = reception_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  const JobId id = named->second;
  for (const JobId group : box.groups.of(id)) {
    box.names.erase(box.names.find(box.find_native(group)->config().name));
    reception_->withdraw(group, reason);
  }
  box.names.erase(named);
  reception_->withdraw(id, reason);
  box.renew_secret();  // the name may come again
  box.settle();
  return {};
}

std::size_t MembershipEngine::close(std::string_view reason) noexcept {
  BoxState& box = reception_->box;
  reception_->closed = reason;
  std::erase_if(box.names, [&](const auto& named) {
    if (jobs::with_dialect(*box.find(named.second), [](const auto& life) { return life.alive(); }))
      return false;
    reception_->withdraw(named.second, reason);
    return true;
  });
  box.settle();
  return box.names.size();
}

void MembershipEngine::receive(std::span<const std::byte> datagram, const jobs::Binding& source,
                               TimeNs now) noexcept {
  reception_->receive(datagram, source, now);
}

Result<void> MembershipEngine::change(const NativeConfig& wanted, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  ResidentJob* const life = box.find_resident(wanted.name);
  if (life == nullptr) {
    if (!box.names.contains(wanted.name)) return unknown_job(wanted.name);
    return fail(ErrorCode::kInvalidArgument, "it is a session", "job '" + wanted.name + "'");
  }
  if (has_other_boxes(life->config(), wanted)) {
    return fail(ErrorCode::kInvalidArgument,
                "its boxes are others: withdraw it on all of them, and declare it anew",
                "job '" + wanted.name + "'");
  }
  NativeConfig as_here = wanted;
  if (as_here.boxes) as_here.boxes->home = life->config().boxes->home;
  auto done = life->change(as_here, now);
  box.settle();
  return done;
}

Result<void> MembershipEngine::resize(std::string_view name, std::uint32_t window, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  auto done =
      jobs::with_dialect(*box.find(named->second), [&](auto& life) { return life.resize(window, now); });
  box.settle();
  return done;
}

Result<void> MembershipEngine::abort(std::string_view name, std::string_view reason, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  ResidentJob* const life = box.find_resident(named->second);
  if (life == nullptr)
    return fail(ErrorCode::kInvalidArgument, "it is a session, whose clients cannot be told anything",
                "job '" + std::string(name) + "'");
  auto done = life->give_up(reason, now);
  reception_->settle(now);
  return done;
}

Result<void> MembershipEngine::replan(std::string_view name, TimeNs now, std::uint64_t take_back) noexcept {
  BoxState& box = reception_->box;
  ResidentJob* const life = box.find_resident(name);
  if (life == nullptr && !box.names.contains(name)) return unknown_job(name);
  if (life == nullptr || !life->config().boxes) return of_one_box(name);
  auto done = life->replan(now, take_back);
  reception_->settle(now);
  return done;
}

Result<void> MembershipEngine::set_home(std::string_view name, const Ipv6& address, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  ResidentJob* const life = box.find_resident(name);
  if (life == nullptr && !box.names.contains(name)) return unknown_job(name);
  if (life == nullptr || !life->config().boxes) return of_one_box(name);
  const BoxesConfig& boxes = *life->config().boxes;
  const auto at = std::ranges::find(boxes.addresses, address);
  if (at == boxes.addresses.end()) {
    return fail(ErrorCode::kInvalidArgument, address_text(address) + " is none of its boxes",
                "job '" + std::string(name) + "'");
  }
  const auto home = static_cast<BoxIndex>(at - boxes.addresses.begin());
  if (home == boxes.home) return {};
  if (home != boxes.here && boxes.home != boxes.here) {
    life->follow(home);
  } else {
    life->hand_over();
    life->follow(home);
    // Under the same id and name; what the other box knew of the members it hears again from them.
    const JobId id = life->id();
    auto deferred = life->deferred();
    NativeConfig config = life->config();
    box.forget(id);
    box.lives.at(raw(id)) = new_life(box, id, std::move(config));
    box.renew_secret();
    box.find_resident(id)->defer(std::move(deferred));
  }
  reception_->settle(now);
  return {};
}

void MembershipEngine::hear_of_home(std::string_view name, const HomeNews& news) noexcept {
  ResidentJob* const life = reception_->box.find_resident(name);
  if (life != nullptr && life->config().boxes) life->hear_of_home(news);
}

std::optional<BoxesJob> MembershipEngine::boxes_job(std::string_view name) const noexcept {
  const ResidentJob* const life = reception_->box.find_resident(name);
  if (life == nullptr || !life->config().boxes) return std::nullopt;
  const NativeConfig& config = life->config();
  return BoxesJob{config.workers,
                  config.external_servers(),
                  auth::token_check(life->key()),
                  config.boxes->home,
                  life->needs(),
                  life->no_room()};
}

std::string MembershipEngine::objection_to_home(std::string_view name,
                                                const HomeNeeds& needs) const noexcept {
  const ResidentJob* const life = reception_->box.find_resident(name);
  if (life == nullptr || !life->config().boxes) return {};
  return life->objection_to_home(needs);
}

Result<void> MembershipEngine::reset_session(std::string_view name, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  Life& life = *box.find(named->second);
  if (!std::holds_alternative<SessionLife>(life))
    return fail(ErrorCode::kInvalidArgument, "it is no session: its workers join anew",
                "job '" + std::string(name) + "'");
  jobs::with_dialect(life, [now](auto& l) { l.restart(now); });  // entries of another epoch are nobody's
  box.settle();
  return {};
}

std::optional<Outgoing> MembershipEngine::next(std::span<std::byte> out) noexcept {
  return reception_->box.outbox.next(out);
}

void MembershipEngine::report_mismatch(JobId job, Epoch epoch, Rank a, std::uint64_t others,
                                       std::uint16_t elements_a, std::uint16_t elements_b,
                                       std::uint32_t total_a, std::uint32_t total_b, TimeNs now) noexcept {
  ResidentJob* const found = reception_->box.find_resident(job);
  if (found == nullptr) return;
  const RankNames& names = found->names();
  std::string text = "the " + std::string(names.word) +
                     "s issued different operations: " + rank_text(a, names) + " sent " +
                     shape_text(elements_a, total_a) + ", " + ranks_text(others, names) + " " +
                     shape_text(elements_b, total_b);
  if (elements_a == elements_b && total_a == total_b)
    text +=
        total_a == 0 ? ": one leaves the job, or their element types differ" : " with another element type";
  found->disagree(epoch, text, now);
  reception_->settle(now);
}

void MembershipEngine::listen(LastSeen last_seen) noexcept {
  reception_->box.last_seen = std::move(last_seen);
}

void MembershipEngine::unheard(TimeNs time, TimeNs now) noexcept { reception_->box.unheard.add(time, now); }

void MembershipEngine::tick(TimeNs now) noexcept {
  BoxState& box = reception_->box;
  while (const auto id = box.agenda.due(now)) {
    box.find_resident(*id)->tick(now);
    box.touch(*id);
    box.settle();
  }
  reception_->settle(now);
  grow_pools(box, now);
  box.settle();
}

TimeNs MembershipEngine::deadline() const noexcept {
  if (reception_->box.slots_changed) return 0;  // jobs wait for what close() or withdraw() freed
  return std::min(
      {reception_->box.grow_at, reception_->box.agenda.first(), reception_->box.groups.deadline()});
}

void MembershipEngine::rebalance(std::span<const SharedDemand> demand) noexcept {
  rebalance_shared(reception_->box, demand);
}

std::optional<jobs::Publication> MembershipEngine::publication() noexcept {
  return reception_->box.publisher.take();
}

void MembershipEngine::quiesced(std::uint64_t version, TimeNs now) noexcept {
  BoxState& box = reception_->box;
  for (const JobId id : std::set(box.awaiting)) {
    box.touch(id);
    if (jobs::with_dialect(*box.find(id), [&](auto& l) { return l.in_force(version, now); }))
      box.awaiting.erase(id);
  }
  reception_->settle(now);
}

void MembershipEngine::restart_data_plane(TimeNs now) noexcept {
  BoxState& box = reception_->box;
  for (const auto& life : box.lives) {
    if (life != nullptr) jobs::with_dialect(*life, [&](auto& l) { l.restart(now); });
  }
  box.publisher.republish();
  reception_->settle(now);
}

std::vector<JobStatus> MembershipEngine::status(TimeNs now) const noexcept {
  std::vector<JobStatus> all;
  for (std::uint16_t id = 1; id <= kMaxJobs; ++id) {
    if (auto job = status(JobId{id}, now); job) all.push_back(std::move(*job));
  }
  return all;
}

std::optional<JobStatus> MembershipEngine::status(JobId job, TimeNs now) const noexcept {
  const Life* const found = reception_->box.find(job);
  if (found == nullptr) return std::nullopt;
  JobStatus status = jobs::with_dialect(*found, [now](const auto& life) { return life.status(now); });
  status.group_of = group_of(status.name);
  return status;
}

std::string MembershipEngine::group_of(std::string_view name) const noexcept {
  const BoxState& box = reception_->box;
  const auto named = box.names.find(name);
  return named == box.names.end() ? std::string() : box.groups.parent_of(named->second);
}

const MembershipCounters& MembershipEngine::counters() const noexcept { return reception_->box.counters; }

std::set<JobId> MembershipEngine::changed() noexcept { return std::exchange(reception_->box.changed, {}); }
const std::set<JobId>& MembershipEngine::sharing() const noexcept { return reception_->box.sharing; }
std::size_t MembershipEngine::running() const noexcept { return reception_->box.running.size(); }
std::size_t MembershipEngine::declared() const noexcept { return reception_->box.names.size(); }

}  // namespace tally::members
