#include "engine/worker_engine.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine_operation.h"
#include "engine/worker_join.h"

namespace tally::engine {
namespace {

constexpr TimeNs kLeastRtoFloor = kMicrosecond;
constexpr TimeNs kGreatestSilence = 3'600 * kSecond;  // the longest lease

// Types of a span list: float or int32, input const or not.
template <class In, class Out>
Result<std::vector<Segment>> segments_of(std::span<const std::span<In>> in,
                                         std::span<const std::span<Out>> out) {
  if (in.size() != out.size())
    return fail(ErrorCode::kInvalidArgument, "allreduce: " + std::to_string(in.size()) + " input spans but " +
                                                 std::to_string(out.size()) + " output spans");
  std::vector<Segment> segments;
  segments.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].size() != out[i].size())
      return fail(ErrorCode::kInvalidArgument, "allreduce: span " + std::to_string(i) + " has " +
                                                   std::to_string(in[i].size()) + " elements in but " +
                                                   std::to_string(out[i].size()) + " out");
    segments.push_back({in[i].data(), out[i].data(), in[i].size()});
  }
  return segments;
}

Result<void> validate(const EngineOptions& o) {
  const auto refuse = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (o.job.empty() || o.job.size() > kMaxNameBytes)
    return refuse("job: a name of 1.." + std::to_string(kMaxNameBytes) + " bytes is needed, this one has " +
                  std::to_string(o.job.size()));
  if (o.token.size() > kMaxTokenBytes)
    return refuse("token: at most " + std::to_string(kMaxTokenBytes) + " bytes, this one has " +
                  std::to_string(o.token.size()));
  if (o.world < 1 || o.world > kMaxRanks)
    return refuse("world: " + std::to_string(o.world) + " is not in 1..64");
  if (raw(o.rank) >= o.world)
    return refuse("rank: " + std::to_string(raw(o.rank)) + " is not below world " + std::to_string(o.world));
  if (o.elements == 0 || !valid_elements(o.elements))
    return refuse("elements: " + std::to_string(o.elements) + " is not a multiple of 16 in 16..2224");
  if (o.rto_floor < kLeastRtoFloor || o.rto_floor > kRtoCeiling)
    return refuse("rto_floor: " + std::to_string(o.rto_floor) + " ns is not in 1 us..1 s");
  if (o.unreachable_after == 0 || o.unreachable_after > kGreatestSilence)
    return refuse("unreachable_after: " + std::to_string(o.unreachable_after) + " ns is not in 1 ns..1 h");
  if (o.priority > kGreatestPriority)
    return refuse("priority: " + std::to_string(o.priority) + " is not in 0..254");
  return {};
}

}  // namespace

Result<std::unique_ptr<WorkerEngine>> WorkerEngine::create(EngineOptions options,
                                                           const kernels::Kernels& kernels) {
  if (auto valid = validate(options); !valid) return tl::unexpected<Error>(std::move(valid.error()));
  return std::unique_ptr<WorkerEngine>(new WorkerEngine(std::move(options), kernels));
}

