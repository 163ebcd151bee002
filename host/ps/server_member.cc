#include "ps/server_member.h"

#include "tally/mix64.h"

namespace tally::ps {
namespace {

engine::EngineOptions seat_options(const PsOptions& options, std::size_t job) {
  const PsJobOptions& which = options.jobs[job];
  return {.job = which.job,
          .token = which.token,
          .rank = server_rank(which.index),
          .world = 0,  // the box tells it
          .elements = options.elements,
          .instance = options.instance,
          .seed = mix64(options.seed + job)};
}

}  // namespace

ServerMember::ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels,
                           PsEventLog& events, PsJobStatistics& statistics)
    : seat_(seat_options(options, job), kernels), job_(job), events_(events), statistics_(statistics) {}

std::optional<Refused> ServerMember::receive(const engine::Datagram& datagram, TimeNs now, MemberNews& news) {
  using Kind = engine::SeatNews::Kind;
  news = MemberNews::kNone;
  engine::SeatNews heard;
  if (const auto wrong = seat_.receive(datagram, now, heard)) return wrong;
  switch (heard.kind) {
    case Kind::kNone:
    case Kind::kLeft:
    case Kind::kHint:
      break;
    case Kind::kForming:
      refusal_.clear();
      break;
    case Kind::kSameEpoch:
    case Kind::kNewEpoch:
    case Kind::kNewGeneration:
      return on_offer(heard, now, news);
    case Kind::kRefused:
    case Kind::kTold:
      on_refused(heard.text);
      break;
    case Kind::kCalled:  // sums go on meanwhile
      ++statistics_.rejects;
      if (joining()) break;
      report("the box calls its members together");
      seat_.join_again(now);
      break;
    case Kind::kEcho:
      ++statistics_.heartbeat_echoes;
      break;
    case Kind::kAborted:
      ++statistics_.aborts;
      report(heard.text.empty() ? "was aborted" : "was aborted: " + heard.text);
      news = MemberNews::kEnded;
      seat_.join_anew(now);
      break;
  }
  return std::nullopt;
}

// A server has no business with a job whose slots are its own.
std::optional<Refused> ServerMember::on_offer(const engine::SeatNews& heard, TimeNs now, MemberNews& news) {
  const engine::Membership& offer = heard.offer;
  if (!shares_slots(offer.discipline)) return Refused::kJoined;
  seat_.enter(offer, now);
  refusal_.clear();
  news = MemberNews::kSameEpoch;
  if (heard.kind == engine::SeatNews::Kind::kSameEpoch) return std::nullopt;
  ++statistics_.epochs;
  if (heard.kind == engine::SeatNews::Kind::kNewGeneration) ++statistics_.generations;
  news = MemberNews::kEpoch;
  report("runs with " + std::to_string(offer.world) + " workers, " + std::to_string(offer.elements) +
         " elements, span " + std::to_string(2 * offer.largest_window));
  return std::nullopt;
}

// Not final: a server waits for its job to be declared, and for the one before it to lose its lease.
void ServerMember::on_refused(const std::string& text) {
  ++statistics_.refusals;
  if (text == refusal_) return;
  refusal_ = text;
  report("the box refuses it, asking again each second: " + text);
}

void ServerMember::abort(const std::string& why, TimeNs now) {
  if (seat_.abort(why, now)) report("aborts it: " + why);
}

void ServerMember::time_out(TimeNs now) {
  if (joining() || !seat_.silent(now)) return;
  ++statistics_.silences;
  report("the box has not answered for " + std::to_string(seat_.silence_limit() / kMillisecond) + " ms");
  seat_.join_again(now);
}

std::size_t ServerMember::transmit(std::span<std::byte> out, TimeNs now) {
  const engine::Said said = seat_.transmit(out, {}, now);
  if (said.type == PacketType::kJoin) ++statistics_.joins;
  if (said.type == PacketType::kHeartbeat) ++statistics_.heartbeats;
  return said.bytes;
}

}  // namespace tally::ps
