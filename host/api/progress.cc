#include "api/progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tally/check.h"

namespace tally {
namespace {

WorkerMembership for_program(const engine::Membership& m, std::uint16_t rank) {
  WorkerMembership out;
  out.rank = rank;
  out.world = static_cast<std::uint16_t>(m.world);
  out.elements = static_cast<std::uint16_t>(m.elements);
  out.window = m.window;
  out.shards = m.shards;
  out.generation = raw(m.generation);
  out.epoch = raw(m.epoch);
  out.lease = std::chrono::milliseconds(m.lease / kMillisecond);
  out.multicast = m.results == ResultsMode::kMulticast;
  out.racks = m.place.racks;
  out.rack = m.place.rack;
  out.first_rank = m.place.first;
  return out;
}

}  // namespace

Progress::Progress(std::unique_ptr<Transport> transport, std::unique_ptr<engine::WorkerEngine> engine,
                   std::shared_ptr<WorkerView> view, const WorkerOptions& options)
    : transport_(std::move(transport)),
      engine_(std::move(engine)),
      view_(std::move(view)),
      log_(options),
      poll_(options.poll),
      rank_(options.rank),
      boxes_followed_(engine_->boxes_version()) {}

void Progress::post(ProgressRequest request) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    wake = std::exchange(asleep_, false);
    posted_.notify_one();
  }
  if (wake) transport_->wake();
}

void Progress::run() {
  view_->enter_progress_thread();
  read_clock();
  if (const auto attached = transport_->attach(); !attached) return never_started(attached.error());
  log_.attached(*transport_);
  while (!ended()) turn();
  log_.troubled(transport_->trouble(), now_);
  log_.summary(engine_->statistics(), datagrams_);
  fail_requests({ErrorCode::kClosed, "the Worker was destroyed"});
}

void Progress::turn() {
  read_clock();
  bool busy = take_requests();
  busy |= receive();
  follow_membership();
  busy |= transmit();
  finish_operations();
  // Who joins may be unable to send anything, and the transport knows why.
  stale_ |= busy || engine_->state() == engine::EngineState::kJoining;
  const bool late = stale_ && now_ - published_at_ >= kPublishPeriod;
  if (late || (unasked_ && now_ >= trouble_due_)) publish();
  if (!busy && !ended()) rest();
}

void Progress::read_clock() noexcept { now_ = std::max(now_, steady_now()); }

bool Progress::take_requests() {
  {
    const std::lock_guard lock(mutex_);
    if (requests_.empty()) return false;
    taken_.swap(requests_);
  }
  for (auto& request : taken_) std::visit([this](auto& each) { handle(each); }, request);
  taken_.clear();
  return true;
}

void Progress::handle(ReduceRequest& request) {
  if (request.refused) return finish(request.state, tl::unexpected(std::move(*request.refused)));
  const auto submitted = engine_->allreduce(request.type, std::move(request.segments), now_, request.options);
  if (!submitted) return finish(request.state, tl::unexpected(submitted.error()));
  pending_.emplace(static_cast<std::uint64_t>(*submitted), std::move(request.state));
}

void Progress::handle(const AbortRequest& request) { engine_->abort(request.reason, now_); }
void Progress::handle(const LeaveRequest& /*request*/) { engine_->leave(now_); }

void Progress::handle(const StopRequest& /*request*/) {
  stopping_ = true;
  stop_at_ = now_ + kFarewell;
  engine_->abort("the worker was destroyed", now_);
}

bool Progress::receive() {
  const std::size_t received =
      transport_->receive([this](std::span<const std::byte> datagram, std::size_t box) {
        ++datagrams_;
        engine_->receive(datagram, now_, box);
        follow_boxes();  // before the next one is told by a place in the list
      });
  return received != 0;
}

// The transport must know the box before the first contribution leaves.
void Progress::follow_membership() {
  const auto& membership = engine_->membership();
  if (!membership) return;
  const EngineStatistics& statistics = engine_->statistics();
  if (epochs_followed_ == statistics.epochs && box_mac_ == membership->box_mac) return;
  epochs_followed_ = statistics.epochs;
  // Numbering has started afresh, and what was pending has failed, here or elsewhere: the program's next
  // operation could meet another step of another rank, of equal size. So a Worker lives in one generation
  // only.
  if (raw(generation_) != 0 && membership->generation != generation_)
    engine_->abort("the job began a new generation, because a rank joined anew: join again", now_);
  generation_ = membership->generation;
  box_mac_ = membership->box_mac;
  transport_->joined(*membership);
  log_.joined(*membership, statistics, *transport_);
  publish();
  const WorkerMembership said = for_program(*membership, rank_);
  view_->publish(true, [&](WorkerView::Content& content) { content.membership = said; });
}

void Progress::follow_boxes() {
  if (boxes_followed_ == engine_->boxes_version()) return;
  boxes_followed_ = engine_->boxes_version();
  std::vector<BoxAddress> boxes;
  for (const Ipv6& address : engine_->boxes()) boxes.push_back({address});
  for (std::size_t box = 1; box < boxes.size(); ++box)
    if (engine_->guest(box).running()) boxes[box].mac = engine_->guest(box).mac();
  const auto set = transport_->set_boxes(boxes);
  if (!set) return engine_->abort(set.error().what, now_);
  if (engine_->max_datagram_bytes() > transport_->most_bytes())
    engine_->abort("the job is summed by several boxes, and the path to them carries datagrams of " +
                       std::to_string(transport_->most_bytes()) + " bytes; pages of its plan take " +
                       std::to_string(engine_->max_datagram_bytes()) + ": an MTU of 1500 is enough",
                   now_);
}

