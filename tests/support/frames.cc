#include "frames.h"

#include <cstring>
#include <map>
#include <tuple>

#include "kernels/kernels.h"
#include "tally/mix64.h"
#include "tally/net.h"
#include "tally/rows.h"

namespace tally {
namespace {

const kernels::Kernels& reference() { return *kernels::usable_kernels().front(); }

std::byte* append(std::byte* at, const auto& header) {
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

}  // namespace

Header header_of(std::span<const std::byte> datagram) {
  Header h;
  std::memcpy(&h, datagram.data(), sizeof h);
  return h;
}
void set_header(Bytes& datagram, const Header& h) {
  std::memcpy(datagram.data(), &h, sizeof h);
  seal(datagram);
}
void seal(Bytes& datagram) {
  Header h = header_of(datagram);
  h.check = Be{reference().crc32c(datagram.data(), kCheckedBytes)};
  std::memcpy(datagram.data(), &h, sizeof h);
}

namespace {

// Appends the values to the header, and writes their sums into it. keys: of whose sum it is.
void fill(Bytes& out, Header& h, const std::vector<std::int32_t>& values, std::uint32_t keys) {
  std::uint32_t sum1 = keyed(keys, h.chunk_id());
  std::uint32_t sum2 = 0;
  h.elements = Be{static_cast<std::uint16_t>(values.size())};
  out.resize(kHeaderBytes + values_bytes(h));
  std::byte* at = out.data() + kHeaderBytes;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const auto v = static_cast<std::uint32_t>(values[i]);
    sum1 += v;
    sum2 += (i + 1) * v;
    if ((h.flags & kFlagZero) != 0) continue;
    at = values_per_word(h.dtype) == 2 ? append(at, Be{static_cast<std::uint16_t>(v)}) : append(at, Be{v});
  }
  h.sum1 = Be{sum1};
  h.sum2 = Be{sum2};
  set_header(out, h);
}

}  // namespace

namespace {

auto& newest_sequences() {
  static std::map<std::tuple<JobId, Epoch, Rank, std::uint32_t>, std::uint32_t> newest;
  return newest;
}

std::uint32_t next_sequence(const jobs::NativeJob& job, Rank rank, Chunk chunk) {
  return ++newest_sequences()[{job.id, job.epoch, rank, slot_of(jobs::slot_map(job), chunk) % job.shards}];
}

}  // namespace

void forget_sequences() { newest_sequences().clear(); }

Bytes make_contribution(const jobs::NativeJob& job, const ContributionSpec& spec) {
  Bytes out;
  Header h;
  h.type = PacketType::kContribute;
  h.flags = spec.flags;
  h.priority = spec.priority;
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(spec.rank)};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(spec.chunk)};
  h.slot = Be{spec.sequence != 0 ? spec.sequence : next_sequence(job, spec.rank, spec.chunk)};
  h.dtype = spec.dtype;
  h.exponent = spec.exponent;
  h.contributors = Be{bit_of(spec.rank)};
  h.cookie = Be{raw(job.ranks[raw(spec.rank)].cookie)};
  h.total = Be{spec.total};
  fill(out, h, spec.values, job.ranks[raw(spec.rank)].key);
  return out;
}

Bytes made_sparse(Bytes contribution) {
  Header h = header_of(contribution);
  std::byte* const values = contribution.data() + kHeaderBytes;
  const std::uint32_t bytes = pack_rows(values, rows_of(h.elements.host(), h.dtype));
  if (bytes == 0) return contribution;
  contribution.resize(kHeaderBytes + bytes);
  h.flags |= kFlagSparse;
  set_header(contribution, h);
  return contribution;
}

Bytes make_zero_run(const jobs::NativeJob& job, const ContributionSpec& spec, std::uint64_t chunks,
                    const std::vector<std::int8_t>& exponents) {
  ContributionSpec zeros = spec;
  zeros.flags = kFlagZero;
  zeros.values.assign(spec.values.size(), 0);
  Bytes out = make_contribution(job, zeros);
  Header h = header_of(out);
  h.type = PacketType::kZeroRun;
  h.flags = 0;
  h.contributors = Be{chunks};
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  for (std::uint32_t i = 0; i < kMostOfRun; ++i) {
    if ((chunks >> i & 1) == 0) continue;
    const std::uint32_t one = keyed(job.ranks[raw(spec.rank)].key, spec.chunk + i * job.shards);
    sum1 += one;
    sum2 += (i + 1) * one;
  }
  if (!exponents.empty()) h.exponent = kNoExponent;
  for (std::size_t i = 0; i < exponents.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t k = i; k < i + 4; ++k)
      word = word << 8 | (k < exponents.size() ? static_cast<std::uint8_t>(exponents[k]) : 0U);
    sum1 += word;
    sum2 += static_cast<std::uint32_t>(kMostOfRun + i / 4 + 1) * word;
    out.resize(out.size() + 4);
    wire_put(out.data() + out.size() - 4, Be{word});
  }
  h.sum1 = Be{sum1};
  h.sum2 = Be{sum2};
  set_header(out, h);
  return out;
}

