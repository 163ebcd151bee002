#include "load_member.h"

#include <utility>

#include "engine/worker_join.h"

namespace tally::bench {

LoadMember::LoadMember(engine::EngineOptions options, const kernels::Kernels& kernels, TimeNs now)
    : options_(std::move(options)), kernels_(kernels), random_(options_.seed), heard_(now) {
  say_.start(now);
}

bool LoadMember::of_the_box(const Header& header, bool proves) const noexcept {
  return state_ != State::kJoining && header.rank_id() == kSwitchRank && header.job_id() == membership_.job &&
         header.epoch_id() == membership_.epoch &&
         (!proves || header.cookie.host() == raw(membership_.result_cookie));
}

void LoadMember::receive(const engine::Datagram& datagram, TimeNs now) {
  const Header& header = datagram.header;
  if (header.type == PacketType::kJoined) return on_joined(datagram, now);
  if (state_ != State::kRunning && state_ != State::kLeaving) return;
  switch (header.type) {
    case PacketType::kHeartbeat:
      if (of_the_box(header, true)) heard_ = now;
      return;
    case PacketType::kLeave:
      if (state_ == State::kLeaving && of_the_box(header, true)) state_ = State::kLeft;
      return;
    case PacketType::kAbort:
      if (of_the_box(header, true))
        fail_with("the box ended the job: " + engine::printable(datagram.payload));
      return;
    case PacketType::kReject:
      if (state_ == State::kRunning && of_the_box(header, false) &&
          header.slot.host() != static_cast<std::uint32_t>(RejectReason::kWaiting)) {
        fail_with(
            "the box calls the members of the job together: it was restarted, or 2^29 chunks have passed; "
            "measure "
            "again, for a shorter time");
      }
      return;
    default:
      return;
  }
}

void LoadMember::on_joined(const engine::Datagram& datagram, TimeNs now) {
  engine::Joined joined{};
  if (state_ != State::kJoining || engine::read_joined(datagram.payload, joined) || nonce_ == 0 ||
      joined.fixed.nonce.host() != nonce_)
    return;
  answered_ = true;
  heard_ = now;
  if (joined.fixed.status == JoinStatus::kForming) {
    missing_ = joined.fixed.missing.host();
    return;
  }
  if (joined.fixed.status == JoinStatus::kRefused)
    return fail_with("the box refuses it: " + engine::printable(joined.text));
  const auto membership = engine::to_membership(datagram.header, joined.fixed, options_);
  if (!membership) return;
  if (membership->world != options_.world)
    return fail_with("the job has " + std::to_string(membership->world) + " workers, not " +
                     std::to_string(options_.world) + ": give --workers that number");
  membership_ = *membership;
  state_ = State::kRunning;
  say_.stop();
  heartbeat_due_ = now + membership_.heartbeat_period();
}

void LoadMember::leave(TimeNs now) {
  if (state_ != State::kRunning) return;
  state_ = State::kLeaving;
  say_.start(now);
}

std::size_t LoadMember::transmit(std::span<std::byte> out, Chunk next, TimeNs now) {
  switch (state_) {
    case State::kJoining:
      if (now - heard_ > options_.unreachable_after) {
        fail_with(why());
        return 0;
      }
      return say_.due() <= now ? write_join_to(out, now) : 0;
    case State::kRunning:
      if (now > heard_ + membership_.lease) {
        fail_with("the box has not answered for " + std::to_string(membership_.lease / kMillisecond) + " ms");
        return 0;
      }
      if (heartbeat_due_ > now) return 0;
      heartbeat_due_ = now + membership_.heartbeat_period();
      return write_own(PacketType::kHeartbeat, next, out);
    case State::kLeaving:
      if (say_.due() > now) return 0;
      if (say_.tries() == kFarewells) {
        state_ = State::kLeft;
        return 0;
      }
      say_.said(now);
      return write_own(PacketType::kLeave, next, out);
    default:
      return 0;
  }
}

std::string LoadMember::why() const {
  if (!why_.empty()) return why_;
  if (!answered_) return "nobody answers: does tallyd run, and is this port cabled to one of its ports?";
  if (missing_ == 0) return "the box has not started the job yet";
  return "the box waits for " + engine::name_ranks(missing_) + " of the job";
}

std::size_t LoadMember::write_join_to(std::span<std::byte> out, TimeNs now) {
  say_.said(now);
  nonce_ = random_.next_nonzero();
  Header header;
  header.type = PacketType::kJoin;
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  const std::size_t payload =
      tally::engine::write_join(options_, {nonce_, ++attempt_, {}, {}, {}}, out.subspan(kHeaderBytes));
  return engine::seal_control(header, payload, out, kernels_);
}

std::size_t LoadMember::write_own(PacketType type, Chunk next, std::span<std::byte> out) const noexcept {
  Header header;
  header.type = type;
  header.job = Be<std::uint16_t>{raw(membership_.job)};
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  header.epoch = Be<std::uint32_t>{raw(membership_.epoch)};
  header.chunk = Be<std::uint32_t>{raw(next)};
  header.cookie = Be<std::uint64_t>{raw(membership_.cookie)};
  return engine::seal_control(header, 0, out, kernels_);
}

}  // namespace tally::bench
