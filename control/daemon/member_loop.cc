#include "daemon/member_loop.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "members/texts.h"
#include "tally/switchml.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

std::vector<std::string> port_names(const Plane& plane) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plane.ports(); ++i)
    names.push_back(plane.port_name(PortIndex{static_cast<std::uint16_t>(i)}));
  return names;
}

// Whether the packet can change more than a lease. The engine verifies it; here only work is saved.
bool changes_more_than_a_lease(std::span<const std::byte> datagram) noexcept {
  if (datagram.size() < kHeaderBytes) return false;
  const auto type = static_cast<PacketType>(datagram[offsetof(Header, type)]);
  return type != PacketType::kHeartbeat && type != PacketType::kProbe;
}

// Of a session whose members ask in vain. The data core tells it once a minute at most.
std::string stall_text(const pipeline::Event& event, const members::JobStatus& session, TimeNs now) {
  const std::uint64_t missing = members_of(session.world) & ~event.others;
  std::string text = "job '" + session.name + "': for " + members::seconds_text(now - event.since) +
                     " members have asked and nothing was added; last " + members::rank_text(event.rank) +
                     ", for slot " + std::to_string(event.pool_index & switchml::kSlotMask) + ", set " +
                     ((event.pool_index & switchml::kSetBit) != 0 ? "1" : "0") + ", operation number " +
                     std::to_string(event.job_number) + ", tsi " + std::to_string(raw(event.chunk));
  if (event.refused)
    return text +
           ": what it sends does not follow on what the session holds. If its clients were started "
           "again, begin the session anew: another `run:`, and a reload (docs/troubleshooting.md)";
  if (missing != 0) return text + ": it waits for " + members::ranks_text(missing);
  return text + ": the result is sent to it again and again; look at its link";
}

}  // namespace

MemberLoop::MemberLoop(Plane& plane, members::MembershipEngine engine, LogSink log, TimeNs now)
    : plane_(plane),
      engine_(std::move(engine)),
      log_(log),
      watch_(std::move(log), port_names(plane)),
      shares_(plane),
      turned_(now) {
  engine_.listen([&plane](JobId id, Rank rank) {
    TimeNs newest = 0;
    for (std::size_t core = 0; core < plane.cores(); ++core)
      newest = std::max(newest, plane.state(core, id).last_seen[raw(rank)].get());
    return newest;
  });
}

bool MemberLoop::turn(TimeNs now) {
  if (now > turned_ + kLate) engine_.unheard(now - turned_, now);
  turned_ = now;
  std::optional<io::Punt> punt = plane_.next_punt(buffer_);
  std::optional<pipeline::Event> event = plane_.next_event();
  bool changed = event.has_value();
  if (punt || event || now >= engine_.deadline()) {
    const bool due = now >= engine_.deadline();
    changed = take_punts(punt, now) || changed;
    for (; event; event = plane_.next_event()) take_event(*event, now);
    engine_.tick(now);
    changed = changed || due;
  }
  changed = publish() || changed;
  changed = take_quiesced(now) || changed;
  changed = send_answers(now) || changed;
  if (changed) look(now);
  rebalance(now);
  return changed;
}

void MemberLoop::look(TimeNs now) {
  for (const JobId id : engine_.changed()) {
    if (auto status = engine_.status(id, now))
      watch_.look(std::move(*status));
    else
      watch_.gone(id);
  }
}

void MemberLoop::look_at_all(TimeNs now) {
  look(now);
  for (members::JobStatus& status : engine_.status(now)) watch_.look(std::move(status));
}

bool MemberLoop::take_punts(std::optional<io::Punt> punt, TimeNs now) {
  bool changed = false;
  crowded_ = false;
  for (std::size_t n = 1; punt; ++n) {
    const std::span<const std::byte> datagram = std::span(buffer_).first(punt->bytes);
    changed = changed || changes_more_than_a_lease(datagram);
    engine_.receive(datagram, punt->source, now);
    crowded_ = n == kMostPunts;
    punt = crowded_ ? std::nullopt : plane_.next_punt(buffer_);
  }
  return changed;
}

