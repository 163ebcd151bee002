#include "engine/conversation.h"

#include <array>

namespace tally::engine {
namespace {

auth::Key secret_of(std::uint64_t seed) noexcept {
  EngineRandom random(seed);
  return auth::box_key(std::array{random.next(), random.next(), random.next(), random.next()});
}

}  // namespace

Speaker::Speaker(EngineOptions options, const kernels::Kernels& kernels)
    : options_(std::move(options)),
      kernels_(kernels),
      secret_(secret_of(options_.seed)),
      job_key_(auth::job_key(options_.job, options_.token)),
      counters_(auth::word(secret_, 0) >> 1) {}

std::uint64_t Speaker::new_nonce() noexcept {
  std::uint64_t nonce = 0;
  do nonce = auth::word(secret_, ++nonces_);
  while (nonce == 0);
  return nonce;
}

Said Speaker::say(const Header& header, std::size_t body, const auth::Key& key,
                  std::span<std::byte> out) const noexcept {
  const auto said = out.subspan(kHeaderBytes, body);
  wire_put(said.data() + body, auth::tag_of(key, header, said));
  return {seal_control(header, body + kTagBytes, out, kernels_), header.type};
}

std::optional<Refused> Knock::on_challenge(const Datagram& datagram, TimeNs now) noexcept {
  const auto said = wire_at<ChallengePayload>(datagram.payload.data());
  if (!awaits(said.nonce.host())) return Refused::kNonce;
  challenge_ = said.challenge;
  if (challenged_) return std::nullopt;
  challenged_ = hurried_ = true;
  repeat_.hurry(now);
  return std::nullopt;
}

std::optional<Refused> Counters::check_session(const auth::Key& key, const Datagram& datagram) noexcept {
  if (!auth::verify(key, datagram.header, datagram.payload)) return Refused::kTag;
  const std::uint64_t counter = wire_at<CountedPayload>(datagram.payload.data()).counter.host();
  if (counter <= heard_) return Refused::kReplay;
  heard_ = counter;
  return std::nullopt;
}

std::optional<Refused> Counters::check_unknown(const auth::Key& job, const Datagram& datagram) noexcept {
  if (!auth::verify(job, datagram.header, datagram.payload)) return Refused::kTag;
  const std::uint64_t counter = wire_at<CountedPayload>(datagram.payload.data()).counter.host();
  if (counter <= answered_ || counter > counter_ || counter_ - counter >= kAnswerable)
    return Refused::kReplay;
  answered_ = counter_;
  return std::nullopt;
}

}  // namespace tally::engine
