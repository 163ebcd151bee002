#include "server_node.h"

#include <utility>

#include "jobs.h"
#include "jobs/job_table.h"
#include "tally/check.h"

namespace tally::sim {

ServerNode::ServerNode(Schedule& schedule, std::uint64_t seed, ServerOptions options, Send send, Alarm alarm)
    : HostProcess(schedule, options.binding),
      rng_(seed),
      options_(std::move(options)),
      send_(std::move(send)),
      alarm_(std::move(alarm)) {}

void ServerNode::start() {
  if (alive()) return;
  begin_life();
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
  end_life();
  engine_.reset();
}

bool ServerNode::running() const noexcept {
  if (!alive()) return false;
  for (std::size_t job = 0; job < engine_->jobs(); ++job) {
    if (engine_->member(job).joining()) return false;
  }
  return true;
}

void ServerNode::take(std::span<const std::byte> datagram, const Ipv6& source) {
  engine_->receive(datagram, schedule_.now(), options_.boxes.empty() ? Ipv6{} : source);
  const server::MergeCounters& memory = engine_->memory();
  if (memory.incomplete + memory.complete > engine_->capacity())
    alarm_("a server holds more states than its memory does");
  service();
}

void ServerNode::service() {
  if (!runs()) return;
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