Bytes make_server_packet(const jobs::NativeJob& job, PacketType type, Chunk chunk, std::uint64_t ranks,
                         const std::vector<std::int32_t>& values, std::uint8_t dtype, std::uint8_t flags) {
  const std::uint32_t server = jobs::server_of(job, chunk);
  Bytes out;
  Header h;
  h.type = type;
  h.flags = flags;
  h.dtype = dtype;
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(server_rank(server))};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(chunk)};
  h.slot = Be{slot_of(jobs::slot_map(job), chunk)};
  h.contributors = Be{ranks};
  h.cookie = Be{raw(job.server_ranks.at(server).cookie)};
  fill(out, h, values, job.key_sum);
  return out;
}

Bytes make_result_above(const jobs::NativeJob& job, Chunk chunk, const std::vector<std::int32_t>& values,
                        std::uint8_t dtype, std::uint8_t flags, std::uint32_t total) {
  Bytes out;
  Header h;
  h.type = PacketType::kResult;
  h.flags = flags;
  h.dtype = dtype;
  h.job = Be{raw(job.parent.job)};
  h.rank = Be{raw(kSwitchRank)};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(chunk)};
  h.contributors = Be{job.parent.members};
  h.cookie = Be{raw(job.parent.result_cookie)};
  h.total = Be{total};
  fill(out, h, values, job.parent.key_sum);
  return out;
}

Bytes make_query_above(const jobs::NativeJob& job, Chunk chunk, std::uint16_t rack, std::uint32_t total) {
  Bytes out = make_result_above(job, chunk, {}, 0, kFlagDirect, total);
  Header h = header_of(out);
  h.type = PacketType::kQuery;
  h.rank = Be{rack};
  h.slot = Be{raw(jobs::slot_at(job.parent, chunk))};
  h.contributors = Be{std::uint64_t{1} << job.parent.rack};
  h.sum1 = Be{std::uint32_t{0}};
  set_header(out, h);
  return out;
}

Bytes make_query(const jobs::NativeJob& job, Rank asker, Chunk chunk, Rank peer) {
  Bytes out = make_query(job, asker, chunk);
  Header h = header_of(out);
  h.contributors = Be{bit_of(peer)};
  set_header(out, h);
  return out;
}
Bytes make_query(const jobs::NativeJob& job, Rank asker, Chunk chunk) {
  Bytes out = make_contribution(job, {.rank = asker, .chunk = chunk, .sequence = 1});
  Header h = header_of(out);
  h.type = PacketType::kQuery;
  h.slot = Be{slot_of(jobs::slot_map(job), chunk)};
  h.contributors = {};
  h.sum1 = Be{std::uint32_t{0}};
  set_header(out, h);
  return out;
}

Bytes sent_again(const jobs::NativeJob& job, Bytes contribution) {
  Header h = header_of(contribution);
  h.slot = Be{next_sequence(job, h.rank_id(), h.chunk_id())};
  set_header(contribution, h);
  return contribution;
}

Bytes wrap(std::span<const std::byte> datagram, const jobs::Binding& from, const jobs::Box& box,
           std::uint16_t destination_port) {
  const auto udp_bytes = static_cast<std::uint16_t>(sizeof(UdpHeader) + datagram.size());
  Bytes out(sizeof(EthernetHeader) + sizeof(Ipv4Header) + udp_bytes);
  Ipv4Header ip;
  ip.total_length = Be{static_cast<std::uint16_t>(sizeof ip + udp_bytes)};
  std::memcpy(ip.source.data(), from.address.data() + 12, 4);
  ip.destination = box.ipv4;
  std::byte* at = append(out.data(), EthernetHeader{box.mac, from.mac, Be{kEtherIpv4}});
  at = append(at, ip);
  at = append(at, UdpHeader{Be{from.udp_port}, Be{destination_port}, Be{udp_bytes}, {}});
  if (!datagram.empty()) std::memcpy(at, datagram.data(), datagram.size());
  return out;
}

ReceivedFrame::ReceivedFrame(std::span<const std::byte> bytes, PortIndex port, bool vouched,
                             std::size_t tail_room)
    : buffer_(bytes.begin(), bytes.end()),
      length_(static_cast<std::uint32_t>(bytes.size())),
      port_(port),
      vouched_(vouched) {
  buffer_.resize(bytes.size() + tail_room);
}

pipeline::Frame ReceivedFrame::frame() noexcept {
  return {.data = buffer_.data(),
          .length = length_,
          .capacity = static_cast<std::uint32_t>(buffer_.size()),
          .port = port_,
          .checksum_good = vouched_};
}

}  // namespace tally
