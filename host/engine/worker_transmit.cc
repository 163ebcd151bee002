// Sending half of the worker engine, and everything that time alone causes.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "worker_engine.h"
#include "worker_join.h"

namespace tally {
namespace {

constexpr std::uint32_t kFarewells = 5;  // LEAVEs or ABORTs without an answer

std::string in_ms(TimeNs t) { return std::to_string(t / kMillisecond) + " ms"; }

}  // namespace

std::size_t WorkerEngine::max_datagram_bytes() const noexcept {
  return kHeaderBytes + std::max({std::size_t{4} * options_.elements, kMaxJoinBytes, kMaxTextBytes});
}

std::size_t WorkerEngine::transmit(std::span<std::byte> out, TimeNs now, std::uint16_t& destination_port) {
  time_out(now);
  settle(now);
  if (out.size() < max_datagram_bytes()) return 0;
  destination_port = kBasePort;
  if (const std::size_t bytes = transmit_control(out, now)) return bytes;
  if (state_ != EngineState::kRunning) return 0;
  const std::size_t bytes = stream_.transmit(out, now, destination_port);
  if (!stream_.failure()) return bytes;
  settle(now);  // an operation failed while it was to be sent: closed now, and control is told
  destination_port = kBasePort;
  return transmit_control(out, now);
}

TimeNs WorkerEngine::deadline() const noexcept {
  if (state_ == EngineState::kClosed) return abort_.due();
  TimeNs first = std::min(heard_ ? *heard_ + silence_limit() : 0, stream_.first_expiry());
  if (state_ == EngineState::kJoining) {
    if (unended_) return 0;
    if (leaving_ >= Leaving::kBarrier) first = std::min(first, joining_since_ + silence_limit());
    return std::min(first, join_.due());
  }
  if (leaving_ == Leaving::kSaying) first = std::min(first, leave_.due());
  return std::min({first, heartbeat_due_, stream_.deadline()});
}

void WorkerEngine::time_out(TimeNs now) {
  if (state_ == EngineState::kClosed) {
    if (abort_.tries() >= kFarewells) abort_.stop();
    return;
  }
  if (!heard_) heard_ = now;
  if (leaving_ == Leaving::kSaying && leave_.tries() >= kFarewells && leave_.due() <= now)
    return close({ErrorCode::kClosed, "left the job; the box did not answer"});
  // The others may be gone for good, and then the job is never formed again.
  if (leaving_ >= Leaving::kBarrier && state_ == EngineState::kJoining &&
      joining_since_ + silence_limit() <= now)
    return close({ErrorCode::kClosed, "left the job while it was being formed again"});
  if (*heard_ + silence_limit() <= now)
    return close({ErrorCode::kUnreachable,
                  "switch unreachable: no answer from its control for " + in_ms(silence_limit()),
                  options_.job});
  if (const EngineOperation* const late = stream_.expired(now)) {
    const std::string ranks = name_ranks(missing());
    const std::string name = "operation " + std::to_string(static_cast<std::uint64_t>(late->id()));
    const StreamFailure failure{
        late->id(),
        {ErrorCode::kTimeout,
         name + " timed out; " +
             (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks),
         options_.job}};
    fail_job(
        {ErrorCode::kAborted, "another operation of this worker failed: " + failure.error.what, options_.job},
        &failure, now);
  }
}

Header WorkerEngine::control_header(PacketType type) const noexcept {
  Header header;
  header.type = type;
  header.rank = Be<std::uint16_t>{raw(options_.rank)};
  if (type == PacketType::kJoin || !membership_) return header;
  header.job = Be<std::uint16_t>{raw(membership_->job)};
  header.epoch = Be<std::uint32_t>{raw(membership_->epoch)};
  header.cookie = Be<std::uint64_t>{raw(membership_->cookie)};
  header.chunk = Be<std::uint32_t>{raw(stream_.next_chunk())};
  return header;
}

std::size_t WorkerEngine::transmit_control(std::span<std::byte> out, TimeNs now) {
  if (state_ == EngineState::kJoining) return unended_ ? transmit_end(out) : transmit_join(out, now);
  if (state_ == EngineState::kClosed) return transmit_abort(out, now);
  if (heartbeat_due_ <= now) {
    heartbeat_due_ = now + membership_->heartbeat_period();
    ++statistics_.heartbeats;
    return seal_control(control_header(PacketType::kHeartbeat), 0, out, kernels_);
  }
  if (leaving_ == Leaving::kSaying && leave_.due() <= now) {
    leave_.said(now);
    return seal_control(control_header(PacketType::kLeave), 0, out, kernels_);
  }
  return 0;
}

std::size_t WorkerEngine::transmit_join(std::span<std::byte> out, TimeNs now) {
  if (join_.due() > now) return 0;
  join_.said(now);
  nonce_ = random_.next_nonzero();
  ++statistics_.joins;
  JoinFacts facts{nonce_, ++attempt_, {}, {}, record_};
  if (record_ != GenerationRecord{}) {
    facts.lowest = stream_.lowest_chunk();
    facts.next = stream_.next_chunk();
  }
  const std::size_t payload = write_join(options_, facts, out.subspan(kHeaderBytes));
  return seal_control(control_header(PacketType::kJoin), payload, out, kernels_);
}

// The generation that this engine gave up still runs: an ABORT under the secrets that JOINED has just told.
std::size_t WorkerEngine::transmit_end(std::span<std::byte> out) {
  constexpr std::string_view kWhy = "gave up its membership and joins anew";
  Header header = control_header(PacketType::kAbort);
  header.job = Be<std::uint16_t>{raw(unended_->job)};
  header.epoch = Be<std::uint32_t>{raw(unended_->epoch)};
  header.cookie = Be<std::uint64_t>{raw(unended_->cookie)};
  unended_.reset();
  std::memcpy(out.data() + kHeaderBytes, kWhy.data(), kWhy.size());
  return seal_control(header, kWhy.size(), out, kernels_);
}

std::size_t WorkerEngine::transmit_abort(std::span<std::byte> out, TimeNs now) {
  if (abort_.due() > now) return 0;
  abort_.said(now);
  const std::size_t bytes = std::min(why_closed_.what.size(), kMaxTextBytes);
  std::memcpy(out.data() + kHeaderBytes, why_closed_.what.data(), bytes);
  return seal_control(control_header(PacketType::kAbort), bytes, out, kernels_);
}

}  // namespace tally