bool Progress::transmit() {
  path_full_ = false;
  if (engine_->deadline() > now_) return false;
  const std::span<Outbound> room = transport_->lend(kBurst, engine_->max_datagram_bytes());
  engine::Destination to;
  if (room.empty()) {
    path_full_ = true;
    (void)engine_->transmit({}, now_, to);  // sends nothing, but times out what is late
    return false;
  }
  std::size_t filled = 0;
  while (filled < room.size()) {
    Outbound& out = room[filled];
    out.bytes = engine_->transmit(out.room, now_, to);
    if (out.bytes == 0) break;
    out.destination_port = to.port;
    out.box = to.box;
    ++filled;
  }
  follow_boxes();  // who joins may have turned to another box, and says nothing but that then
  transport_->send(filled);
  return filled != 0;
}

void Progress::finish_operations() {
  auto completion = engine_->next_completion();
  const bool closing = !closed_published_ && engine_->state() == engine::EngineState::kClosed;
  if (completion || closing || (closed_published_ && !told_published_ && told())) publish();
  for (; completion; completion = engine_->next_completion()) {
    const auto found = pending_.find(static_cast<std::uint64_t>(completion->id));
    TALLY_CHECK(found != pending_.end(), "the engine finished an operation that nobody issued");
    const std::shared_ptr<OperationState> state = std::move(found->second);
    pending_.erase(found);
    finish(state, std::move(completion->result));
  }
}

void Progress::finish(const std::shared_ptr<OperationState>& state, Result<OperationStats> result) {
  if (stopping_ && !result)
    result = fail(ErrorCode::kClosed,
                  "the Worker was destroyed before the operation was done: " + result.error().what);
  state->finish(std::move(result));
  TALLY_CHECK(!view_->foreign(), "a callback forked, and its child returned from it; it must exec or _exit");
}

bool Progress::told() const noexcept {
  return engine_->state() == engine::EngineState::kClosed && engine_->deadline() == kNever;
}

bool Progress::ended() const noexcept { return stopping_ && (told() || now_ >= stop_at_); }

void Progress::publish() {
  stale_ = false;
  published_at_ = now_;
  const EngineStatistics& statistics = engine_->statistics();
  log_.changed(statistics);
  if (engine_->state() == engine::EngineState::kJoining)
    log_.waiting(engine_->missing(), engine_->first_rank());
  const bool closed = engine_->state() == engine::EngineState::kClosed;
  const bool news = (closed && !closed_published_) || (told() && !told_published_);
  if (closed && !closed_published_) log_.closed(engine_->why_closed());
  closed_published_ = closed;
  told_published_ = told();
  // Asking may take calls of the kernel, and small operations are done every few microseconds.
  const bool asks = news || now_ >= trouble_due_;
  unasked_ = !asks;
  std::string trouble;
  if (asks) {
    trouble_due_ = now_ + kPublishPeriod;
    trouble = transport_->trouble();
    log_.troubled(trouble, now_);
  }
  view_->publish(news, [&](WorkerView::Content& content) {
    content.statistics = statistics;
    if (asks) content.trouble = std::move(trouble);
    content.missing = engine_->missing();
    content.first_rank = engine_->first_rank();
    content.datagrams = datagrams_;
    content.told = told_published_;
    if (closed && !content.closed) content.closed = engine_->why_closed();
  });
}

void Progress::rest() {
  if (stale_) publish();
  if (told()) return rest_closed();
  if (poll_) return transport_->wait(now_, now_);
  TimeNs until = std::min(engine_->deadline(), stop_at_);
  if (path_full_) until = std::min(stop_at_, now_ + kPathRetry);
  if (unasked_) until = std::min(until, trouble_due_);
  {
    const std::lock_guard lock(mutex_);
    if (!requests_.empty()) return;
    asleep_ = true;
  }
  transport_->wait(now_, until);
  const std::lock_guard lock(mutex_);
  asleep_ = false;
}

// Closed and nothing left to say: nothing that arrives matters any more, also with `poll`.
void Progress::rest_closed() {
  std::unique_lock lock(mutex_);
  posted_.wait(lock, [this] { return !requests_.empty(); });
}

// Nothing runs, but what is posted is answered until the Worker is destroyed.
void Progress::never_started(const Error& error) {
  view_->publish(true, [&](WorkerView::Content& content) {
    content.closed = error;
    content.told = true;
  });
  while (!stopping_) {
    rest_closed();
    fail_requests(error);
  }
}

void Progress::fail_requests(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(requests_);
  }
  for (auto& request : taken_) {
    if (std::holds_alternative<StopRequest>(request)) stopping_ = true;
    if (auto* const reduce = std::get_if<ReduceRequest>(&request))
      reduce->state->finish(tl::unexpected(error));
  }
  taken_.clear();
}

}  // namespace tally
