#include "ps/server_member.h"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include "tally/mix64.h"
#include "text/text.h"

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
          .seed = mix64(options.seed + job),
          .sparse = false,
          .boxes = options.boxes};
}

std::string text_of(const Ipv6& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_mapped_ipv4(address);
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address.data() + 12 : address.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

ServerMember::ServerMember(const PsOptions& options, std::size_t job, const kernels::Kernels& kernels,
                           PsEventLog& events, PsJobStatistics& statistics)
    : seat_(seat_options(options, job), kernels),
      guests_(seat_.speaker()),
      home_(seat_.address()),
      path_bytes_(options.path_bytes),
      job_(job),
      events_(events),
      statistics_(statistics) {}

std::optional<Refused> ServerMember::receive(const engine::Datagram& datagram, std::size_t box, TimeNs now,
                                             MemberNews& news) {
  using Kind = engine::SeatNews::Kind;
  news = MemberNews::kNone;
  if (box != 0) return on_guest(datagram, box, now, news);
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
      join_again(now);
      break;
    case Kind::kEcho:
      ++statistics_.heartbeat_echoes;
      break;
    case Kind::kAborted:
      ++statistics_.aborts;
      report(heard.text.empty() ? "was aborted" : "was aborted: " + heard.text);
      news = MemberNews::kEnded;
      guests_.close();
      guests_due_ = kNever;
      seat_.join_anew(now);
      break;
  }
  return std::nullopt;
}

// Of a box of the plan that is not the home. What is lost there the home hears of, which makes another plan.
std::optional<Refused> ServerMember::on_guest(const engine::Datagram& datagram, std::size_t box, TimeNs now,
                                              MemberNews& news) {
  using Kind = engine::GuestNews::Kind;
  engine::GuestNews heard;
  if (const auto wrong = guests_.at(box).receive(datagram, now, heard)) return wrong;
  switch (heard.kind) {
    case Kind::kNone:
    case Kind::kHint:
      break;
    case Kind::kEcho:
      ++statistics_.heartbeat_echoes;
      break;
    case Kind::kRunning:
      ++statistics_.enlisted;
      news = MemberNews::kBoxes;
      break;
    case Kind::kRefused:
      lost(box, "refuses it: " + heard.text, now);
      news = MemberNews::kBoxes;
      break;
    case Kind::kForgot:
      lost(box, "has forgotten the epoch", now);
      news = MemberNews::kBoxes;
      break;
    case Kind::kAborted:
      abort("box " + text_of(address(box)) + (heard.text.empty() ? " ended the job" : ": " + heard.text),
            now);
      break;
  }
  guests_due_ = guests_.due();
  return std::nullopt;
}

void ServerMember::lost(std::size_t box, const std::string& why, TimeNs now) {
  ++statistics_.boxes_lost;
  report("box " + text_of(address(box)) + ' ' + why);
  seat_.tell_lost(guests_.gone(), guests_.forgot(), now);
}

// A server has no business with a job whose slots are its own.
std::optional<Refused> ServerMember::on_offer(const engine::SeatNews& heard, TimeNs now, MemberNews& news) {
  const engine::Membership& offer = heard.offer;
  if (!shares_slots(offer.discipline)) return Refused::kJoined;
  if (const std::size_t bytes = engine::max_planned_bytes(seat_.options().elements);
      offer.plan && bytes > path_bytes_) {
    say_once("cannot be served: several boxes sum it, and the pages of their plan take datagrams of " +
             std::to_string(bytes) + " bytes; this path carries " + std::to_string(path_bytes_) +
             ": an MTU of 1500 is enough");
    return Refused::kJoined;
  }
  seat_.enter(offer, now);
  refusal_.clear();
  news = MemberNews::kSameEpoch;
  home_ = seat_.address();
  if (heard.kind == engine::SeatNews::Kind::kSameEpoch) {
    guests_.resume(now);
    guests_due_ = guests_.due();
    return std::nullopt;
  }
  guests_.enter(offer, now);
  guests_due_ = guests_.due();
  ++statistics_.epochs;
  if (heard.kind == engine::SeatNews::Kind::kNewGeneration) ++statistics_.generations;
  news = MemberNews::kEpoch;
  std::string how = "runs with " + std::to_string(offer.world) + " workers, " +
                    std::to_string(offer.elements) + " elements, span " +
                    std::to_string(2 * offer.largest_window);
  if (offer.plan) {
    const std::size_t boxes = offer.plan->plan.boxes.size();
    how += ", over " + std::to_string(boxes) + (boxes == 1 ? " box" : " boxes");
  }
  report(std::move(how));
  return std::nullopt;
}

// Not final: a server waits for its job to be declared, and for the one before it to lose its lease.
void ServerMember::on_refused(const std::string& text) {
  ++statistics_.refusals;
  say_once("the box refuses it, asking again each second: " + text);
}

void ServerMember::say_once(const std::string& text) {
  if (text == refusal_) return;
  refusal_ = text;
  report(text);
}

void ServerMember::abort(const std::string& why, TimeNs now) {
  if (seat_.abort(why, now)) report("aborts it: " + why);
}

// The epoch's other boxes hear nothing meanwhile: at the next one everybody enlists anew.
void ServerMember::join_again(TimeNs now) {
  seat_.join_again(now);
  guests_.suspend();
  guests_due_ = kNever;
}

MemberNews ServerMember::time_out(TimeNs now) {
  MemberNews news = MemberNews::kNone;
  if (guests_due_ <= now && time_out_guests(now)) news = MemberNews::kBoxes;
  if (joining() || !seat_.silent(now)) return news;
  ++statistics_.silences;
  report("the box has not answered for " + std::to_string(seat_.silence_limit() / kMillisecond) + " ms");
  join_again(now);
  return news;
}

// Whether a box has become lost.
bool ServerMember::time_out_guests(TimeNs now) {
  const std::uint64_t gone = guests_.gone();
  const bool any = guests_.time_out(now);
  guests_due_ = guests_.due();
  if (!any) return false;
  for (std::size_t box = 1; box <= guests_.size(); ++box) {
    const engine::GuestSeat& guest = guests_.at(box);
    if (guest.state() == engine::GuestState::kGone && (gone >> guest.box() & 1) == 0)
      lost(box, "has not answered for " + std::to_string(guest.silence_limit() / kMillisecond) + " ms", now);
  }
  return true;
}

void ServerMember::was_away(TimeNs time, TimeNs now) noexcept {
  guests_.was_away(time, now);
  guests_due_ = guests_.due();
}

std::size_t ServerMember::transmit(std::span<std::byte> out, TimeNs now, Ipv6& box) {
  engine::Said said = seat_.transmit(out, {}, now);
  box = seat_.address();
  if (said.bytes == 0 && guests_due_ <= now) {
    std::uint16_t at = 0;
    said = guests_.transmit(out, {}, now, at);
    if (said.bytes != 0) box = address(at);
    guests_due_ = guests_.due();
  }
  if (said.type == PacketType::kJoin) ++statistics_.joins;
  if (said.type == PacketType::kHeartbeat) ++statistics_.heartbeats;
  if (said.type == PacketType::kEnlist) ++statistics_.enlists;
  if (said.type == PacketType::kLost) ++statistics_.losts;
  return said.bytes;
}

}  // namespace tally::ps
