// Headers of results: templates against headers that are put together byte by byte, and the groups of
// multicast results.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "io/headers.h"
#include "jobs.h"
#include "jobs/binding.h"
#include "pipeline/reply.h"
#include "rng.h"

namespace tally {
namespace {

constexpr jobs::Box kBox{.mac = {2, 0, 0, 0, 0, 0xb0}, .ipv4 = {10, 0, 0, 1}, .ipv6 = {0xfd, 0, 0, 1}};

std::vector<std::byte> random_bytes(Rng& rng, std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(rng.below(256));
  return bytes;
}

jobs::Binding random_receiver(Rng& rng, bool ipv6, bool tagged) {
  jobs::Binding b;
  for (auto& octet : b.address) octet = static_cast<std::uint8_t>(rng.below(256));
  if (!ipv6) b.address = mapped({b.address[0], b.address[1], b.address[2], b.address[3]});
  for (auto& octet : b.mac) octet = static_cast<std::uint8_t>(rng.below(256));
  b.vlan = tagged ? static_cast<std::uint16_t>(rng.below(4096)) : jobs::kUntagged;
  b.udp_port = static_cast<std::uint16_t>(rng.below(65536));
  return b;
}

using Bytes = std::vector<std::byte>;

void put8(Bytes& to, unsigned value) { to.push_back(static_cast<std::byte>(value)); }
void put16(Bytes& to, std::size_t value) {
  put8(to, value >> 8 & 0xFF);
  put8(to, value & 0xFF);
}
template <class Address>
void put(Bytes& to, const Address& address) {
  for (const std::uint8_t octet : address) put8(to, octet);
}

// RFC 1071 as it is defined: 16-bit words, a byte that is left over is padded.
std::size_t checksum(Bytes bytes) {
  if (bytes.size() % 2 == 1) put8(bytes, 0);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    sum += std::to_integer<std::size_t>(bytes[i]) << 8 | std::to_integer<std::size_t>(bytes[i + 1]);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return 0xFFFF - sum;
}

// What lies in front of `payload`, field by field.
Bytes headers_to(const jobs::Binding& to, std::uint16_t source_port, const Bytes& payload,
                 std::uint16_t fragment = 0x4000) {
  const bool ipv6 = !is_mapped_ipv4(to.address);
  const std::size_t length = 8 + payload.size();
  Bytes udp;
  for (const std::size_t field : {std::size_t{source_port}, std::size_t{to.udp_port}, length})
    put16(udp, field);
  Bytes ip;
  if (ipv6) {
    for (const unsigned byte : {0x60U, 0U, 0U, 0U}) put8(ip, byte);
    put16(ip, length);
    for (const unsigned byte : {17U, 64U}) put8(ip, byte);
    put(ip, kBox.ipv6);
    put(ip, to.address);
    Bytes counted(ip.begin() + 8, ip.end());  // the pseudo header: addresses, length, next header
    put16(counted, length);
    put16(counted, 17);
    counted.insert(counted.end(), udp.begin(), udp.end());
    counted.insert(counted.end(), payload.begin(), payload.end());
    const std::size_t check = checksum(counted);
    put16(udp, check == 0 ? 0xFFFF : check);
  } else {
    const auto header = [&](std::size_t check) {
      Bytes h;
      for (const std::size_t field : {std::size_t{0x4500}, 20 + length, std::size_t{0}, std::size_t{fragment},
                                      std::size_t{64U << 8 | 17U}, check})
        put16(h, field);
      put(h, kBox.ipv4);
      h.insert(h.end(), {std::byte{to.address[12]}, std::byte{to.address[13]}, std::byte{to.address[14]},
                         std::byte{to.address[15]}});
      return h;
    };
    ip = header(checksum(header(0)));
    put16(udp, 0);
  }
  Bytes all;
  put(all, to.mac);
  put(all, kBox.mac);
  if (to.vlan != jobs::kUntagged) {
    put16(all, 0x8100);
    put16(all, to.vlan);
  }
  put16(all, ipv6 ? 0x86DD : 0x0800);
  all.insert(all.end(), ip.begin(), ip.end());
  all.insert(all.end(), udp.begin(), udp.end());
  return all;
}

TEST(HeaderTemplate, WritesTheHeadersOfTheRfcs) {
  Rng rng(1);
  for (int i = 0; i < 4'000; ++i) {
    const bool ipv6 = i % 2 == 1;
    const jobs::Binding to = random_receiver(rng, ipv6, i / 2 % 2 == 1);
    const auto payload = random_bytes(rng, rng.below(9'001));
    const auto port = static_cast<std::uint16_t>(kBasePort + rng.below(64));
    const Bytes expected = headers_to(to, port, payload);
    Bytes at_once(pipeline::encapsulation_bytes(to));
    pipeline::write_encapsulation(at_once, to, kBox, port, payload);
    ASSERT_EQ(at_once, expected) << "receiver " << i << ", " << payload.size() << " bytes";

    const pipeline::HeaderTemplate header(to, kBox);
    ASSERT_EQ(header.bytes(), expected.size());
    ASSERT_EQ(header.ipv6(), ipv6);
    Bytes got(header.bytes());
    header.write(got.data(), port, static_cast<std::uint32_t>(payload.size()), internet_sum(payload));
    ASSERT_EQ(got, expected) << "receiver " << i << ", " << payload.size() << " bytes";
  }
}

// Of sessions: the source port is the member's, fragmenting is not forbidden, and the destination is filled
// in.
TEST(HeaderTemplate, OfASessionNamesTheMembersPortsAndMayBeFragmented) {
  Rng rng(3);
  for (int i = 0; i < 400; ++i) {
    jobs::Binding to = random_receiver(rng, false, false);
    const auto source = static_cast<std::uint16_t>(0xBEE0 + rng.below(16));
    pipeline::HeaderTemplate header(to, kBox, source, 0);
    to.udp_port = static_cast<std::uint16_t>(rng.below(65536));
    header.set_destination_port(to.udp_port);
    const auto payload = random_bytes(rng, 10 + (128U << rng.below(4)));
    const Bytes expected = headers_to(to, source, payload, 0);
    Bytes got(header.bytes());
    header.write(got.data(), 0, static_cast<std::uint32_t>(payload.size()), 0);
    ASSERT_EQ(got, expected) << "receiver " << i;
    ASSERT_EQ(got[20], std::byte{0}) << "no DF";
  }
}

// All ones and all zeros are the corner cases of the ones' complement: a UDP checksum of 0 is sent as 0xFFFF.
TEST(HeaderTemplate, ExtremePayloadsHaveTheSameChecksum) {
  Rng rng(2);
  const jobs::Binding to = random_receiver(rng, true, false);
  const pipeline::HeaderTemplate header(to, kBox);
  for (const std::size_t bytes : {0UL, 1UL, 2UL, 3UL, 56UL, 1'465UL, 8'952UL}) {
    for (const int fill : {0x00, 0xFF}) {
      const std::vector<std::byte> payload(bytes, static_cast<std::byte>(fill));
      const Bytes expected = headers_to(to, kBasePort, payload);
      Bytes got(62);
      header.write(got.data(), kBasePort, static_cast<std::uint32_t>(bytes), internet_sum(payload));
      EXPECT_EQ(got, expected) << bytes << " bytes of " << fill;
    }
  }
  // A payload word that makes the sum all ones.
  std::vector<std::byte> payload(2);
  int zero_checksums = 0;
  for (std::uint32_t word = 0; word < 65'536; ++word) {
    const Be<std::uint16_t> be{static_cast<std::uint16_t>(word)};
    std::memcpy(payload.data(), &be, 2);
    const Bytes expected = headers_to(to, kBasePort, payload);
    Bytes got(62);
    header.write(got.data(), kBasePort, 2, internet_sum(payload));
    ASSERT_EQ(got, expected) << word;
    zero_checksums += got[60] == std::byte{0xFF} && got[61] == std::byte{0xFF} ? 1 : 0;
  }
  EXPECT_GT(zero_checksums, 0);
}

TEST(Multicast, GroupsHaveTheAddressesOfTheProtocol) {
  const jobs::Binding v4{
      .address = mapped({10, 0, 0, 9}), .mac = {2}, .vlan = 7, .udp_port = 99, .port = PortIndex{3}};
  const jobs::Binding group = jobs::multicast_binding(JobId{0x0102}, v4);
  EXPECT_EQ(group.address, mapped({239, 192, 1, 2}));
  EXPECT_EQ(group.mac, (Mac{0x01, 0x00, 0x5e, 0x40, 0x01, 0x02}));
  EXPECT_EQ(group.udp_port, kMulticastPort);
  EXPECT_EQ(group.vlan, 7);
  EXPECT_EQ(group.port, PortIndex{3});
  const jobs::Binding v6{.address = {0xfd, 1}, .port = PortIndex{4}};
  const jobs::Binding group6 = jobs::multicast_binding(JobId{0x0102}, v6);
  EXPECT_EQ(group6.address, (Ipv6{0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2}));
  EXPECT_EQ(group6.mac, (Mac{0x33, 0x33, 0x00, 0x01, 0x00, 0x02}));
}

TEST(JobHeaders, OneFrameServesLeadersOfOneVlanAndIpVersion) {
  jobs::NativeJob job = make_job({.world = 8});  // ports 0..3, twice
  job.leaders = 0b1111;
  EXPECT_TRUE(io::JobHeaders(job, kBox).one_frame);
  EXPECT_EQ(io::JobHeaders(job, kBox).group_ports, 0b1111U);
  EXPECT_FALSE(io::JobHeaders(job, kBox).ipv6);
  job.ranks[2].binding.vlan = 5;
  EXPECT_FALSE(io::JobHeaders(job, kBox).one_frame);
  job.ranks[2].binding.vlan = jobs::kUntagged;
  job.ranks[1].binding.address = {0xfd, 1};
  EXPECT_FALSE(io::JobHeaders(job, kBox).one_frame);
  EXPECT_TRUE(io::JobHeaders(job, kBox).ipv6);
  job.leaders = 0;
  EXPECT_FALSE(io::JobHeaders(job, kBox).one_frame);
}

// Each server has headers of its own: IPv4 or IPv6, with or without a tag, behind whichever port. The
// members' results need no sum of the payload because a server is reached by IPv6.
TEST(JobHeaders, EveryExternalServerHasItsHeaders) {
  Rng rng(3);
  jobs::NativeJob job = make_job({.world = 2});
  job.server = ServerKind::kExternal;
  job.servers = kMaxServers;
  for (std::uint32_t s = 0; s < kMaxServers; ++s) {
    job.server_ranks[s].binding = random_receiver(rng, s % 2 == 1, s / 2 % 2 == 1);
    job.server_ranks[s].binding.port = PortIndex{static_cast<std::uint16_t>(s + 3)};
  }
  const io::JobHeaders headers(job, kBox);
  EXPECT_FALSE(headers.ipv6);
  for (std::uint32_t s = 0; s < kMaxServers; ++s) {
    const jobs::Binding& to = job.server_ranks[s].binding;
    const auto payload = random_bytes(rng, 1'464);
    const Bytes expected = headers_to(to, kBasePort + 5, payload);
    const io::Receiver& server = headers.servers[s];
    EXPECT_EQ(server.port, to.port);
    EXPECT_EQ(server.header.ipv6(), s % 2 == 1);
    Bytes got(server.header.bytes());
    server.header.write(got.data(), kBasePort + 5, 1'464, internet_sum(payload));
    EXPECT_EQ(got, expected) << "server " << s;
  }
  job.servers = 1;
  EXPECT_EQ(io::JobHeaders(job, kBox).servers[1].header.bytes(), 0U);
}

TEST(HeaderTable, KeepsTheHeadersOfRowsThatDidNotChange) {
  auto first = std::make_shared<const jobs::NativeJob>(make_job({.id = 1}));
  auto second = std::make_shared<const jobs::NativeJob>(make_job({.id = 2}));
  auto renewed = std::make_shared<const jobs::NativeJob>(make_job({.id = 2, .epoch = 7}));
  const auto before = jobs::JobTable().with(JobId{1}, first)->with(JobId{2}, second);
  const auto after = before->with(JobId{2}, renewed);
  const io::HeaderTable old(*before, kBox, nullptr, nullptr);
  const io::HeaderTable now(*after, kBox, &old, before.get());
  EXPECT_EQ(&now.of(*first), &old.of(*first));
  EXPECT_NE(&now.of(*renewed), &old.of(*second));
}

// Made with another box's addresses, a template tells whether it was made at all.
TEST(HeaderTable, AnUnchangedMembersHeadersAreKept) {
  auto row = make_job({.world = 3});
  const auto was = std::make_shared<const jobs::NativeJob>(row);
  row.epoch = Epoch{7};
  row.ranks[1].binding.udp_port = 4'321;
  const auto is = std::make_shared<const jobs::NativeJob>(row);
  const auto before = jobs::JobTable().with(row.id, was);
  const auto after = before->with(row.id, is);
  jobs::Box elsewhere = kBox;
  elsewhere.ipv4 = {10, 9, 9, 9};
  const io::HeaderTable old(*before, kBox, nullptr, nullptr);
  const io::HeaderTable now(*after, elsewhere, &old, before.get());
  const auto written = [](const io::Receiver& to) {
    std::vector<std::byte> bytes(to.header.bytes());
    to.header.write(bytes.data(), kBasePort, 64, 0);
    return bytes;
  };
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(written(now.of(*is).members[rank]), written(old.of(*was).members[rank])) << "rank " << rank;
  EXPECT_EQ(written(now.of(*is).members[1]), written(io::JobHeaders(*is, elsewhere).members[1]));
}

// What a template is for follows from the dialect too: a session's frames have another source port, and may
// be fragmented.
TEST(HeaderTable, ASessionKeepsNoHeadersOfANativeJob) {
  const auto native = std::make_shared<const jobs::NativeJob>(make_job({.world = 2}));
  const auto session = std::make_shared<jobs::SessionJob>();
  static_cast<jobs::Job&>(*session) = *native;
  const auto before = jobs::JobTable().with(native->id, native);
  const auto after = before->with(native->id, session);
  const io::HeaderTable old(*before, kBox, nullptr, nullptr);
  const io::HeaderTable now(*after, kBox, &old, before.get());
  std::array<std::byte, 42> got{};
  std::array<std::byte, 42> expected{};
  now.of(*session).members[0].header.write(got.data(), 0, 64, 0);
  io::JobHeaders(*session, kBox).members[0].header.write(expected.data(), 0, 64, 0);
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace tally
