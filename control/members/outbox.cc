#include "outbox.h"

#include <cstring>
#include <utility>

#include "kernels.h"
#include "texts.h"

namespace tally {

void Outbox::send(Header header, std::span<const std::byte> payload, const Binding& to) {
  const auto& crc32c = best_kernels().crc32c;
  header.version = kWireVersion;
  header.rank = Be<std::uint16_t>(raw(kSwitchRank));
  header.sum1 = Be<std::uint32_t>(payload.empty() ? 0 : crc32c(payload.data(), payload.size()));
  header.check = Be<std::uint32_t>(crc32c(std::as_bytes(std::span(&header, 1)).data(), kCheckedBytes));
  std::vector<std::byte> bytes(kHeaderBytes + payload.size());
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  if (!payload.empty()) std::memcpy(bytes.data() + kHeaderBytes, payload.data(), payload.size());
  queue_.push_back({to, std::move(bytes)});
}

void Outbox::send_joined(Header header, JoinedPayload fixed, std::string_view text, const Binding& to) {
  const std::string_view cut = bounded(text);
  header.type = PacketType::kJoined;
  fixed.text_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(cut.size()));
  std::vector<std::byte> payload(sizeof fixed + cut.size());
  std::memcpy(payload.data(), &fixed, sizeof fixed);
  if (!cut.empty()) std::memcpy(payload.data() + sizeof fixed, cut.data(), cut.size());
  send(header, payload, to);
}

void Outbox::send_abort(JobId job, const Term& term, std::string_view text, const Binding& to) {
  Header header;
  header.type = PacketType::kAbort;
  header.job = Be<std::uint16_t>(raw(job));
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  send(header, std::as_bytes(std::span(bounded(text))), to);
}

void Outbox::send_echo(const Header& received, const Term& term, std::uint64_t live, const Binding& to) {
  Header header;
  header.type = received.type;
  header.job = received.job;
  header.epoch = received.epoch;
  header.chunk = received.chunk;
  header.contributors = Be<std::uint64_t>(live);
  header.cookie = Be<std::uint64_t>(raw(term.result));
  send(header, {}, to);
}

void Outbox::send_reject(const Header& received, RejectReason reason, const Binding& to) {
  Header header;
  header.type = PacketType::kReject;
  header.job = received.job;
  header.epoch = received.epoch;
  header.chunk = received.chunk;
  header.slot = Be<std::uint32_t>(static_cast<std::uint32_t>(reason));
  send(header, {}, to);
}

std::optional<Outgoing> Outbox::next(std::span<std::byte> out) {
  while (!queue_.empty()) {
    const Datagram datagram = std::move(queue_.front());
    queue_.pop_front();
    if (datagram.bytes.size() > out.size()) continue;
    std::memcpy(out.data(), datagram.bytes.data(), datagram.bytes.size());
    return Outgoing{datagram.bytes.size(), datagram.to};
  }
  return std::nullopt;
}

}  // namespace tally