void MemberLoop::take_event(const pipeline::Event& event, TimeNs now) {
  if (event.kind == pipeline::EventKind::kMismatch) {
    engine_.report_mismatch(event.job, event.epoch, event.rank, event.others, event.sent.elements,
                            event.stored.elements, event.sent.total, event.stored.total, now);
    return;
  }
  if (event.kind == pipeline::EventKind::kStalled) {
    const auto job = watch_.jobs().find(event.job);
    if (job != watch_.jobs().end()) log_(LogLevel::kWarning, stall_text(event, job->second, now));
    return;
  }
  const auto left_out = poisoned_.take(now);
  if (!left_out) return;
  const auto at = watch_.jobs().find(event.job);
  const std::string sender = at == watch_.jobs().end()
                                 ? members::rank_text(event.rank)
                                 : members::rank_text(event.rank, members::names_of(at->second));
  log_(LogLevel::kWarning,
       watch_.job_name(event.job) + ": " + sender +
           " sends values that do not match their own sums; they are dropped. Look at that "
           "machine's memory and NIC" +
           left_out_text(*left_out));
}

// Not one may be left out: each carries lines that the cores must zero.
bool MemberLoop::publish() {
  bool any = false;
  while (auto publication = engine_.publication()) {
    published_ = publication->version;
    plane_.publish(std::move(*publication));
    any = true;
  }
  return any;
}

// New caps are no change of a job: nobody waits for them and nothing is told.
void MemberLoop::rebalance(TimeNs now) {
  if (now < rebalanced_ + kRebalance) return;
  rebalanced_ = now;
  const auto& sharing = engine_.sharing();
  if (!sharing.empty()) engine_.rebalance(shares_.look(sharing));
}

bool MemberLoop::take_quiesced(TimeNs now) {
  const std::uint64_t adopted = plane_.adopted();
  if (adopted <= quiesced_) return false;
  quiesced_ = adopted;
  engine_.quiesced(adopted, now);
  return true;
}

bool MemberLoop::send_answers(TimeNs now) {
  bool changed = false;
  while (const auto answer = engine_.next(buffer_)) {
    const std::span<const std::byte> datagram = std::span(buffer_).first(answer->bytes);
    changed = changed || changes_more_than_a_lease(datagram);
    log_refusal(datagram, answer->to, now);
    if (!inject(*answer, datagram)) ++unsent_;
  }
  return changed;
}

// Whoever it is for hears it behind one of the ports, if it is there.
bool MemberLoop::inject(const members::Outgoing& answer, std::span<const std::byte> datagram) {
  if (!answer.everywhere) return plane_.inject(answer.to, datagram);
  bool any = false;
  jobs::Binding to = answer.to;
  for (std::size_t port = 0; port < plane_.ports(); ++port) {
    to.port = PortIndex{static_cast<std::uint16_t>(port)};
    any = plane_.inject(to, datagram) || any;
  }
  return any;
}

void MemberLoop::log_refusal(std::span<const std::byte> datagram, const jobs::Binding& to, TimeNs now) {
  if (static_cast<PacketType>(datagram[offsetof(Header, type)]) != PacketType::kJoined) return;
  JoinedPayload joined;
  std::memcpy(&joined, datagram.data() + kHeaderBytes, sizeof joined);
  if (joined.status != JoinStatus::kRefused) return;
  const auto left_out = refusals_.take(now);
  if (!left_out) return;
  const auto text =
      datagram.subspan(kHeaderBytes + sizeof joined, joined.text_bytes.host());  // behind it the tag
  log_(LogLevel::kWarning, "refused a worker at " + watch_.place_of(to) + ": " +
                               text::cleaned({reinterpret_cast<const char*>(text.data()), text.size()}) +
                               left_out_text(*left_out));
}

}  // namespace tally::daemon
