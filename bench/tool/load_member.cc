#include "load_member.h"

namespace tally::bench {

void LoadMember::receive(const engine::Datagram& datagram, TimeNs now) {
  using Kind = engine::SeatNews::Kind;
  if (state_ == State::kLeft || state_ == State::kFailed) return;
  engine::SeatNews news;
  if (seat_.receive(datagram, now, news)) return;
  switch (news.kind) {
    case Kind::kNone:
    case Kind::kEcho:
    case Kind::kHint:
    case Kind::kTold:
      return;
    case Kind::kForming:
      answered_ = true;
      return;
    case Kind::kSameEpoch:
    case Kind::kNewEpoch:
    case Kind::kNewGeneration:
      return on_offer(news.offer, now);
    case Kind::kRefused:
      return fail_with("the box refuses it: " + news.text);
    case Kind::kLeft:
      state_ = State::kLeft;
      return;
    case Kind::kAborted:
      return fail_with("the box ended the job: " + news.text);
    case Kind::kCalled:
      if (state_ == State::kRunning)
        fail_with(
            "the box calls the members of the job together: it was restarted, or 2^29 chunks have passed; "
            "measure again, for a shorter time");
      return;
  }
}

void LoadMember::on_offer(const engine::Membership& offer, TimeNs now) {
  const std::uint16_t world = seat_.options().world;
  if (offer.world != world)
    return fail_with("the job has " + std::to_string(offer.world) + " workers, not " + std::to_string(world) +
                     ": give --workers that number");
  seat_.enter(offer, now);
  state_ = State::kRunning;
}

void LoadMember::leave(TimeNs now) {
  if (state_ != State::kRunning) return;
  state_ = State::kLeaving;
  seat_.leave(now);
}

std::size_t LoadMember::transmit(std::span<std::byte> out, Chunk next, TimeNs now) {
  if (state_ == State::kLeft || state_ == State::kFailed) return 0;
  if (seat_.leave_unanswered(now)) {
    state_ = State::kLeft;
    return 0;
  }
  if (seat_.silent(now)) {
    fail_with(state_ == State::kJoining ? why()
                                        : "the box has not answered for " +
                                              std::to_string(seat_.silence_limit() / kMillisecond) + " ms");
    return 0;
  }
  return seat_.transmit(out, {.lowest = {}, .next = next}, now).bytes;
}

std::string LoadMember::why() const {
  if (!why_.empty()) return why_;
  if (!answered_) return "nobody answers: does tallyd run, and is this port cabled to one of its ports?";
  if (seat_.missing() == 0) return "the box has not started the job yet";
  return "the box waits for " + engine::name_ranks(seat_.missing()) + " of the job";
}

}  // namespace tally::bench
