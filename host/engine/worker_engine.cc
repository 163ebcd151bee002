#include "engine/worker_engine.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine_operation.h"
#include "engine/worker_join.h"

namespace tally::engine {
namespace {

constexpr TimeNs kLeastRtoFloor = kMicrosecond;
constexpr TimeNs kAbsent = 100 * kMillisecond;        // so late a caller did not run
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
  if (o.world < 1 || o.world > kMaxWorld)
    return refuse("world: " + std::to_string(o.world) + " is not in 1..4096");
  if (raw(o.rank) >= o.world)
    return refuse("rank: " + std::to_string(raw(o.rank)) + " is not below world " + std::to_string(o.world));
  if (o.elements == 0 || !valid_elements(o.elements))
    return refuse("elements: " + std::to_string(o.elements) + " is not a multiple of 16 in 16..2224");
  if (o.rto_floor < kLeastRtoFloor || o.rto_floor > kRtoCeiling)
    return refuse("rto_floor: " + std::to_string(o.rto_floor) + " ns is not in 1 us..1 s");
  if (o.unreachable_after == 0 || o.unreachable_after > kGreatestSilence)
    return refuse("unreachable_after: " + std::to_string(o.unreachable_after) + " ns is not in 1 ns..1 h");
  if (o.boxes.size() > kMaxPlanBoxes)
    return refuse("boxes: " + std::to_string(o.boxes.size()) + " addresses; at most " +
                  std::to_string(kMaxPlanBoxes) + " are taken");
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
    : seat_(std::move(options), kernels),
      kernels_(kernels),
      guests_(seat_.speaker()),
      stream_(seat_.options().priority, seat_.options().rto_floor, kernels, statistics_) {
  list_boxes();
}

Result<OperationId> WorkerEngine::allreduce(ElementType type, std::vector<Segment> segments, TimeNs now,
                                            const OperationOptions& options) {
  return submit(type, std::move(segments), now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const float>> in,
                                            std::span<const std::span<float>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(ElementType::kFloat32, std::move(*segments), now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const std::int32_t>> in,
                                            std::span<const std::span<std::int32_t>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(ElementType::kInt32, std::move(*segments), now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<float>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(ElementType::kFloat32, *segments_of(spans, spans), now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<std::int32_t>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(ElementType::kInt32, *segments_of(spans, spans), now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<float> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(ElementType::kFloat32, {{values.data(), values.data(), values.size()}}, now, options);
}

Result<OperationId> WorkerEngine::allreduce(std::span<std::int32_t> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(ElementType::kInt32, {{values.data(), values.data(), values.size()}}, now, options);
}

Result<OperationId> WorkerEngine::barrier(TimeNs now, const OperationOptions& options) {
  return submit(ElementType::kInt32, {}, now, options);
}

Result<OperationId> WorkerEngine::submit(ElementType type, std::vector<Segment> segments, TimeNs now,
                                         const OperationOptions& options) {
  notice_absence(now);
  if (state() == EngineState::kClosed)
    return fail(ErrorCode::kClosed, "the worker is closed: " + why_closed_.what);
  if (leaving_ != Leaving::kNo) return fail(ErrorCode::kClosed, "the worker is leaving");
  if (auto why = objection_to(options.priority); !why.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(why));
  if (options.wire == WireType::kExact && seat_.options().world > kMaxRanks)
    return fail(ErrorCode::kInvalidArgument,
                "wire: exact sums are for jobs of up to 64 workers; this one has " +
                    std::to_string(seat_.options().world));
  if (!is_float(type)) {
    if (options.mean) return fail(ErrorCode::kInvalidArgument, "mean: only sums of float have one");
    if (options.wire == WireType::kInt16 || options.wire == WireType::kExact)
      return fail(ErrorCode::kInvalidArgument, "wire: int16 and exact are for floats");
    if (options.non_finite != NonFinite::kFail)
      return fail(ErrorCode::kInvalidArgument, "non_finite: integers are all finite");
  }
  add(type, wire_dtype(type, options.wire), std::move(segments), now, options, true);
  return OperationId{last_operation_};
}

void WorkerEngine::add(ElementType type, Dtype dtype, std::vector<Segment> segments, TimeNs now,
                       const OperationOptions& options, bool reported) {
  auto operation = std::make_unique<EngineOperation>(OperationId{++last_operation_}, type, dtype,
                                                     std::move(segments), options, now);
  operation->reported = reported;
  stream_.submit(std::move(operation));
}

std::size_t WorkerEngine::pending_operations() const noexcept {
  return stream_.pending() - (leaving_ >= Leaving::kBarrier && stream_.pending() != 0 ? 1 : 0);
}

void WorkerEngine::abort(std::string_view reason, TimeNs now) {
  if (state() == EngineState::kClosed) return;
  fail_job({ErrorCode::kAborted, "aborted here: " + std::string(reason)}, nullptr, now);
}

void WorkerEngine::leave(TimeNs now) {
  notice_absence(now);
  if (state() == EngineState::kClosed || leaving_ != Leaving::kNo) return;
  if (!seat_.membership() && stream_.pending() == 0) {
    close({ErrorCode::kClosed, "left before the job was formed"});
    return seat_.give_up(now);
  }
  leaving_ = Leaving::kDraining;
  settle(now);
}

Result<void> WorkerEngine::rejoin(TimeNs now) {
  if (state() != EngineState::kClosed)
    return fail(ErrorCode::kInvalidArgument, "rejoin: the worker is not closed");
  why_closed_ = {};
  seat_.forsake();
  seat_.join_anew(now);
  live_ = 0;
  leaving_ = Leaving::kNo;
  return {};
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
    add(ElementType::kInt32, Dtype::kFarewell, {}, now, {}, false);
  } else if (leaving_ == Leaving::kBarrier && (stream_.pending() == 0 || somebody_left())) {
    leaving_ = Leaving::kSaying;
    seat_.leave(now);
  }
}

// Who left had the barrier's result, so every rank had all of its own. The box may have forgotten that
// result, its slot being somebody else's by now, and there may be no rank any more to ask for it.
bool WorkerEngine::somebody_left() const noexcept {
  return live_ != 0 && (seat_.membership()->members() & ~live_) != 0;
}

void WorkerEngine::close(Error error) {
  stream_.fail_all(error);
  seat_.close();
  guests_.leave();
  why_closed_ = std::move(error);
}

void WorkerEngine::fail_job(const Error& error, const StreamFailure* culprit, TimeNs now) {
  const Error reason = culprit == nullptr ? error : culprit->error;
  stream_.fail_all(error, culprit);
  seat_.close();
  guests_.leave();
  why_closed_ = reason;
  seat_.membership() ? void(seat_.abort(why_closed_.what, now)) : seat_.give_up(now);
}

void WorkerEngine::receive(std::span<const std::byte> bytes, TimeNs now, std::size_t box) noexcept {
  notice_absence(now);
  Datagram datagram;
  auto refused = open_datagram(bytes, kernels_, datagram);
  if (!refused) refused = box < boxes_.size() ? dispatch(datagram, now, box) : std::optional(Refused::kPeer);
  if (refused) ++statistics_.refused[static_cast<std::size_t>(*refused)];
  settle(now);
}

std::optional<Refused> WorkerEngine::dispatch(const Datagram& datagram, TimeNs now, std::size_t box) {
  const Header& header = datagram.header;
  const bool waiting =
      header.type == PacketType::kReject && RejectReason{header.slot.host()} == RejectReason::kWaiting;
  if (is_control(header.type) || (header.type == PacketType::kReject && !waiting))
    return box == 0 ? on_control(datagram, now) : on_guest(datagram, now, box);
  if (state() == EngineState::kClosed) return Refused::kState;
  // A QUERY is of another rank, a RESEND of a server; the box passes them on under its own cookie.
  const Rank from = header.rank_id();
  if (header.type == PacketType::kResend ? server_index(from) >= kMaxServers
                                         : header.type != PacketType::kQuery && from != kSwitchRank)
    return Refused::kRank;
  if (const auto wrong = box == 0 ? seat_.check_current(header) : guests_.at(box).check_current(header))
    return wrong;
  if (header.type == PacketType::kQuery) return stream_.on_query(header, box);
  if (header.type == PacketType::kResend) return stream_.on_resend(header, box);
  if (header.type == PacketType::kNack) return stream_.on_nack(header, box);
  if (waiting) return stream_.on_waiting(header, now, box);
  if (header.type == PacketType::kZeroRun)
    return box == 0 ? stream_.on_zero_run(datagram, now) : std::optional(Refused::kType);
  const auto wrong = stream_.on_result(datagram, now, box);
  if (box != 0 && !wrong) guests_.at(box).heard(now);
  return wrong;
}

// Of a box of the plan that is not the home.
std::optional<Refused> WorkerEngine::on_guest(const Datagram& datagram, TimeNs now, std::size_t box) {
  if (state() == EngineState::kClosed) return Refused::kState;
  GuestNews news;
  GuestSeat& guest = guests_.at(box);
  if (const auto wrong = guest.receive(datagram, now, news)) return wrong;
  switch (news.kind) {
    case GuestNews::Kind::kNone:
    case GuestNews::Kind::kEcho:
      break;
    case GuestNews::Kind::kRunning:
      stream_.open_box(box, guest.job(), guest.shards());
      ++boxes_version_;  // its MAC is known
      break;
    case GuestNews::Kind::kHint:
      ++statistics_.hints;
      break;
    case GuestNews::Kind::kRefused:
    case GuestNews::Kind::kForgot:
      tell_lost(now);
      break;
    case GuestNews::Kind::kAborted:
      fail_job({ErrorCode::kAborted,
                "a box of the plan ended the job" + (news.text.empty() ? "" : ": " + news.text),
                seat_.options().job},
               nullptr, now);
      break;
  }
  return std::nullopt;
}

// Boxes that this rank cannot use any more in this epoch. The home calls everybody together, for a plan without them.
void WorkerEngine::tell_lost(TimeNs now) {
  std::uint64_t lost = 0;
  for (std::size_t box = 1; box <= guests_.size(); ++box) {
    const GuestSeat& guest = guests_.at(box);
    if (guest.state() != GuestState::kGone && guest.state() != GuestState::kForgot) continue;
    ++lost;
    stream_.shut_box(box);
  }
  statistics_.boxes_lost += lost - lost_in_epoch_;
  lost_in_epoch_ = lost;
  seat_.tell_lost(guests_.gone(), guests_.forgot(), now);
}

void WorkerEngine::list_boxes() {
  boxes_.assign(1, seat_.address());
  address_version_ = seat_.address_version();
  ++boxes_version_;
  for (std::size_t box = 1; box <= guests_.size(); ++box) boxes_.push_back(guests_.address(box));
}

std::optional<Refused> WorkerEngine::on_control(const Datagram& datagram, TimeNs now) {
  SeatNews news;
  if (const auto wrong = seat_.receive(datagram, now, news)) return wrong;
  if (seat_.address_version() != address_version_) list_boxes();
  switch (news.kind) {
    case SeatNews::Kind::kNone:
    case SeatNews::Kind::kForming:
      break;
    case SeatNews::Kind::kSameEpoch:
    case SeatNews::Kind::kNewEpoch:
    case SeatNews::Kind::kNewGeneration:
      on_offer(news, now);
      break;
    case SeatNews::Kind::kRefused:
      on_refused(news);
      break;
    case SeatNews::Kind::kTold:  // said when the joining ends without success
      break;
    case SeatNews::Kind::kHint:
      ++statistics_.hints;
      break;
    case SeatNews::Kind::kCalled:
      ++statistics_.rejects;
      // Once LEAVE was said nothing is owed to anybody, and the job may be gone: LEAVE's own tries bound the
      // rest.
      if (state() != EngineState::kRunning || seat_.said_leave()) break;
      ask_again(now);
      break;
    case SeatNews::Kind::kEcho:
      live_ = datagram.header.contributors.host();
      ++statistics_.heartbeat_echoes;
      break;
    case SeatNews::Kind::kLeft:
      close({ErrorCode::kClosed, "left the job"});
      break;
    case SeatNews::Kind::kAborted:
      close({ErrorCode::kAborted,
             news.text.empty() ? "the box aborted the job and gave no reason" : news.text,
             seat_.options().job});
      break;
  }
  return std::nullopt;
}

void WorkerEngine::on_refused(const SeatNews& news) {
  const std::string& job = seat_.options().job;
  if (leaving_ >= Leaving::kBarrier)  // every result is held: the others were faster, nothing failed
    return close({ErrorCode::kClosed, "left the job; the box said: " + news.text, job});
  close({ErrorCode::kRefused, "the box refused the join: " + news.text, job});
}

// What control adopts is the same generation under a new epoch; anything else is a new one.
void WorkerEngine::on_offer(const SeatNews& news, TimeNs now) {
  const EngineOptions& options = seat_.options();
  if (news.offer.world != options.world)
    return close({ErrorCode::kRefused,
                  "the box runs the job with " + std::to_string(news.offer.world) +
                      " workers, this program expects " + std::to_string(options.world),
                  options.job});
  const bool anew = news.kind == SeatNews::Kind::kNewGeneration;
  const bool in_one = seat_.membership().has_value();
  if (anew && in_one && leaving_ != Leaving::kNo) {
    // It takes no part in the new generation, whose members must hear so: an ABORT under the new secrets.
    seat_.enter(news.offer, now);
    const auto code = leaving_ >= Leaving::kBarrier ? ErrorCode::kClosed : ErrorCode::kAborted;
    return fail_job({code, "left while the job began a new generation", options.job}, nullptr, now);
  }
  if (anew) {
    if (in_one) {
      const std::string who = news.anew == 0 ? "some rank" : name_ranks(news.anew, news.offer.place.first);
      stream_.fail_all(
          {ErrorCode::kAborted, "the job began a new generation: " + who + " joined anew", options.job});
    }
    if (!stream_.start(news.offer))
      return close({ErrorCode::kSystem,
                    "no memory for the history of results: lower window or elements of the job",
                    options.job});
  }
  seat_.enter(news.offer, now);
  // The same epoch again (a REJECT that was none of the box's): timers and window go on where they were.
  if (news.kind == SeatNews::Kind::kSameEpoch) return guests_.resume(now);
  const bool planned = news.offer.plan != nullptr || guests_.size() != 0;
  if (planned) {
    guests_.enter(news.offer, now);
    list_boxes();
    lost_in_epoch_ = 0;
    if (news.offer.plan) ++statistics_.plans;
  }
  stream_.enter_epoch(news.offer, boxes_);
  ++statistics_.epochs;
  live_ = 0;  // who had left an earlier epoch says nothing of this one
}

std::size_t WorkerEngine::transmit(std::span<std::byte> out, TimeNs now, Destination& to) {
  notice_absence(now);
  time_out(now);
  settle(now);
  if (out.size() < max_datagram_bytes()) return 0;
  if (const std::size_t bytes = transmit_control(out, now, to)) return bytes;
  if (state() != EngineState::kRunning) return 0;
  const std::size_t bytes = stream_.transmit(out, now, to);
  if (!stream_.failure()) return bytes;
  settle(now);  // an operation failed while it was to be sent: closed now, and control is told
  return transmit_control(out, now, to);
}

TimeNs WorkerEngine::deadline() const noexcept {
  const TimeNs guests = guests_.size() == 0 ? kNever : guests_.due();
  if (state() == EngineState::kClosed) return std::min(seat_.due(), guests);
  TimeNs first = std::min({seat_.due(), seat_.silent_at(), stream_.first_expiry(), guests});
  if (state() == EngineState::kRunning) return std::min({first, stream_.deadline(), doubtful_at()});
  return leaving_ >= Leaving::kBarrier ? std::min(first, joining_since_ + seat_.silence_limit()) : first;
}

// Before an input changes when the caller had to come. Whoever had nothing to do was not away.
void WorkerEngine::notice_absence(TimeNs now) noexcept {
  const TimeNs ran = std::exchange(ran_at_, now);
  if (ran == kNever || now < ran + kAbsent) return;
  const TimeNs awaited = std::max(deadline(), ran);
  if (awaited > now || now - awaited < kAbsent) return;
  seat_.was_away(now - awaited, now);
  guests_.was_away(now - awaited, now);
  stream_.was_away(awaited, now);
}

void WorkerEngine::ask_again(TimeNs now) {
  joining_since_ = now;
  seat_.join_again(now);
  guests_.suspend();
}

// While results come the epoch lives, however busy control is.
TimeNs WorkerEngine::doubtful_at() const noexcept {
  const TimeNs seat = seat_.doubtful_at();
  if (seat == kNever || !stream_.answered_at()) return seat;
  return std::max(seat, *stream_.answered_at() + seat_.membership()->lease / 2);
}

void WorkerEngine::time_out(TimeNs now) {
  if (state() == EngineState::kClosed) return;
  const TimeNs limit = seat_.silence_limit();
  const std::string& job = seat_.options().job;
  const bool silent = seat_.silent(now);
  // Every rank has every result: a box that is silent now costs nobody anything.
  if (seat_.leave_unanswered(now) || (silent && seat_.said_leave()))
    return close({ErrorCode::kClosed, "left the job; the box did not answer"});
  // The others may be gone for good, and then the job is never formed again.
  if (leaving_ >= Leaving::kBarrier && state() == EngineState::kJoining && joining_since_ + limit <= now)
    return close({ErrorCode::kClosed, "left the job while it was being formed again"});
  if (silent)
    return close({ErrorCode::kUnreachable,
                  "switch unreachable: no answer from its control for " +
                      std::to_string(limit / kMillisecond) + " ms" +
                      (seat_.told().empty() ? "" : "; somebody, perhaps the box, said: " + seat_.told()),
                  job});
  if (doubtful_at() <= now) ask_again(now);
  if (guests_.size() != 0 && guests_.time_out(now)) tell_lost(now);
  if (const EngineOperation* const late = stream_.expired(now)) {
    const std::string ranks = name_ranks(missing(), first_rank());
    const std::string name = "operation " + std::to_string(static_cast<std::uint64_t>(late->id()));
    const StreamFailure failure{
        late->id(),
        {ErrorCode::kTimeout,
         name + " timed out; " +
             (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks),
         job}};
    fail_job({ErrorCode::kAborted, "another operation of this worker failed: " + failure.error.what, job},
             &failure, now);
  }
}

std::size_t WorkerEngine::transmit_control(std::span<std::byte> out, TimeNs now, Destination& to) {
  to = {};
  if (seat_.due() <= now) {
    const Said said = seat_.transmit(out, {stream_.lowest_chunk(), stream_.next_chunk()}, now);
    if (said.type == PacketType::kJoin) ++statistics_.joins;
    if (said.type == PacketType::kHeartbeat) ++statistics_.heartbeats;
    if (seat_.address_version() != address_version_) list_boxes();
    if (said.bytes != 0) return said.bytes;
  }
  if (guests_.size() == 0) return 0;
  const Said said = guests_.transmit(out, stream_.next_chunk(), now, to.box);
  if (said.type == PacketType::kEnlist) ++statistics_.enlists;
  if (said.type == PacketType::kHeartbeat) ++statistics_.heartbeats;
  return said.bytes;
}

}  // namespace tally::engine
