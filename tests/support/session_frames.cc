#include "session_frames.h"

#include <bit>
#include <cstring>
#include <utility>

#include "jobs.h"
#include "pipeline/reply.h"

namespace tally {
namespace {

std::byte* put(std::byte* at, const auto& value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

struct Ends {
  Mac from_mac, to_mac;
  Ipv4 from, to;
  std::uint16_t source, destination;
};

// RFC 1071.
std::uint16_t header_checksum(const Ipv4Header& ip) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < sizeof ip; i += 2) {
    Be<std::uint16_t> word;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&ip) + i, 2);
    sum += word.host();
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

Bytes frame(const Ends& ends, bool checksum, std::uint16_t udp_checksum, const switchml::PacketHeader& h,
            const std::vector<std::int32_t>& values) {
  const auto udp_bytes = static_cast<std::uint16_t>(8 + sizeof h + 4 * values.size());
  Ipv4Header ip;
  ip.version_ihl = 0x45;
  ip.total_length = Be{static_cast<std::uint16_t>(20 + udp_bytes)};
  ip.ttl = 64;
  ip.protocol = kProtocolUdp;
  ip.source = ends.from;
  ip.destination = ends.to;
  if (checksum) ip.checksum = Be{header_checksum(ip)};
  Bytes out(sizeof(EthernetHeader) + sizeof ip + udp_bytes);
  std::byte* at = put(out.data(), EthernetHeader{ends.to_mac, ends.from_mac, Be{kEtherIpv4}});
  at = put(at, ip);
  at = put(at, UdpHeader{Be{ends.source}, Be{ends.destination}, Be{udp_bytes}, Be{udp_checksum}});
  at = put(at, h);
  for (const std::int32_t v : values) at = put(at, Be{v});
  return out;
}

switchml::PacketHeader header(const jobs::SessionJob& job, const SessionSent& sent) {
  switchml::PacketHeader h;
  const int size = std::countr_zero(std::uint32_t{job.payload} / switchml::kMinPayload);
  h.type_size = static_cast<std::uint8_t>(0x10 | size);
  h.job_number = sent.job_number;
  for (std::size_t i = 0; i < 4; ++i) h.tsi_bytes[i] = static_cast<std::uint8_t>(sent.tsi >> (8 * i));
  h.pool_index = Be{static_cast<std::uint16_t>(sent.slot | sent.set << 15U)};
  return h;
}

Ipv4 address_of(const jobs::Binding& member) {
  return {member.address[12], member.address[13], member.address[14], member.address[15]};
}

}  // namespace

jobs::SessionJob make_session(const SessionSpec& spec) {
  jobs::SessionJob job;
  static_cast<jobs::Job&>(job) = make_job({.id = spec.id, .epoch = spec.epoch, .world = spec.world});
  job.elements = static_cast<std::uint16_t>(spec.payload / 4);
  job.payload = spec.payload;
  job.tsi = spec.tsi;
  job.slot_count = spec.slots;
  job.home = spec.home;
  job.slots = {spec.first_line, jobs::session_lines(spec.slots, spec.world, spec.payload)};
  for (std::uint32_t r = 0; r < job.world; ++r) job.ranks[r].binding.udp_port = switchml::kBasePort;
  return job;
}

Bytes session_frame(const jobs::SessionJob& job, const SessionSent& sent, const jobs::Box& box) {
  const jobs::Binding& from = job.ranks[sent.rank].binding;
  switchml::PacketHeader h = header(job, sent);
  h.type_size |= sent.flags;
  h.exponent0 = sent.exponent0;
  h.exponent1 = sent.exponent1;
  std::vector<std::int32_t> values(job.elements);
  for (std::uint32_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sent.value) + i);
  return frame({from.mac, box.mac, address_of(from), box.ipv4, sent.udp_source, from.udp_port}, false, 0xa5a5,
               h, values);
}

Bytes session_reply(const jobs::SessionJob& job, const SessionSent& sent, const jobs::Box& box,
                    std::uint32_t to, std::uint16_t udp_destination, std::int8_t exponent0,
                    std::int8_t exponent1, const std::vector<std::int32_t>& values) {
  const jobs::Binding& member = job.ranks[to].binding;
  switchml::PacketHeader h = header(job, sent);
  h.exponent0 = exponent0;
  h.exponent1 = exponent1;
  return frame({box.mac, member.mac, box.ipv4, address_of(member), member.udp_port, udp_destination}, true, 0,
               h, values);
}

Bytes outcome_frame(const pipeline::Outcome& out, std::size_t rank, const pipeline::ReturnPath& path,
                    const jobs::Box& box) {
  jobs::Binding to = out.job->ranks[rank].binding;
  const std::uint16_t source_port = std::exchange(to.udp_port, path.udp_port);
  Bytes frame(pipeline::encapsulation_bytes(to));
  pipeline::write_encapsulation(frame, to, box, source_port, {out.payload, out.payload_bytes}, 0);
  frame.insert(frame.end(), out.payload, out.payload + out.payload_bytes);
  return frame;
}

}  // namespace tally
