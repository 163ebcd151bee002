// What each path answers, and which requests are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "api/long_answer.h"
#include "api/results.h"
#include "http_bed.h"

namespace tally::http_test {
namespace {

using testing::HasSubstr;

http::Published published() {
  return {5, 1, std::make_shared<const api::Snapshot>(control_api_test::make_snapshot())};
}

Json json_of(http::PathId id, const http::Published& of) {
  const http::Answer answer = http::answer_to(id, &of, kOwn);
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.type, "application/json");
  return Json::parse(answer.text);
}

TEST(HttpAnswers, AreTheResultsOfTheControlInterface) {
  const http::Published of = published();
  control_api_test::NotedBox box;
  const auto result = [&](const char* method) {
    return control_api_test::said(box, control_api_test::request(method))["result"];
  };
  EXPECT_EQ(json_of(http::PathId::kJobs, of), result("job.list"));
  EXPECT_EQ(json_of(http::PathId::kPorts, of), result("port.list"));
  EXPECT_EQ(json_of(http::PathId::kCores, of), result("core.list"));
  EXPECT_EQ(json_of(http::PathId::kDrops, of), result("drop.list"));
  EXPECT_EQ(json_of(http::PathId::kSlots, of), result("slot.show"));
  EXPECT_EQ(json_of(http::PathId::kHealth, of), result("health.get"));
  EXPECT_EQ(json_of(http::PathId::kConfig, of), result("config.show"));
}

TEST(HttpAnswers, TheBoxIsAllOfThemOfOneSnapshot) {
  const http::Published of = published();
  const Json box = json_of(http::PathId::kBox, of);
  EXPECT_EQ(box["snapshot"], 5);
  EXPECT_EQ(box["instance"], "rack1");
  EXPECT_EQ(box["version"], "0.1.0");
  EXPECT_EQ(box["revision"], 7);
  EXPECT_TRUE(box["time_ms"].is_number_unsigned());
  EXPECT_EQ(box["jobs"], json_of(http::PathId::kJobs, of));
  EXPECT_EQ(box["ports"], json_of(http::PathId::kPorts, of));
  EXPECT_EQ(box["cores"], json_of(http::PathId::kCores, of));
  EXPECT_EQ(box["drops"], json_of(http::PathId::kDrops, of));
  EXPECT_EQ(box["slots"], json_of(http::PathId::kSlots, of));
  EXPECT_EQ(box["health"], json_of(http::PathId::kHealth, of));
}

TEST(HttpAnswers, ReadyIsWhoTurnsHasLinksAndDoesNotEnd) {
  http::Published of = published();
  const auto ready = [&] { return http::answer_to(http::PathId::kReadyz, &of, kOwn); };
  EXPECT_EQ(ready().status, 200U);
  api::Snapshot box = control_api_test::make_snapshot();
  box.jobs[0].status.phase = members::JobPhase::kAborted;
  of.box = std::make_shared<const api::Snapshot>(box);
  EXPECT_EQ(ready().status, 200U) << "a job that failed is no reason to take the box out of service";
  box.ports[1].link_up = false;
  box.cores[0].silent = kSecond;
  box.ending = true;
  of.box = std::make_shared<const api::Snapshot>(box);
  EXPECT_EQ(ready().status, 503U);
  EXPECT_EQ(ready().text, "box rack1: it is shutting down\nport w1: link down\ncore 0: no turn for 1.0 s\n");
  EXPECT_EQ(json_of(http::PathId::kHealth, of)["ending"], true);
}

TEST(HttpAnswers, HostIsThisMachineAndNoNameOfSomebodyElse) {
  const auto allowed = [](std::string_view host, std::string_view local) {
    return http::objection_to_host(host, local).empty();
  };
  for (const char* host : {"localhost", "LOCALHOST:9464", "127.0.0.1", "127.0.0.1:9464", "127.0.0.1:80"})
    EXPECT_TRUE(allowed(host, "127.0.0.1")) << host;
  EXPECT_TRUE(allowed("[fd00::1]:9464", "fd00::1"));
  EXPECT_TRUE(allowed("localhost", ""));
  EXPECT_TRUE(allowed("", ""));
  EXPECT_TRUE(http::objection_to_host(std::nullopt, "").empty());
  EXPECT_FALSE(http::objection_to_host(std::nullopt, "127.0.0.1").empty());
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.9", "", "localhost:x",
        "localhost:0", "localhost:70000", "[::1", "[127.0.0.1", "127.0.0.1@evil", "localhost ", "0"})
    EXPECT_FALSE(allowed(host, "127.0.0.1")) << host;
  EXPECT_FALSE(allowed("evil.example", ""));
  const std::string why = http::objection_to_host("evil\x1b.example", "127.0.0.1");
  EXPECT_THAT(why, HasSubstr("127.0.0.1 alone"));
  EXPECT_EQ(why.find('\x1b'), std::string::npos);
}

TEST(HttpAnswers, EveryPathIsFoundAndNamedToThoseWhoErr) {
  const std::string all = http::no_such_path_text();
  for (const http::Path& path : http::paths()) {
    EXPECT_EQ(http::find_path(path.path), &path);
    EXPECT_EQ(&http::paths()[static_cast<std::size_t>(path.id)], &path);
    EXPECT_THAT(all, HasSubstr(std::string("  ") + std::string(path.path) + " "));
  }
  for (const char* path : {"", "/api", "/api/v1/jobs/", "/METRICS", "//", "/../etc/passwd"})
    EXPECT_EQ(http::find_path(path), nullptr) << path;
}

TEST(HttpAnswers, ThePageAsksNobodyElse) {
  const std::string page(http::page());
  EXPECT_THAT(page, HasSubstr("EventSource"));
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_EQ(page.find("src=\"//"), std::string::npos);
}

TEST(HttpListen, ErrorsSayWhatToDo) {
  const auto address = *config::parse_http_address("127.0.0.1:1");
  EXPECT_EQ(http::address_text(address), "127.0.0.1:1");
  EXPECT_EQ(http::address_text(*config::parse_http_address("[::1]:9464")), "[::1]:9464");
  EXPECT_TRUE(http::is_of_this_machine(address));
  EXPECT_TRUE(http::is_of_this_machine(*config::parse_http_address("unix:/run/x.sock")));
  EXPECT_FALSE(http::is_of_this_machine(*config::parse_http_address("0.0.0.0:9464")));
  EXPECT_FALSE(http::is_of_this_machine(*config::parse_http_address("[::]:9464")));
  const auto foreign = http::listen_at(*config::parse_http_address("192.0.2.1:9464"));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().where, "control.http");
  EXPECT_THAT(foreign.error().what, HasSubstr("no interface of this machine has that address"));
  EXPECT_NE(http::objection_to_address(*config::parse_http_address("192.0.2.1:9464")), "");
  EXPECT_EQ(http::objection_to_address(address), "");
}

TEST(HttpListen, ATakenPortIsNamed) {
  UniqueFd first;
  std::uint16_t port = 20'000;
  for (; !first && port < 30'000; ++port) {
    auto made = http::listen_at(*config::parse_http_address("127.0.0.1:" + std::to_string(port)));
    if (made) first = std::move(*made);
  }
  const std::string at = "127.0.0.1:" + std::to_string(port - 1);
  const auto second = http::listen_at(*config::parse_http_address(at));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().what, HasSubstr("HTTP cannot be served at " + at));
  EXPECT_THAT(second.error().what, HasSubstr("another program listens there"));
}

}  // namespace
}  // namespace tally::http_test
