#include "server_host.h"

#include <cstring>
#include <string>

#include "broken.h"
#include "job_rows.h"
#include "jobs.h"
#include "kernels/kernels.h"

namespace tally::experiment {

ServerHost::ServerHost(sim::Schedule& time, Packets& packets, const std::vector<const jobs::Job*>& jobs,
                       GapRepair* gaps)
    : time_(time), packets_(packets), gaps_(gaps) {
  constexpr std::size_t kStates = 8'192;
  ps::PsOptions options;
  options.elements = kElements;
  options.instance = raw(jobs.front()->id);
  options.seed = raw(jobs.front()->generation);
  options.memory = kStates * jobs::entry_lines(kElements) * sizeof(jobs::Line);
  for (const jobs::Job* job : jobs) {
    options.jobs.push_back({.job = name_of(*job)});
    headers_.resize(raw(job->id) + 1U, OuterHeaders(job->server_ranks[0].binding, test_box()));
    headers_.back() = OuterHeaders(job->server_ranks[0].binding, test_box());
  }
  auto engine = ps::PsEngine::create(options, kernels::best_kernels());
  if (!engine) broken("the server refuses its options: " + engine.error().text());
  engine_ = std::move(*engine);
  out_.resize(engine_->max_datagram_bytes());
}

std::span<const std::byte> ServerHost::say_join() {
  std::uint16_t port = 0;
  return std::span{out_}.first(engine_->transmit(out_, time_.now(), port));
}

void ServerHost::hear(std::span<const std::byte> datagram) { engine_->receive(datagram, time_.now()); }

bool ServerHost::running() const {
  for (std::size_t job = 0; job < engine_->jobs(); ++job)
    if (!engine_->member(job).membership()) return false;
  return true;
}

void ServerHost::on_event(std::uint32_t what, std::uint32_t detail) {
  if (what == kReceive) {
    const Header h = pipeline::header_at(packets_[detail].datagram());
    if (gaps_ != nullptr) gaps_->at_server(h.job_id(), h.chunk_id());
    engine_->receive(packets_[detail].view(), time_.now());
    packets_.release(detail);
  } else {
    if (time_.now() != wake_) return;  // an earlier one came in between
    wake_ = kNever;
  }
  service();
}

void ServerHost::service() {
  std::uint16_t port = 0;
  while (const std::size_t bytes = engine_->transmit(out_, time_.now(), port)) {
    const Header h = pipeline::header_at(out_.data());
    if (is_control(h.type)) continue;  // a heartbeat: leases are longer than runs
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.datagram_bytes = static_cast<std::uint16_t>(bytes);
    std::memcpy(packet.datagram(), out_.data(), bytes);
    headers_[h.job.host()].put(packet, port);
    to_box_->send(id);
  }
  if (const TimeNs deadline = engine_->deadline(); deadline < wake_) {
    wake_ = deadline;
    time_.at(deadline, *this, kWake);
  }
}

}  // namespace tally::experiment