WorkerEngine::WorkerEngine(EngineOptions options, const kernels::Kernels& kernels)
    : options_(std::move(options)),
      kernels_(kernels),
      stream_(options_.rank, options_.priority, options_.rto_floor, kernels, statistics_),
      random_(options_.seed) {
  join_.start(0);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const float>> in,
                                            std::span<const std::span<float>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(Dtype::kFloat32, std::move(*segments), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const std::int32_t>> in,
                                            std::span<const std::span<std::int32_t>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(Dtype::kInt32, std::move(*segments), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<float>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kFloat32, *segments_of(spans, spans), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<std::int32_t>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kInt32, *segments_of(spans, spans), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<float> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kFloat32, {{values.data(), values.data(), values.size()}}, now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<std::int32_t> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kInt32, {{values.data(), values.data(), values.size()}}, now, options, true);
}

Result<OperationId> WorkerEngine::barrier(TimeNs now, const OperationOptions& options) {
  return submit(Dtype::kInt32, {}, now, options, true);
}

Result<OperationId> WorkerEngine::submit(Dtype dtype, std::vector<Segment> segments, TimeNs now,
                                         const OperationOptions& options, bool reported) {
  if (state_ == EngineState::kClosed)
    return fail(ErrorCode::kClosed, "the worker is closed: " + why_closed_.what);
  if (reported && leaving_ != Leaving::kNo) return fail(ErrorCode::kClosed, "the worker is leaving");
  if (auto why = objection_to(options.priority); !why.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(why));
  if (options.mean && dtype != Dtype::kFloat32)
    return fail(ErrorCode::kInvalidArgument, "mean: only sums of float have one");
  const OperationId id{++last_operation_};
  auto operation = std::make_unique<EngineOperation>(id, dtype, std::move(segments), options, now);
  operation->reported = reported;
  stream_.submit(std::move(operation));
  return id;
}

std::optional<Completion> WorkerEngine::next_completion() { return stream_.next_completion(); }

std::size_t WorkerEngine::pending_operations() const noexcept {
  return stream_.pending() - (leaving_ >= Leaving::kBarrier && stream_.pending() != 0 ? 1 : 0);
}

void WorkerEngine::abort(std::string_view reason, TimeNs now) {
  if (state_ == EngineState::kClosed) return;
  fail_job({ErrorCode::kAborted, "aborted here: " + std::string(reason)}, nullptr, now);
}

void WorkerEngine::leave(TimeNs now) {
  if (state_ == EngineState::kClosed || leaving_ != Leaving::kNo) return;
  if (!membership_ && stream_.pending() == 0)
    return close({ErrorCode::kClosed, "left before the job was formed"});
  leaving_ = Leaving::kDraining;
  settle(now);
}

Result<void> WorkerEngine::rejoin(TimeNs now) {
  if (state_ != EngineState::kClosed)
    return fail(ErrorCode::kInvalidArgument, "rejoin: the worker is not closed");
  why_closed_ = {};
  if (membership_) forsaken_ = membership_->generation;
  unended_.reset();
  membership_.reset();
  record_ = {};
  live_ = 0;
  leaving_ = Leaving::kNo;
  abort_.stop();
  heard_ = now;
  start_joining(now);
  return {};
}

void WorkerEngine::start_joining(TimeNs now) {
  state_ = EngineState::kJoining;
  joining_since_ = now;
  unjoined_ = 0;
  nonce_ = 0;
  join_.start(now);
}

// The barrier is sent only when every other result is held: then losing its own result costs nobody anything.
void WorkerEngine::settle(TimeNs now) {
  if (stream_.failure()) {
    const StreamFailure failure = *stream_.failure();  // fail_job clears it
    const Error others{ErrorCode::kAborted, "another operation of this worker failed: " + failure.error.what};
    return fail_job(others, &failure, now);
  }
  if (leaving_ == Leaving::kDraining && stream_.pending() == 0) {
    leaving_ = Leaving::kBarrier;
    (void)submit(Dtype::kInt32, {}, now, {}, false);
  } else if (leaving_ == Leaving::kBarrier && (stream_.pending() == 0 || somebody_left())) {
    leaving_ = Leaving::kSaying;
    leave_.start(now);
  }
}

// Who left had the barrier's result, so every rank had all of its own. The box may have forgotten that
// result, its slot being somebody else's by now, and there may be no rank any more to ask for it.
bool WorkerEngine::somebody_left() const noexcept {
  return live_ != 0 && (membership_->members() & ~live_) != 0;
}

void WorkerEngine::close(Error error) {
  stream_.fail_all(error);
  state_ = EngineState::kClosed;
  why_closed_ = std::move(error);
}

void WorkerEngine::fail_job(const Error& error, const StreamFailure* culprit, TimeNs now) {
  const Error reason = culprit == nullptr ? error : culprit->error;
  stream_.fail_all(error, culprit);
  state_ = EngineState::kClosed;
  why_closed_ = reason;
  if (membership_) abort_.start(now);
}

TimeNs WorkerEngine::silence_limit() const noexcept {
  const TimeNs limit = membership_ ? membership_->lease : options_.unreachable_after;
  // JOINs come up to a second apart: a shorter lease must not be lost to one of them.
  return state_ == EngineState::kJoining ? std::max(limit, 3 * kLastRepeat) : limit;
}

EngineState WorkerEngine::state() const noexcept { return state_; }
const Error& WorkerEngine::why_closed() const noexcept { return why_closed_; }
const std::optional<Membership>& WorkerEngine::membership() const noexcept { return membership_; }
std::uint64_t WorkerEngine::live() const noexcept { return live_; }
const EngineStatistics& WorkerEngine::statistics() const noexcept { return statistics_; }

std::uint64_t WorkerEngine::missing() const noexcept {
  return state_ == EngineState::kJoining ? unjoined_ : stream_.missing();
}

// Receiving half of the worker engine. A datagram is believed only as far as its secrets reach: a REJECT
// makes the worker join again and nothing more, a JOINED must echo the newest nonce, everything else must
// carry the current epoch and the result cookie.

void WorkerEngine::receive(std::span<const std::byte> bytes, TimeNs now) noexcept {
  Datagram datagram;
  auto refused = open_datagram(bytes, kernels_, datagram);
  if (!refused) refused = dispatch(datagram, now);
  if (refused) ++statistics_.refused[static_cast<std::size_t>(*refused)];
  settle(now);
}

std::optional<Refused> WorkerEngine::dispatch(const Datagram& datagram, TimeNs now) {
  const Header& header = datagram.header;
  switch (header.type) {
    case PacketType::kJoined:
      return on_joined(datagram, now);
    case PacketType::kReject:
      return on_reject(header, now);
    case PacketType::kAbort:
      return on_abort(datagram);
    default:
      break;
  }
  if (state_ == EngineState::kClosed) return Refused::kState;
  switch (header.type) {
    case PacketType::kResult:
      if (const auto wrong = check_from_box(header)) return wrong;
      return stream_.on_result(datagram, now);
    case PacketType::kQuery:
      return on_query(header);
    case PacketType::kResend:
      return on_resend(header);
    default:
      return on_echo(header, now);  // HEARTBEAT, LEAVE: the gate lets nothing else through
  }
}

std::optional<Refused> WorkerEngine::check_current(const Header& header) const noexcept {
  if (!membership_) return Refused::kState;
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  if (Cookie{header.cookie.host()} != membership_->result_cookie) return Refused::kCookie;
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::check_from_box(const Header& header) const noexcept {
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  return check_current(header);
}

std::optional<Refused> WorkerEngine::on_joined(const Datagram& datagram, TimeNs now) {
  Joined joined;
  if (const auto wrong = read_joined(datagram.payload, joined)) return wrong;
  if (datagram.header.rank_id() != kSwitchRank) return Refused::kRank;
  if (state_ != EngineState::kJoining || nonce_ == 0) return Refused::kState;
  if (joined.fixed.nonce.host() != nonce_) return Refused::kNonce;
  switch (joined.fixed.status) {
    case JoinStatus::kRunning:
      return on_running(datagram.header, joined.fixed, now);
    case JoinStatus::kForming:
      unjoined_ = joined.fixed.missing.host();
      heard_ = now;
      return std::nullopt;
    case JoinStatus::kRefused:
      if (leaving_ >= Leaving::kBarrier) {  // every result is held: the others were faster, nothing failed
        close({ErrorCode::kClosed, "left the job; the box said: " + printable(joined.text), options_.job});
        return std::nullopt;
      }
      close({ErrorCode::kRefused, "the box refused the join: " + printable(joined.text), options_.job});
      return std::nullopt;
  }
  return Refused::kJoined;
}

std::optional<Refused> WorkerEngine::on_running(const Header& header, const JoinedPayload& joined,
                                                TimeNs now) {
  const auto membership = to_membership(header, joined, options_);
  if (!membership) return Refused::kJoined;
  if (membership->world != options_.world) {
    close({ErrorCode::kRefused,
           "the box runs the job with " + std::to_string(membership->world) +
               " workers, this program expects " + std::to_string(options_.world),
           options_.job});
    return std::nullopt;
  }
  if (membership->generation == forsaken_) {
    unended_ = *membership;
    return std::nullopt;
  }
  enter(*membership, joined.record, now);
  return std::nullopt;
}

// What control adopts is the same generation under a new epoch; anything else is a new one, in which former
// results and numbers mean nothing.
void WorkerEngine::enter(const Membership& membership, const GenerationRecord& record, TimeNs now) {
  if (record != record_ && record_ != GenerationRecord{} && leaving_ != Leaving::kNo) {
    // It takes no part in the new generation, whose members must hear so: an ABORT under the new secrets.
    membership_ = membership;
    const auto code = leaving_ >= Leaving::kBarrier ? ErrorCode::kClosed : ErrorCode::kAborted;
    return fail_job({code, "left while the job began a new generation", options_.job}, nullptr, now);
  }
  if (record != record_) {
    if (record_ != GenerationRecord{})
      stream_.fail_all(
          {ErrorCode::kAborted, "the job began a new generation: some rank joined anew", options_.job});
    if (!stream_.start(membership))
      return close({ErrorCode::kSystem,
                    "no memory for the history of results: lower window or elements of the job",
                    options_.job});
  }
  // The same epoch again (a REJECT that was none of the box's): timers and window go on where they were.
  if (!membership_ || record != record_ || membership.epoch != membership_->epoch) {
    stream_.enter_epoch(membership);
    ++statistics_.epochs;
    live_ = 0;  // who had left an earlier epoch says nothing of this one
  }
  membership_ = membership;
  record_ = record;
  state_ = EngineState::kRunning;
  unjoined_ = 0;
  join_.stop();
  heard_ = now;
  heartbeat_due_ = now + membership.heartbeat_period();
}

std::optional<Refused> WorkerEngine::on_reject(const Header& header, TimeNs now) {
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  if (state_ == EngineState::kClosed || !membership_) return Refused::kState;
  switch (RejectReason{header.slot.host()}) {
    case RejectReason::kWaiting:
      if (const auto wrong = check_current(header)) return wrong;
      return stream_.on_waiting(header);
    case RejectReason::kEpoch:
    case RejectReason::kJob:
      break;
    default:
      return Refused::kReason;
  }
  if (header.job_id() != membership_->job) return Refused::kJob;
  if (header.epoch_id() != membership_->epoch) return Refused::kEpoch;
  ++statistics_.rejects;
  // Once LEAVE was said nothing is owed to anybody, and the job may be gone: LEAVE's own tries bound the
  // rest.
  const bool said_leave = leaving_ == Leaving::kSaying && leave_.tries() != 0;
  if (state_ == EngineState::kRunning && !said_leave) start_joining(now);
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::on_query(const Header& header) {
  if (const auto wrong = check_current(header)) return wrong;
  return stream_.on_query(header);
}

// The box passes it on in the server's name, under its own cookie.
std::optional<Refused> WorkerEngine::on_resend(const Header& header) {
  if (server_index(header.rank_id()) >= kMaxServers) return Refused::kRank;
  if (const auto wrong = check_current(header)) return wrong;
  return stream_.on_resend(header);
}

std::optional<Refused> WorkerEngine::on_echo(const Header& header, TimeNs now) {
  if (const auto wrong = check_from_box(header)) return wrong;
  if (header.type == PacketType::kLeave) {
    if (leaving_ != Leaving::kSaying || leave_.tries() == 0) return Refused::kState;
    close({ErrorCode::kClosed, "left the job"});
    return std::nullopt;
  }
  heard_ = now;
  live_ = header.contributors.host();
  ++statistics_.heartbeat_echoes;
  return std::nullopt;
}

std::optional<Refused> WorkerEngine::on_abort(const Datagram& datagram) {
  if (const auto wrong = check_from_box(datagram.header)) return wrong;
  if (state_ == EngineState::kClosed) {  // the answer to our own
    if (abort_.due() == kNever) return Refused::kState;
    abort_.stop();
    return std::nullopt;
  }
  const std::string text = printable(datagram.payload);
  close({ErrorCode::kAborted, text.empty() ? "the box aborted the job and gave no reason" : text,
         options_.job});
  return std::nullopt;
}

// Sending half of the worker engine, and everything that time alone causes.

namespace {

constexpr std::uint32_t kFarewells = 5;  // LEAVEs or ABORTs without an answer

std::string in_ms(TimeNs t) { return std::to_string(t / kMillisecond) + " ms"; }

}  // namespace

std::size_t WorkerEngine::max_datagram_bytes() const noexcept {
  return kHeaderBytes + std::max({std::size_t{4} * options_.elements, kMaxJoinBytes, kMaxTextBytes});
}

std::size_t WorkerEngine::transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& destination_port) {
  time_out(now);
  settle(now);
  if (out.size() < max_datagram_bytes()) return 0;
  destination_port = kBasePort;
  if (const std::size_t bytes = transmit_control(out, now)) return bytes;
  if (state_ != EngineState::kRunning) return 0;
  const std::size_t bytes = stream_.transmit(out, now, destination_port);
  if (!stream_.failure()) return bytes;
  settle(now);  // an operation failed while it was to be sent: closed now, and control is told
  destination_port = kBasePort;
  return transmit_control(out, now);
}

TimeNs WorkerEngine::deadline() const noexcept {
  if (state_ == EngineState::kClosed) return abort_.due();
  TimeNs first = std::min(heard_ ? *heard_ + silence_limit() : 0, stream_.first_expiry());
  if (state_ == EngineState::kJoining) {
    if (unended_) return 0;
    if (leaving_ >= Leaving::kBarrier) first = std::min(first, joining_since_ + silence_limit());
    return std::min(first, join_.due());
  }
  if (leaving_ == Leaving::kSaying) first = std::min(first, leave_.due());
  return std::min({first, heartbeat_due_, stream_.deadline()});
}

void WorkerEngine::time_out(TimeNs now) {
  if (state_ == EngineState::kClosed) {
    if (abort_.tries() >= kFarewells) abort_.stop();
    return;
  }
  if (!heard_) heard_ = now;
  if (leaving_ == Leaving::kSaying && leave_.tries() >= kFarewells && leave_.due() <= now)
    return close({ErrorCode::kClosed, "left the job; the box did not answer"});
  // The others may be gone for good, and then the job is never formed again.
  if (leaving_ >= Leaving::kBarrier && state_ == EngineState::kJoining &&
      joining_since_ + silence_limit() <= now)
    return close({ErrorCode::kClosed, "left the job while it was being formed again"});
  if (*heard_ + silence_limit() <= now)
    return close({ErrorCode::kUnreachable,
                  "switch unreachable: no answer from its control for " + in_ms(silence_limit()),
                  options_.job});
  if (const EngineOperation* const late = stream_.expired(now)) {
    const std::string ranks = name_ranks(missing());
    const std::string name = "operation " + std::to_string(static_cast<std::uint64_t>(late->id()));
    const StreamFailure failure{
        late->id(),
        {ErrorCode::kTimeout,
         name + " timed out; " +
             (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks),
         options_.job}};
    fail_job(
        {ErrorCode::kAborted, "another operation of this worker failed: " + failure.error.what, options_.job},
        &failure, now);
  }
}

Header WorkerEngine::control_header(PacketType type) const noexcept {
  Header header;
  header.type = type;
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  if (type == PacketType::kJoin || !membership_) return header;
  header.job = Be<std::uint16_t>{raw(membership_->job)};
  header.epoch = Be<std::uint32_t>{raw(membership_->epoch)};
  header.cookie = Be<std::uint64_t>{raw(membership_->cookie)};
  header.chunk = Be<std::uint32_t>{raw(stream_.next_chunk())};
  return header;
}

std::size_t WorkerEngine::transmit_control(std::span<std::byte> out, TimeNs now) {
  if (state_ == EngineState::kJoining) return unended_ ? transmit_end(out) : transmit_join(out, now);
  if (state_ == EngineState::kClosed) return transmit_abort(out, now);
  if (heartbeat_due_ <= now) {
    heartbeat_due_ = now + membership_->heartbeat_period();
    ++statistics_.heartbeats;
    return seal_control(control_header(PacketType::kHeartbeat), 0, out, kernels_);
  }
  if (leaving_ == Leaving::kSaying && leave_.due() <= now) {
    leave_.said(now);
    return seal_control(control_header(PacketType::kLeave), 0, out, kernels_);
  }
  return 0;
}

std::size_t WorkerEngine::transmit_join(std::span<std::byte> out, TimeNs now) {
  if (join_.due() > now) return 0;
  join_.said(now);
  nonce_ = random_.next_nonzero();
  ++statistics_.joins;
  JoinFacts facts{nonce_, ++attempt_, {}, {}, record_};
  if (record_ != GenerationRecord{}) {
    facts.lowest = stream_.lowest_chunk();
    facts.next = stream_.next_chunk();
  }
  const std::size_t payload = write_join(options_, facts, out.subspan(kHeaderBytes));
  return seal_control(control_header(PacketType::kJoin), payload, out, kernels_);
}

// The generation that this engine gave up still runs: an ABORT under the secrets that JOINED has just told.
std::size_t WorkerEngine::transmit_end(std::span<std::byte> out) {
  constexpr std::string_view kWhy = "gave up its membership and joins anew";
  Header header = control_header(PacketType::kAbort);
  header.job = Be<std::uint16_t>{raw(unended_->job)};
  header.epoch = Be<std::uint32_t>{raw(unended_->epoch)};
  header.cookie = Be<std::uint64_t>{raw(unended_->cookie)};
  unended_.reset();
  std::memcpy(out.data() + kHeaderBytes, kWhy.data(), kWhy.size());
  return seal_control(header, kWhy.size(), out, kernels_);
}

std::size_t WorkerEngine::transmit_abort(std::span<std::byte> out, TimeNs now) {
  if (abort_.due() > now) return 0;
  abort_.said(now);
  const std::size_t bytes = std::min(why_closed_.what.size(), kMaxTextBytes);
  std::memcpy(out.data() + kHeaderBytes, why_closed_.what.data(), bytes);
  return seal_control(control_header(PacketType::kAbort), bytes, out, kernels_);
}

}  // namespace tally::engine
