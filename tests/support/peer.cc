#include "peer.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/kernels.h"
#include "tally/mix64.h"

namespace tally::members_test {

Bytes bytes_of(const std::string& text) {
  Bytes b(text.size());
  if (!text.empty()) std::memcpy(b.data(), text.data(), text.size());
  return b;
}

Bytes sealed(Header header, const Bytes& payload) {
  const auto& crc32c = kernels::best_kernels().crc32c;
  header.sum1 = Be<std::uint32_t>(payload.empty() ? 0 : crc32c(payload.data(), payload.size()));
  Bytes b(kHeaderBytes);
  std::memcpy(b.data(), &header, kHeaderBytes);
  header.check = Be<std::uint32_t>(crc32c(b.data(), kCheckedBytes));
  std::memcpy(b.data(), &header, kHeaderBytes);
  b.insert(b.end(), payload.begin(), payload.end());
  return b;
}

Bytes tagged(const Header& header, const Bytes& body, const auth::Key& key) {
  const Tag tag = auth::tag_of(key, header, body);
  Bytes payload = body;
  const auto bytes = std::as_bytes(std::span(tag));
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  return sealed(header, payload);
}

Peer::Peer(std::uint16_t rank_in, std::uint16_t world_in)
    : rank(rank_in), world(world_in), instance(1000U + rank_in) {
  const auto host = static_cast<std::uint8_t>(rank_in);
  binding.address = mapped({10, 0, 0, host});
  binding.mac = {2, 0, 0, 0, 0, host};
  binding.udp_port = static_cast<std::uint16_t>(40'000U + rank_in);
  binding.port = PortIndex{rank_in};
}

Peer Peer::server(std::uint32_t index) {
  Peer p(static_cast<std::uint16_t>(200 + index), 0);  // its host
  p.rank = raw(server_rank(index));
  return p;
}

JoinPayload Peer::join_payload() const {
  JoinPayload p;
  p.instance = Be<std::uint64_t>(instance);
  p.nonce = Be<std::uint64_t>(nonce);
  p.attempt = Be<std::uint32_t>(attempt);
  p.lowest = Be<std::uint32_t>(lowest);
  p.next = Be<std::uint32_t>(next);
  p.world = Be<std::uint16_t>(world);
  p.elements = Be<std::uint16_t>(elements);
  p.last = last;
  p.challenge = challenge;
  p.name_bytes = static_cast<std::uint8_t>(job.size());
  return p;
}

Bytes Peer::join() {
  ++attempt;
  nonce = mix64(instance + attempt);
  return join_again();
}

Bytes Peer::join_again() const {
  const JoinPayload p = join_payload();
  Bytes payload(sizeof p);
  std::memcpy(payload.data(), &p, sizeof p);
  const Bytes name = bytes_of(job);
  payload.insert(payload.end(), name.begin(), name.end());
  Header h;
  h.type = PacketType::kJoin;
  h.rank = Be<std::uint16_t>(rank);
  h.contributors = Be{features};
  return tagged(h, payload, job_key());
}

auth::Key Peer::session_key() const {
  return auth::session_key(job_key(), Generation{last.generation.host()}, Epoch{epoch}, Cookie{result_cookie},
                           Cookie{cookie}, instance, Rank{rank});
}

Bytes Peer::packet(PacketType type, const Bytes& text) const {
  Header h;
  h.type = type;
  h.job = Be<std::uint16_t>(job_id);
  h.rank = Be<std::uint16_t>(rank);
  h.epoch = Be<std::uint32_t>(epoch);
  h.chunk = Be<std::uint32_t>(next);
  h.cookie = Be<std::uint64_t>(cookie);
  if (type == PacketType::kProbe) return sealed(h, text);
  if (type == PacketType::kHeartbeat) h.contributors = Be{instance};
  Bytes body(sizeof(CountedPayload) + text.size());
  wire_put(body.data(), CountedPayload{Be{++counter}});
  std::ranges::copy(text, body.begin() + sizeof(CountedPayload));
  return tagged(h, body, type == PacketType::kHeartbeat ? job_key() : session_key());
}

void Peer::restart() {
  instance = mix64(instance);
  attempt = 0;
  lowest = next = 0;
  last = {};
  epoch = 0;
  cookie = result_cookie = 0;
}

}  // namespace tally::members_test
