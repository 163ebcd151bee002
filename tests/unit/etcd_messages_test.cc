// What is sent to etcd and what is understood of its answers. The answers here are those that an etcd 3.4.23 gave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "etcd/messages.h"
#include "rng.h"
#include "text/base64.h"

#ifndef TALLY_SEED_SHARE
#define TALLY_SEED_SHARE 1
#endif

namespace tally::etcd {
namespace {

using fleet::Fault;
using fleet::Read;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kRange =
    R"({"header":{"cluster_id":"10144879847569953045","member_id":"12428976124636271536","revision":"7","raft_term":"2"},)"
    R"("kvs":[{"key":"L2E=","create_revision":"2","mod_revision":"5","version":"1","value":"MQ==","lease":"1418812125777641736"},)"
    R"({"key":"L2I=","create_revision":"6","mod_revision":"6","version":"1"}],"count":"2"})";
constexpr const char* kTransaction =
    R"({"header":{"revision":"4"},"responses":[{"response_range":{"header":{"revision":"3"},"kvs":[{"key":"L2M=",)"
    R"("create_revision":"3","mod_revision":"3","version":"1","value":"MQ=="}],"count":"1"}},)"
    R"({"response_delete_range":{"header":{"revision":"4"},"deleted":"1"}},{"response_range":{"header":{"revision":"4"}}}]})";
constexpr const char* kKeepAlive = R"({"result":{"header":{"revision":"2"},"ID":"1234","TTL":"5"}})"
                                   "\n";
constexpr const char* kEvents =
    R"({"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"L2M=","create_revision":"3","mod_revision":"3",)"
    R"("version":"1","value":"MQ=="}},{"type":"DELETE","kv":{"key":"L2M=","mod_revision":"4"}}]}})";

TEST(EtcdMessages, RequestsAreAsTheGatewayWantsThem) {
  EXPECT_EQ(call_of(Read{{"/a", false}}).path, "/v3/kv/range");
  EXPECT_EQ(call_of(Read{{"/a", false}}).body, R"({"key":"L2E="})");
  EXPECT_EQ(call_of(Read{{"/a", true}}).body, R"({"key":"L2E=","range_end":"L2I="})");
  EXPECT_EQ(call_of(Read{{"\xff\xff", true}}).body, R"({"key":"//8=","range_end":"AA=="})");
  EXPECT_EQ(call_of(Read{{"a\xff", true}}).body, R"({"key":"Yf8=","range_end":"Yg=="})");
  EXPECT_EQ(call_of(fleet::Put{"/a", "1", 9}).body, R"({"key":"L2E=","lease":"9","value":"MQ=="})");
  EXPECT_EQ(call_of(fleet::Grant{5 * kSecond}).body, R"({"TTL":"5"})");
  EXPECT_EQ(call_of(fleet::KeepAlive{-7}).body, R"({"ID":"-7"})");
  const fleet::Transaction transaction{
      .compare = {{.key = "/a", .revision = 0},
                  {.key = "/a", .of = fleet::Compare::Of::kModified, .revision = 4},
                  {.key = "/a", .of = fleet::Compare::Of::kValue, .value = "1"}},
      .then = {fleet::Put{"/a", "1"}, fleet::EraseUpTo{"/a", "/b"}},
      .otherwise = {Read{{"/a", false}}}};
  EXPECT_EQ(call_of(transaction).path, "/v3/kv/txn");
  EXPECT_EQ(
      call_of(transaction).body,
      R"({"compare":[{"create_revision":"0","key":"L2E=","result":"EQUAL","target":"CREATE"},)"
      R"({"key":"L2E=","mod_revision":"4","result":"EQUAL","target":"MOD"},)"
      R"({"key":"L2E=","result":"EQUAL","target":"VALUE","value":"MQ=="}],)"
      R"("failure":[{"request_range":{"key":"L2E="}}],)"
      R"("success":[{"request_put":{"key":"L2E=","value":"MQ=="}},{"request_delete_range":{"key":"L2E=","range_end":"L2I="}}]})");
  EXPECT_EQ(watch_of("/a", 17).body,
            R"({"create_request":{"key":"L2E=","range_end":"L2I=","start_revision":"17"}})");
}

TEST(EtcdMessages, OnlyWhatIsReadIsAskedTwice) {
  EXPECT_TRUE(is_repeatable(Read{}));
  EXPECT_TRUE(is_repeatable(fleet::KeepAlive{}));
  EXPECT_FALSE(is_repeatable(fleet::Put{}));
  EXPECT_FALSE(is_repeatable(fleet::Transaction{}));
  EXPECT_FALSE(is_repeatable(fleet::Grant{}));
  EXPECT_FALSE(is_repeatable(fleet::Revoke{}));
  EXPECT_FALSE(is_repeatable(fleet::Erase{}));
}

TEST(EtcdMessages, AnswersAreUnderstood) {
  const auto range = read_reply(Read{}, kRange);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->revision, 7);
  EXPECT_EQ(range->count, 2U);
  ASSERT_THAT(range->pairs, SizeIs(2));
  EXPECT_EQ(range->pairs[0], (fleet::Pair{"/a", "1", 2, 5, 1418812125777641736}));
  EXPECT_EQ(range->pairs[1], (fleet::Pair{"/b", "", 6, 6, 0}));
  const auto transaction = read_reply(fleet::Transaction{}, kTransaction);
  ASSERT_TRUE(transaction);
  EXPECT_FALSE(transaction->held);
  ASSERT_THAT(transaction->reads, SizeIs(2));
  EXPECT_THAT(transaction->reads[0], SizeIs(1));
  EXPECT_THAT(transaction->reads[1], SizeIs(0));
  EXPECT_TRUE(read_reply(fleet::Transaction{}, R"({"header":{"revision":"3"},"succeeded":true})")->held);
  EXPECT_EQ(read_reply(fleet::KeepAlive{}, kKeepAlive)->ttl, 5 * kSecond);
  EXPECT_EQ(read_reply(fleet::KeepAlive{}, R"({"result":{"header":{"revision":"2"},"ID":"1234"}})")->ttl, 0U);
  const auto grant =
      read_reply(fleet::Grant{}, R"({"header":{"revision":"2"},"ID":"1418812125777641736","TTL":"5"})");
  EXPECT_EQ(grant->lease, 1418812125777641736);
  EXPECT_EQ(grant->ttl, 5 * kSecond);
  EXPECT_FALSE(read_reply(fleet::Grant{}, R"({"header":{"revision":"2"}})"));
  EXPECT_EQ(read_token(R"({"header":{},"token":"abc.12"})"), "abc.12");
  EXPECT_FALSE(read_token(R"({"token":"a\r\nHost: b"})"));
}

TEST(EtcdMessages, ErrorsHaveTheirFault) {
  const struct {
    int code;
    const char* message;
    Fault fault;
    Refusal::Kind kind;
    bool perhaps;
  } cases[] = {
      {3, "etcdserver: request is too large", Fault::kTooLarge, Refusal::Kind::kStore, false},
      {3, "etcdserver: key is not provided", Fault::kInvalid, Refusal::Kind::kStore, false},
      {3, "etcdserver: duplicate key given in txn request", Fault::kInvalid, Refusal::Kind::kStore, false},
      {3, "etcdserver: user name is empty", Fault::kRefused, Refusal::Kind::kNoToken, false},
      {3, "etcdserver: revision of auth store is old", Fault::kRefused, Refusal::Kind::kNoToken, false},
      {3, "etcdserver: authentication failed, invalid user ID or password", Fault::kRefused,
       Refusal::Kind::kStore, false},
      {5, "etcdserver: requested lease not found", Fault::kNoLease, Refusal::Kind::kStore, false},
      {7, "etcdserver: permission denied", Fault::kRefused, Refusal::Kind::kStore, false},
      {8, "etcdserver: mvcc: database space exceeded", Fault::kRefused, Refusal::Kind::kStore, false},
      {9, "etcdserver: authentication is not enabled", Fault::kRefused, Refusal::Kind::kNoAuth, false},
      {11, "etcdserver: mvcc: required revision has been compacted", Fault::kCompacted, Refusal::Kind::kStore,
       false},
      {14, "etcdserver: request timed out", Fault::kUnreachable, Refusal::Kind::kStore, true},
      {16, "etcdserver: invalid auth token", Fault::kRefused, Refusal::Kind::kNoToken, false},
  };
  for (const auto& one : cases) {
    const std::string body = R"({"error":"x","message":")" + std::string(one.message) + R"(","code":)" +
                             std::to_string(one.code) + "}";
    const Refusal refusal = read_refusal(400, body);
    EXPECT_EQ(refusal.error.fault, one.fault) << one.message;
    EXPECT_EQ(refusal.kind, one.kind) << one.message;
    EXPECT_EQ(refusal.error.perhaps, one.perhaps) << one.message;
    EXPECT_EQ(refusal.error.text, std::string("etcd says: ") + one.message);
  }
  EXPECT_EQ(read_refusal(502, "<html>").error.text, "what answers there is no etcd: HTTP status 502");
  EXPECT_FALSE(read_refusal(502, "<html>").error.perhaps);
}

TEST(EtcdMessages, LinesOfAWatchAreUnderstood) {
  const auto created = read_watch_line(R"({"result":{"header":{"revision":"4"},"created":true}})");
  ASSERT_TRUE(created);
  EXPECT_FALSE(created->over);
  EXPECT_THAT(created->changes, SizeIs(0));
  const auto events = read_watch_line(kEvents);
  ASSERT_TRUE(events);
  ASSERT_THAT(events->changes, SizeIs(2));
  EXPECT_FALSE(events->changes[0].erased);
  EXPECT_EQ(events->changes[0].pair.value, "1");
  EXPECT_TRUE(events->changes[1].erased);
  // Not the header's: between the two more may follow.
  EXPECT_EQ(events->last, 4);
  const auto compacted =
      read_watch_line(R"({"result":{"header":{},"canceled":true,"compact_revision":"3"}})");
  ASSERT_TRUE(compacted);
  EXPECT_TRUE(compacted->over && compacted->compacted);
  EXPECT_EQ(compacted->why, "etcd has forgotten changes up to revision 3");
  const auto denied = read_watch_line(
      R"({"result":{"header":{},"canceled":true,"created":true,"cancel_reason":"etcdserver: permission denied"}})");
  ASSERT_TRUE(denied);
  EXPECT_TRUE(denied->over && !denied->compacted);
  EXPECT_THAT(denied->why, HasSubstr("permission denied"));
  const auto token = read_watch_line(
      R"({"error":{"grpc_code":16,"http_code":401,"message":"etcdserver: invalid auth token"}})");
  ASSERT_TRUE(token);
  EXPECT_TRUE(token->over && token->no_token);
  const auto old = read_watch_line(
      R"({"result":{"header":{},"canceled":true,"created":true,)"
      R"("cancel_reason":"rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"}})");
  ASSERT_TRUE(old);
  EXPECT_TRUE(old->over && old->no_token && !old->compacted);
  EXPECT_FALSE(denied->no_token) << "another token may no more than this one";
}

// Changed bytes, cut, doubled: understood or not, but nothing else happens.
TEST(EtcdMessages, DamagedAnswersDoNoHarm) {
  Rng rng(20261127);
  const std::array<std::string, 4> whole{kRange, kTransaction, kKeepAlive, kEvents};
  constexpr int kRounds = 20'000 / TALLY_SEED_SHARE;
  int understood = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t kind = rng.below(whole.size());
    std::string body = whole[kind];
    for (std::uint64_t n = rng.between(1, 3); n > 0 && !body.empty(); --n) {
      const std::size_t at = rng.below(body.size());
      if (rng.chance(0.5))
        body[at] = static_cast<char>(rng.chance(0.5) ? rng.next() : '0' + rng.below(10));
      else if (rng.chance(0.5))
        body.erase(at, rng.between(1, 20));
      else
        body.insert(at, body.substr(rng.below(body.size()), rng.between(1, 20)));
    }
    if (kind == 0) understood += read_reply(Read{}, body) ? 1 : 0;
    if (kind == 1) understood += read_reply(fleet::Transaction{}, body) ? 1 : 0;
    if (kind == 2) understood += read_reply(fleet::KeepAlive{}, body) ? 1 : 0;
    if (kind == 3) understood += read_watch_line(body) ? 1 : 0;
    (void)read_refusal(400, body);
    (void)read_token(body);
  }
  EXPECT_GT(understood, kRounds / 20);
  EXPECT_LT(understood, kRounds * 3 / 4);
}

TEST(EtcdMessages, Base64IsExact) {
  EXPECT_EQ(text::base64(""), "");
  EXPECT_EQ(text::base64("f"), "Zg==");
  EXPECT_EQ(text::base64("fo"), "Zm8=");
  EXPECT_EQ(text::base64("foo"), "Zm9v");
  EXPECT_EQ(text::base64(std::string("\xff\x00\xfe", 3)), "/wD+");
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(rng.below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.next());
    EXPECT_EQ(text::from_base64(text::base64(bytes)), bytes);
  }
  for (const char* const bad :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 8", "=g==", "Z===", "Zg==Zg==", "====", "Zm8-"})
    EXPECT_FALSE(text::from_base64(bad)) << bad;
}

}  // namespace
}  // namespace tally::etcd
