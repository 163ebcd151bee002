// Lines that are requests, and all the ways not to be one.

#include <string>

#include <gtest/gtest.h>

#include "control_api_scene.h"

namespace tally::control_api_test {
namespace {

struct Refused {
  int code = 0;
  std::string message;
  api::Json id;
};

Refused refused(const std::string& line) {
  NotedBox box;
  const api::Json answer = said(box, line);
  EXPECT_TRUE(box.notes.empty()) << line;
  if (!answer.is_object() || !answer.contains("error")) {
    ADD_FAILURE() << "not refused: " << line;
    return {};
  }
  EXPECT_FALSE(answer["error"]["data"].empty()) << "what would be right is missing: " << line;
  return {answer["error"]["code"].get<int>(), answer["error"]["message"].get<std::string>(), answer["id"]};
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ControlRequest, IsAnsweredUnderItsId) {
  NotedBox box;
  EXPECT_EQ(said(box, R"({"jsonrpc":"2.0","id":7,"method":"api.version"})")["id"], 7);
  EXPECT_EQ(said(box, R"({"jsonrpc":"2.0","id":-7,"method":"api.version"})")["id"], -7);
  EXPECT_EQ(said(box, R"({"jsonrpc":"2.0","id":"a\u0000b","method":"api.version"})")["id"],
            std::string("a\0b", 3));
  EXPECT_EQ(said(box, R"({"jsonrpc":"2.0","id":null,"method":"api.version"})")["result"]["tallyd"], "0.1.0");
  EXPECT_EQ(said(box, R"(  {"method":"api.version", "id":18446744073709551615, "jsonrpc":"2.0"} )")["id"],
            18446744073709551615ULL);
}

TEST(ControlRequest, ANotificationIsDoneAndNotAnswered) {
  NotedBox box;
  EXPECT_EQ(api::answer(R"({"jsonrpc":"2.0","method":"config.reload"})", kOperator, box, "").text, "");
  EXPECT_EQ(box.notes.size(), 1U);
  // Nor is what is wrong with it: that is a request all the same.
  for (const char* const line :
       {R"({"jsonrpc":"2.0","method":"no.such"})", R"({"jsonrpc":"2.0","method":"job.show","params":["x"]})",
        R"({"jsonrpc":"2.0","method":"job.show","params":{"nmae":"x"}})"})
    EXPECT_EQ(api::answer(line, kOperator, box, "").text, "") << line;
}

TEST(ControlRequest, WhatIsNoJson) {
  for (const char* const line : {"", "{", "}", "hello", "{\"a\":1}x", "{'a':1}", "{\"a\":01}", "{\"a\":1,}",
                                 "[1", "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\xaf\"}",
                                 "{\"a\":\"\\ud800\"}", "{\"a\":1e999}", "\xff\xfe", "nan"}) {
    EXPECT_EQ(refused(line).code, -32700) << line;
  }
}

TEST(ControlRequest, AZeroByteDoesNotHideWhatFollows) {
  const std::string line = request("api.version");
  EXPECT_EQ(refused(line + std::string("\0", 1)).code, -32700);
  EXPECT_EQ(refused(line + std::string("\0{}", 3)).code, -32700);
}

TEST(ControlRequest, WhatIsNoRequest) {
  for (const char* const line :
       {"1", "null", "\"x\"", "[]", "{}", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"1.0","id":1,"method":"api.version"})",
        R"({"jsonrpc":2.0,"id":1,"method":"api.version"})", R"({"id":1,"method":"api.version"})",
        R"({"jsonrpc":"2.0","id":1,"method":7})", R"({"jsonrpc":"2.0","id":1.5,"method":"api.version"})",
        R"({"jsonrpc":"2.0","id":[1],"method":"api.version"})",
        R"({"jsonrpc":"2.0","id":true,"method":"api.version"})",
        R"({"jsonrpc":"2.0","id":18446744073709551616,"method":"api.version"})",
        R"({"jsonrpc":"2.0","id":1,"method":"api.version","extra":1})"}) {
    EXPECT_EQ(refused(line).code, -32600) << line;
  }
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":5,"method":7})").id, 5);
  EXPECT_NE(refused("[]").message.find("batches"), std::string::npos);
  EXPECT_EQ(
      refused(R"({"jsonrpc":"2.0","id":")" + std::string(129, 'x') + R"(","method":"api.version"})").code,
      -32600);
}

TEST(ControlRequest, MembersThatStandTwice) {
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":1,"method":"api.version","method":"config.reload"})").code,
            -32600);
  EXPECT_EQ(refused(request("job.set", R"({"name":"resnet","window":16,"window":32})")).code, -32600);
  // In two objects, a name may stand twice.
  NotedBox box;
  EXPECT_EQ(
      said(box, R"({"jsonrpc":"2.0","id":1,"method":"api.version","params":{"id":1}})")["error"]["code"],
      -32602);
}

TEST(ControlRequest, DepthLengthAndNumberOfMembersHaveLimits) {
  // The object around it is one level.
  EXPECT_EQ(refused(request("api.version", "{\"a\":" + nested(14) + "}")).code, -32602);
  EXPECT_EQ(refused(request("api.version", "{\"a\":" + nested(15) + "}")).code, -32600);
  EXPECT_EQ(refused(nested(20'000)).code, -32600);
  EXPECT_EQ(refused(std::string(60'000, '[')).code, -32600);
  EXPECT_EQ(refused(std::string(api::kMaxRequestBytes + 1, ' ')).code, -32600);
  std::string many = "{";
  for (int i = 0; i <= 64; ++i) many += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":0";
  EXPECT_EQ(refused(request("api.version", many + "}")).code, -32600);
}

TEST(ControlRequest, ParametersHaveNames) {
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":1,"method":"job.show","params":["resnet"]})").code, -32602);
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":1,"method":"job.show","params":null})").code, -32600);
  // An empty list holds no parameter.
  NotedBox box;
  EXPECT_EQ(said(box, request("api.version", "[]"))["result"]["api"], 1);
  EXPECT_EQ(refused(request("job.show", "[]")).code, -32602);
}

TEST(ControlRequest, WhatCameInIsNeverRawInAnAnswer) {
  NotedBox box;
  const std::string answer =
      api::answer(R"({"jsonrpc":"2.0","id":1,"method":"\u001b[31m\n\u202e"})", kOperator, box, "").text;
  for (const char c : answer.substr(0, answer.size() - 1))
    EXPECT_GE(static_cast<unsigned char>(c), 0x20) << answer;
  EXPECT_EQ(answer.find("\xe2\x80\xae"), std::string::npos) << answer;
}

}  // namespace
}  // namespace tally::control_api_test
