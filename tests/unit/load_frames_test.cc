// The frames of tally-bench, both families, with and without a tag, against the gates of box and worker.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/datagram.h"
#include "load_frames.h"
#include "pipeline/frame.h"
#include "pipeline/reply.h"
#include "tally/mix64.h"
#include "tally/net.h"

namespace tally::bench {
namespace {

struct Family {
  const char* box;
  const char* first;
  std::uint16_t vlan;
  std::size_t head;  // Ethernet to UDP
};

jobs::Box box_at(const dpdk_transport::WorkerAddress& worker, const engine::Membership& m) {
  jobs::Box box{.mac = m.box_mac, .ipv4 = {}, .ipv6 = worker.ipv4() ? Ipv6{} : worker.box};
  if (worker.ipv4()) std::copy_n(worker.box.begin() + 12, box.ipv4.size(), box.ipv4.begin());
  return box;
}

// RFC 8200, 8.1: of the pseudo header and all of the UDP packet; 0xFFFF if its checksum is right.
std::uint16_t ipv6_udp_sum(const dpdk_transport::WorkerAddress& from, std::span<const std::byte> udp) {
  return folded(internet_sum(std::as_bytes(std::span(from.own))) +
                internet_sum(std::as_bytes(std::span(from.box))) + kProtocolUdp +
                static_cast<std::uint32_t>(udp.size()) + internet_sum(udp));
}

void PrintTo(const Family& f, std::ostream* out) { *out << f.box << " VLAN " << f.vlan; }

class LoadFrames : public testing::TestWithParam<Family> {};

TEST_P(LoadFrames, AreContributionsAsTheProtocolWantsThem) {
  const Family family = GetParam();
  const bool ipv4 = std::string_view(family.box).find(':') == std::string_view::npos;
  const auto places = worker_places(family.box, family.first, 2, 5);
  ASSERT_TRUE(places) << places.error().text();
  engine::Membership m;
  m.job = JobId{3};
  m.epoch = Epoch{77};
  m.cookie = Cookie{0xabc};
  m.generation = Generation{0x1234};
  m.window = m.largest_window = 64;
  m.world = 2;
  m.shards = 4;
  m.key = rank_key(m.generation, Rank{1});
  m.box_mac = {2, 9, 9, 9, 9, 9};
  const kernels::Kernels& kernels = kernels::best_kernels();
  const LoadImages images(32, Dtype::kFloat32, kernels);
  std::map<std::uint32_t, std::uint32_t> sequences;  // by shard
  ContributionWriter writer((*places)[1], family.vlan, m, 1, images, kernels);
  EXPECT_EQ(writer.encapsulation(), family.head);
  EXPECT_EQ(writer.encapsulation(), encapsulation_of((*places)[1], family.vlan));
  EXPECT_EQ(writer.frame_bytes(), family.head + 56 + 128);
  std::vector<std::byte> frame(writer.frame_bytes());
  std::ranges::copy(images.values(9), frame.end() - 128);
  for (const std::uint32_t chunk : {0U, 5U, 0xFFFFFFFFU}) {
    writer.write(frame, Chunk{chunk}, 9, chunk == 5);
    const pipeline::OpenedFrame opened = pipeline::open_frame(
        {.data = frame.data(), .length = static_cast<std::uint32_t>(frame.size())}, box_at((*places)[1], m));
    ASSERT_EQ(opened.kind, pipeline::Kind::kNative);
    EXPECT_EQ(opened.payload_bytes, 56U + 128);
    EXPECT_EQ(opened.source.mac, (*places)[1].mac);
    EXPECT_EQ(opened.source.address, (*places)[1].own);
    EXPECT_EQ(opened.source.udp_port, (*places)[1].udp_port);
    EXPECT_EQ(opened.source.vlan, family.vlan);
    UdpHeader udp;
    std::memcpy(&udp, frame.data() + writer.encapsulation() - sizeof udp, sizeof udp);
    EXPECT_EQ(udp.destination.host(), 0xBF00 + chunk % 64 % 4);
    EXPECT_EQ(udp.checksum.host() == 0, ipv4);
    if (!ipv4) {
      EXPECT_EQ(ipv6_udp_sum((*places)[1], std::span(frame).subspan(family.head - sizeof udp)), 0xFFFF);
    }
    engine::Datagram d{};
    ASSERT_FALSE(engine::open_datagram(std::span(frame).subspan(writer.encapsulation()), kernels, d,
                                       engine::Opener::kServer));
    EXPECT_EQ(d.header.type, PacketType::kContribute);
    EXPECT_EQ(d.header.flags, chunk == 5 ? kFlagRetransmit : 0);
    EXPECT_EQ(d.header.sequence(), ++sequences[m.shard_of(Chunk{chunk})]) << "each that is written";
    EXPECT_EQ(d.header.contributors.host(), 2U);
    EXPECT_EQ(d.header.cookie.host(), 0xabcU);
    EXPECT_EQ(d.header.dtype, 1);
    EXPECT_EQ(d.header.exponent, images.exponent(9));
    EXPECT_EQ(d.header.total.host(), images.total());
    const kernels::Sums sums = kernels.sums(d.payload.data(), 32);
    EXPECT_EQ(d.header.sum1.host(), sums.sum1 + keyed(m.key, Chunk{chunk}));
    EXPECT_EQ(d.header.sum2.host(), sums.sum2);
  }
}
INSTANTIATE_TEST_SUITE_P(BothFamiliesWithAndWithoutATag, LoadFrames,
                         testing::Values(Family{"10.0.0.1", "10.0.0.10/24", jobs::kUntagged, 42},
                                         Family{"10.0.0.1", "10.0.0.10/24", 7, 46},
                                         Family{"fd00::1", "fd00::10/64", jobs::kUntagged, 62},
                                         Family{"fd00::1", "fd00::10/64", 4094, 66}));

TEST_P(LoadFrames, OfTheBoxAreOpenedOnlyWithTheTagThatIsExpected) {
  const Family family = GetParam();
  const auto places = worker_places(family.box, family.first, 1, 5);
  ASSERT_TRUE(places) << places.error().text();
  const dpdk_transport::WorkerAddress& ours = places->front();
  const engine::Membership m{.box_mac = {2, 9, 9, 9, 9, 9}};
  const std::vector<std::byte> datagram(64, std::byte{5});
  const auto frame_with = [&](std::uint16_t vlan) {
    jobs::Binding to;
    to.address = ours.own;
    to.mac = ours.mac;
    to.vlan = vlan;
    to.udp_port = ours.udp_port;
    std::vector<std::byte> frame(pipeline::encapsulation_bytes(to));
    pipeline::write_encapsulation(frame, to, box_at(ours, m), kBasePort, datagram);
    frame.insert(frame.end(), datagram.begin(), datagram.end());
    return frame;
  };
  const dpdk_transport::WorkerFilter filter{.ours = ours, .vlan = family.vlan};
  const auto frame = frame_with(family.vlan);
  EXPECT_EQ(dpdk_transport::open_worker_frame(frame, filter).size(), 64U);
  for (const std::uint16_t other : {std::uint16_t{0}, std::uint16_t{8}, jobs::kUntagged}) {
    if (other == family.vlan) continue;
    EXPECT_TRUE(dpdk_transport::open_worker_frame(frame_with(other), filter).empty()) << other;
  }
  for (std::size_t bytes = 0; bytes < frame.size() - datagram.size(); ++bytes)
    EXPECT_TRUE(dpdk_transport::open_worker_frame(std::span(frame).first(bytes), filter).empty()) << bytes;
  if (family.vlan == jobs::kUntagged) return;
  auto urgent = frame;
  urgent[14] |= std::byte{0xE0};  // priority 7
  EXPECT_EQ(dpdk_transport::open_worker_frame(urgent, filter).size(), 64U);
}

TEST(LoadImages, AreValuesThatNoSumOf64RanksLeavesInt32With) {
  const LoadImages images(2224, Dtype::kFloat32, kernels::best_kernels());
  std::set<int> exponents;
  for (ImageIndex image = 0; image < LoadImages::kImages; ++image) {
    exponents.insert(images.exponent(image));
    for (std::size_t k = 0; k < 2224; ++k) {
      Be<std::int32_t> value;
      std::memcpy(&value, images.values(image).data() + 4 * k, sizeof value);
      ASSERT_LE(std::abs(value.host()), 1 << 24);
    }
    EXPECT_EQ(LoadImages(16, Dtype::kInt32, kernels::best_kernels()).exponent(image), kNoExponent);
  }
  EXPECT_EQ(*exponents.begin(), -127);  // of zeros
  EXPECT_GE(*std::next(exponents.begin()), -96);
  EXPECT_GT(exponents.size(), 40U);
  EXPECT_EQ(images.total() % 2224, 0U);
}

}  // namespace
}  // namespace tally::bench
