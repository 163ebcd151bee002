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
      timers_(table_.capacity()) {
  const PsShared shared{kernels_, table_, timers_, queue_};
  for (std::size_t i = 0; i < options.jobs.size(); ++i)
    seats_.emplace_back(options, static_cast<std::uint16_t>(i), shared, events_);
}

std::size_t PsEngine::max_datagram_bytes() const noexcept { return engine::max_datagram_bytes(elements_); }

void PsEngine::receive(std::span<const std::byte> bytes, TimeNs now) {
  if (const auto refused = dispatch(bytes, now)) ++refused_[static_cast<std::size_t>(*refused)];
}

std::optional<Refused> PsEngine::dispatch(std::span<const std::byte> bytes, TimeNs now) {
  engine::Datagram datagram;
  if (const auto wrong = engine::open_datagram(bytes, kernels_, datagram, engine::Opener::kServer))
    return wrong;
  Seat* const seat = seat_of(datagram);
  if (seat == nullptr) return names_nonce(datagram.header.type) ? Refused::kNonce : Refused::kJob;
  std::optional<Refused> wrong;
  if (!is_control(datagram.header.type) && datagram.header.type != PacketType::kReject) {
    wrong = seat->member.seat().check_current(datagram.header);
    if (!wrong) wrong = seat->sums.receive(datagram, 0, now);
    if (const auto why = seat->sums.take_failure(); !why.empty()) seat->member.abort(why, now);
  } else {
    MemberNews news{};
    wrong = seat->member.receive(datagram, now, news);
    if (news == MemberNews::kEnded) seat->sums.end();
    if (news == MemberNews::kSameEpoch) seat->sums.renew(*seat->member.membership());
    if (news == MemberNews::kEpoch) {
      seat->sums.enter(*seat->member.membership());
      by_id_[raw(seat->member.membership()->job)] = seat;
    }
  }
  due_ = std::min(due_, seat->deadline());
  return wrong;
}

// A JOINED or CHALLENGE names the nonce, in the same place. What belongs to a running epoch is found by the
// box's id; only who has lost its id to another job, by a restart of the box, is looked for by its epoch, in
// what may tell it so.
PsEngine::Seat* PsEngine::seat_of(const engine::Datagram& datagram) noexcept {
  const Header& header = datagram.header;
  if (names_nonce(header.type)) {
    const std::uint64_t nonce = wire_at<ChallengePayload>(datagram.payload.data()).nonce.host();
    const auto it = std::find_if(seats_.begin(), seats_.end(),
                                 [&](const Seat& s) { return s.member.seat().awaits(nonce); });
    return it == seats_.end() ? nullptr : &*it;
  }
  Seat* const seat = header.job.host() <= kMaxJobs ? by_id_[header.job.host()] : nullptr;
  if (!is_control(header.type) && header.type != PacketType::kReject) return seat;
  const auto in_epoch = [&](const Seat& s) {
    const auto& m = s.member.membership();
    return m && m->job == header.job_id() && m->epoch == header.epoch_id();
  };
  if (seat == nullptr || in_epoch(*seat)) return seat;
  const auto it = std::find_if(seats_.begin(), seats_.end(), in_epoch);
  return it == seats_.end() ? seat : &*it;
}

void PsEngine::time_out(TimeNs now) {
  due_ = kNever;
  for (Seat& seat : seats_) {
    seat.member.time_out(now);
    seat.sums.time_out(now);
    due_ = std::min(due_, seat.deadline());
  }
}

std::size_t PsEngine::transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& destination_port) {
  if (due_ <= now) time_out(now);
  if (out.size() < max_datagram_bytes()) return 0;
  if (due_ <= now) {  // somebody has something to say to control
    destination_port = kBasePort;
    for (Seat& seat : seats_) {
      if (const std::size_t bytes = seat.member.transmit(out, now)) return bytes;
    }
  }
  while (owed_ || (owed_ = queue_.pop())) {
    BoxIndex box = 0;
    const std::size_t bytes = seats_[owed_->job].sums.write(*owed_, out, destination_port, box);
    if (owed_->ranks == 0) owed_.reset();
    if (bytes != 0) return bytes;
  }
  return 0;
}

}  // namespace tally::ps
