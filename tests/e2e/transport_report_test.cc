// How a worker over DPDK says that it wants a multicast group: the frames, and when they are sent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>

#include "dpdk_transport/worker_address.h"
#include "transport_harness.h"

namespace tally::e2e {
namespace {

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

std::vector<std::byte> frame_of(const dpdk_transport::GroupReport& report) {
  return {report.bytes().begin(), report.bytes().end()};
}

// Both made with scapy 2.5.
TEST(TransportReport, IgmpV2ByteForByte) {
  const dpdk_transport::WorkerAddress ours{
      mapped({10, 0, 0, 11}), mapped({10, 0, 0, 1}), {2, 0x11, 0x22, 0x33, 0x44, 0x55}, 9};
  auto expected = from_hex(
      "01005e4001020211223344550800"
      "46c00020000040000102e94a0a00000befc0010294040000"
      "1600f93cefc00102");
  expected.resize(60);
  EXPECT_EQ(frame_of(dpdk_transport::make_group_report(ours, mapped({239, 192, 1, 2}))), expected);
}

TEST(TransportReport, MldV1ByteForByte) {
  Ipv6 group{0xff, 0x15};
  group[13] = 1;
  group[15] = 2;
  const dpdk_transport::WorkerAddress ours{
      Ipv6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11}, {}, {2, 0x11, 0x22, 0x33, 0x44, 0x55}, 9};
  EXPECT_EQ(frame_of(dpdk_transport::make_group_report(ours, group)),
            from_hex("33330001000202112233445586dd"
                     "6000000000200001fe80000000000000001122fffe334455ff150000000000000000000000010002"
                     "3a00050200000100"
                     "83001a6100000000ff150000000000000000000000010002"));
}

class TransportReports : public testing::Test {
 protected:
  void SetUp() override {
    box_ = std::make_unique<FakeBox>(directory_.server());
    auto opened = WorkerSetup{.device = directory_.client()}.open();
    ASSERT_TRUE(opened) << opened.error().text();
    worker_ = std::move(*opened);
    ASSERT_TRUE(worker_->attach());
    ASSERT_TRUE(bring_up(*worker_, box_.get())) << worker_->describe();
  }
  void TearDown() override {
    worker_.reset();
    box_->settle();
  }
  void join(std::uint8_t last) {
    engine::Membership m;
    m.box_mac = FakeBox::kMac;
    m.results = ResultsMode::kMulticast;
    m.group = mapped({239, 192, 1, last});
    m.group_port = kMulticastPort;
    worker_->joined(m);
  }
  // What the box sees is a report for this group; everything that is there.
  [[nodiscard]] std::size_t reports(std::uint8_t last) {
    const auto report =
        frame_of(dpdk_transport::make_group_report(worker_->address(), mapped({239, 192, 1, last})));
    std::size_t count = 0;
    for (const auto& each : box_->poll()) count += each.frame == report ? 1U : 0U;
    return count;
  }

  SocketDirectory directory_;
  std::unique_ptr<FakeBox> box_;
  std::unique_ptr<dpdk_transport::DpdkTransport> worker_;
};

TEST_F(TransportReports, BeforeTheFirstContributionAndAgainASecondLater) {
  worker_->joined(engine::Membership{});
  EXPECT_EQ(reports(1), 0U) << "unicast results need no group";
  join(1);
  EXPECT_EQ(reports(1), 1U);
  join(1);
  EXPECT_EQ(reports(1), 0U) << "another epoch, the same group";
  std::size_t seen = 0;
  const TimeNs began = steady_now();
  EXPECT_TRUE(turn_until(
      *worker_, [&] { return seen != 0; }, [&] { seen += reports(1); }));
  EXPECT_EQ(seen, 1U);
  EXPECT_GE(steady_now() - began, 900 * kMillisecond);
  EXPECT_EQ(worker_->counters().reports.get(), 2U);
  join(2);
  EXPECT_EQ(reports(2), 1U) << "another group is another report";
}

}  // namespace
}  // namespace tally::e2e
