#include "server_node.h"

#include <algorithm>
#include <utility>

#include "host_stack.h"
#include "jobs.h"
#include "jobs/job_table.h"
#include "tally/check.h"

namespace tally::sim {

ServerNode::ServerNode(Schedule& schedule, std::uint64_t seed, ServerOptions options, Send send, Alarm alarm)
    : schedule_(schedule),
      rng_(seed),
      options_(std::move(options)),
      send_(std::move(send)),
      alarm_(std::move(alarm)) {}

void ServerNode::start() {
  if (alive()) return;
  ++life_;
  wake_ = kNever;
  events_.clear();
  ps::PsOptions o;
  o.jobs = options_.jobs;
  o.elements = options_.elements;
  for (const jobs::Box& box : options_.boxes) o.boxes.push_back(mapped(box.ipv4));
  o.instance = rng_.next();
  o.seed = rng_.next();
  o.memory = options_.states * jobs::entry_lines(options_.elements) * sizeof(jobs::Line);
  const auto tables = kernels::usable_kernels();
  auto engine = ps::PsEngine::create(o, *tables[rng_.below(tables.size())]);
  if (!engine) return alarm_("the server engine refuses its options: " + engine.error().text());
  engine_ = std::move(*engine);
  service();
}

void ServerNode::crash() {
  ++life_;
  engine_.reset();
  inbox_.clear();
}

bool ServerNode::running() const noexcept {
  if (!alive()) return false;
  for (std::size_t job = 0; job < engine_->jobs(); ++job) {
    if (engine_->member(job).joining()) return false;
  }
  return true;
}

void ServerNode::pause(TimeNs until) {
  paused_until_ = std::max(paused_until_, until);
  schedule_.at(until, [this] {
    if (engine_ == nullptr || schedule_.now() < paused_until_) return;  // a longer pause began meanwhile
    while (!inbox_.empty()) {
      const Bytes frame = std::move(inbox_.front());
      inbox_.pop_front();
      receive(frame);
    }
    service();
  });
}

void ServerNode::receive(const Bytes& frame) {
  if (engine_ == nullptr) return;
  if (schedule_.now() < paused_until_) {
    if (inbox_.size() < kInbox) inbox_.push_back(frame);
    return;
  }
  const auto datagram = unwrap(frame, options_.binding);
  if (datagram.data() == nullptr) return;
  const Bytes exact(datagram.begin(), datagram.end());  // its own heap block: over-reads are found
  engine_->receive(exact, schedule_.now(), options_.boxes.empty() ? Ipv6{} : source_of(frame));
  const server::MergeCounters& memory = engine_->memory();
  if (memory.incomplete + memory.complete > engine_->capacity())
    alarm_("a server holds more states than its memory does");
  service();
}

void ServerNode::wake_at(TimeNs when) {
  if (when >= wake_) return;
  wake_ = when;
  schedule_.at(when, [this, when, life = life_] {
    if (life != life_ || wake_ != when) return;
    wake_ = kNever;
    service();
  });
}

void ServerNode::service() {
  if (engine_ == nullptr || schedule_.now() < paused_until_) return;
  Bytes out;
  const jobs::Box only = test_box();
  for (;;) {
    out.resize(engine_->max_datagram_bytes());
    ps::PsDestination to;
    const std::size_t bytes = engine_->transmit(out, schedule_.now(), to);
    if (bytes == 0) break;
    const jobs::Box* const box = options_.boxes.empty() ? &only : box_at(options_.boxes, to.box);
    TALLY_CHECK(box != nullptr, "a plan names boxes that there are");
    send_(options_.index, wrap(std::span{out}.first(bytes), options_.binding, *box, to.port));
  }
  while (auto event = engine_->next_event()) events_.push_back(std::move(event->text));
  const TimeNs deadline = engine_->deadline();
  if (deadline <= schedule_.now())
    return alarm_("the server engine's deadline does not lie ahead after transmit() returned 0");
  if (deadline != kNever) wake_at(deadline);
}

}  // namespace tally::sim
