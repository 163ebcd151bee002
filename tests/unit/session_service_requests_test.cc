// What a request may be, and the job that a group becomes.

#include <gtest/gtest.h>

#include "api/job_json.h"
#include "config/load_config.h"
#include "config/one_job.h"
#include "session_service_scene.h"

namespace tally::session_service {
namespace {

TEST(SessionRequests, NumbersOfAddressesAreThoseOfTheClient) {
  EXPECT_EQ(mac_of(0x0200000000FEU), (Mac{0x02, 0, 0, 0, 0, 0xFE}));
  EXPECT_EQ(ipv4_of(0x0A000001U), (Ipv4{10, 0, 0, 1}));
  EXPECT_EQ(number_of(mac_of(0x0123456789ABU)), 0x0123456789ABU);
  EXPECT_EQ(number_of(ipv4_of(0xC0A80102U)), 0xC0A80102U);
}

TEST(SessionRequests, WorldsOfZeroAndOfMoreThan64AreRefusedInWords) {
  const Settings settings = settings_of();
  EXPECT_TRUE(objection_to(Broadcast{0, 63, 64, 0}, settings).ok());
  for (const std::uint32_t workers : {0U, 65U, ~0U}) {
    const Status no = objection_to(Barrier{workers}, settings);
    EXPECT_EQ(no.code, Code::kInvalidArgument);
    EXPECT_NE(no.text.find("num_workers is " + std::to_string(workers)), std::string::npos) << no.text;
    EXPECT_EQ(objection_to(Broadcast{0, 0, workers, 0}, settings).code, Code::kInvalidArgument);
    EXPECT_EQ(objection_to(Scene::wish(0, workers, 11), settings).code, Code::kInvalidArgument);
  }
  Settings opaque = settings;
  opaque.tsi = jobs::TsiRule::kOpaque;
  EXPECT_TRUE(objection_to(Barrier{32}, opaque).ok());
  EXPECT_NE(objection_to(Barrier{33}, opaque).text.find("at most 32 with tsi: opaque"), std::string::npos);
}

TEST(SessionRequests, RanksAndRootsAreOfTheWorld) {
  const Settings settings = settings_of();
  EXPECT_NE(objection_to(Broadcast{0, 2, 2, 0}, settings).text.find("ranks 0 to 1"), std::string::npos);
  EXPECT_NE(objection_to(Broadcast{0, 1, 2, 2}, settings).text.find("root is 2"), std::string::npos);
  EXPECT_EQ(objection_to(Scene::wish(5, 5, 11), settings).code, Code::kInvalidArgument);
}

TEST(SessionRequests, PacketSizesAreTheFourOfTheProtocol) {
  const Settings settings = settings_of();
  UdpSession wish = Scene::wish(0, 1, 11);
  for (std::uint32_t size = 0; size < 4; ++size) {
    wish.packet_size = size;
    EXPECT_TRUE(objection_to(wish, settings).ok());
    EXPECT_EQ(payload_of(wish), 128U << size);
  }
  wish.packet_size = 4;
  EXPECT_NE(objection_to(wish, settings).text.find("packet_size is 4"), std::string::npos);
  wish.packet_size = ~0U;
  EXPECT_EQ(objection_to(wish, settings).code, Code::kInvalidArgument);
}

TEST(SessionRequests, AddressesAreThoseOfHosts) {
  const Settings settings = settings_of();
  for (const std::uint64_t mac : {std::uint64_t{0}, std::uint64_t{0x010000000000},
                                  std::uint64_t{0xFFFFFFFFFFFF}, std::uint64_t{1} << 48U}) {
    UdpSession wish = Scene::wish(0, 1, 11);
    wish.mac = mac;
    EXPECT_EQ(objection_to(wish, settings).code, Code::kInvalidArgument) << mac;
  }
  for (const std::uint32_t ipv4 : {0U, 0x7F000001U, 0xE0000001U, 0xFFFFFFFFU}) {
    UdpSession wish = Scene::wish(0, 1, 11);
    wish.ipv4 = ipv4;
    EXPECT_EQ(objection_to(wish, settings).code, Code::kInvalidArgument) << ipv4;
  }
}

TEST(SessionRequests, TheBoxsOwnAddressesAreNobodyElses) {
  const Settings settings = settings_of();
  EXPECT_NE(objection_to(Claim{kBoxHere.mac, {10, 0, 0, 2}}, kBoxHere, settings).text.find("own MAC"),
            std::string::npos);
  EXPECT_NE(
      objection_to(Claim{{2, 0, 0, 0, 0, 1}, {10, 0, 0, 1}}, kBoxHere, settings).text.find("own address"),
      std::string::npos);
  EXPECT_EQ(objection_to(Claim{{2, 0, 0, 0, 0, 1}, {10, 0, 0, 2}}, {kBoxHere.mac, {}}, settings).code,
            Code::kFailedPrecondition);
}

TEST(SessionRequests, OnlyAllowedNetworksHaveMembers) {
  Settings settings = settings_of();
  settings.allow = {*parse_network("10.0.0.0/24"), *parse_network("192.168.7.9")};
  const auto code = [&](const Ipv4& ipv4) {
    return objection_to(Claim{{2, 0, 0, 0, 0, 1}, ipv4}, kBoxHere, settings).code;
  };
  EXPECT_EQ(code({10, 0, 0, 255}), Code::kOk);
  EXPECT_EQ(code({192, 168, 7, 9}), Code::kOk);
  EXPECT_EQ(code({192, 168, 7, 8}), Code::kPermissionDenied);
  EXPECT_EQ(code({10, 0, 1, 0}), Code::kPermissionDenied);
  settings.allow = {*parse_network("0.0.0.0/0")};
  EXPECT_EQ(code({10, 0, 1, 0}), Code::kOk);
}

TEST(SessionRequests, NetworksAreReadStrictly) {
  EXPECT_EQ(to_text(*parse_network("10.1.2.0/23")), "10.1.2.0/23");
  EXPECT_EQ(parse_network("10.1.2.3/24").error().help, "write 10.1.2.0/24");
  for (const char* const text :
       {"", "10.0.0.0/33", "10.0.0/24", "fd00::/8", "::ffff:10.0.0.1", "10.0.0.0/", "x"})
    EXPECT_FALSE(parse_network(text)) << text;
}

TEST(SessionRequests, TheJobIsOneThatTheBoxTakes) {
  Settings settings = settings_of();
  settings.slots = 512;
  const Json job =
      job_of("switchml.a", {{{2, 0, 0, 0, 0, 1}, {10, 0, 0, 11}}, {{2, 0, 0, 0, 0, 2}, {10, 0, 0, 12}}}, 256,
             settings);
  config::Config box;
  box.box.ipv4 = config::Cidr4{{10, 0, 0, 1}, 24};
  box.dataplane.cores = {0};
  const auto read = config::read_one_job(api::node_of(job), box, ".");
  ASSERT_TRUE(read) << config::to_text(read.error());
  const auto& session = std::get<config::SessionConfig>(read->job);
  EXPECT_EQ(session.payload, 256U);
  EXPECT_EQ(session.slots, 512U);
  EXPECT_EQ(session.tsi, jobs::TsiRule::kPacket);
  ASSERT_EQ(session.members.size(), 2U);
  EXPECT_EQ(session.members[1].rank, 1U);
  EXPECT_EQ(session.members[1].mac, (Mac{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(session.members[1].ipv4, (Ipv4{10, 0, 0, 12}));
}

TEST(SessionRequests, CodesHaveTheNamesOfGrpc) {
  EXPECT_STREQ(name_of(Code::kOk), "OK");
  EXPECT_STREQ(name_of(Code::kResourceExhausted), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(static_cast<int>(Code::kUnavailable), 14);
  EXPECT_EQ(static_cast<int>(Code::kUnimplemented), 12);
}

}  // namespace
}  // namespace tally::session_service
