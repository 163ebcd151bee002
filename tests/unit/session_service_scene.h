#pragma once
// The session service with clients that call in the original's order, and a box that does what it is told at once,
// unless a test says otherwise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session_service/service.h"

namespace tally::session_service {

inline const BoxAddresses kBoxHere{{0x02, 0, 0, 0, 0, 0xfe}, Ipv4{10, 0, 0, 1}};

inline Settings settings_of(std::size_t ports = 1) {
  Settings settings;
  for (std::size_t i = 0; i < ports; ++i)
    settings.listen.push_back(
        {static_cast<std::uint16_t>(50'099 + i), std::string(1, static_cast<char>('a' + i))});
  return settings;
}

struct FakeBox {
  struct Session {
    Json job;
    std::string phase = "running";
    std::string reason{};
    std::uint64_t packets = 0;
    std::optional<TimeNs> seen_ago{};
  };
  std::map<std::string, Session> sessions{};
  std::optional<BoxTrouble> trouble{};  // with everything
  std::optional<BoxTrouble> add_trouble{};
  std::string phase = "running";  // of what is added
  std::string reason{};
  bool hangs = false;  // orders stay unanswered
  bool ending = false;
  bool anew = false;
  BoxAddresses addresses = kBoxHere;
  std::vector<Order> held{};
  std::vector<std::string> done{};  // "add switchml.a", "remove switchml.a"

  [[nodiscard]] BoxReport report() {
    BoxReport all{.box = addresses, .ending = ending, .anew = std::exchange(anew, false)};
    for (const auto& [name, s] : sessions) {
      BoxSession one{.name = name, .phase = s.phase, .reason = s.reason};
      for (const Json& m : s.job["members"])
        one.members.push_back({*config::parse_mac(m["mac"].get<std::string>()),
                               *config::parse_ipv4(m["ipv4"].get<std::string>())});
      one.payload = s.job["payload"].get<std::uint32_t>();
      one.slots = s.job["slots"].get<std::uint32_t>();
      one.packets = s.packets;
      one.seen_ago = s.seen_ago;
      all.sessions.push_back(std::move(one));
    }
    return all;
  }

  void carry_out(const Order& order, Service& service, TimeNs now) {
    if (std::holds_alternative<Look>(order)) {
      if (trouble) return service.looked(tl::unexpected<BoxTrouble>(*trouble), now);
      return service.looked(report(), now);
    }
    if (const auto* const add = std::get_if<Add>(&order)) {
      const auto& no = trouble ? trouble : add_trouble;
      if (no) return service.added(add->name, tl::unexpected<BoxTrouble>(*no), now);
      if (sessions.contains(add->name))
        return service.added(
            add->name, tl::unexpected<BoxTrouble>({BoxTrouble::Kind::kExists, "there is a job already"}),
            now);
      done.push_back("add " + add->name);
      sessions[add->name] = {add->job, phase, reason};
      return service.added(add->name, {}, now);
    }
    const std::string& name = std::get<Remove>(order).name;
    if (trouble) return service.removed(name, tl::unexpected<BoxTrouble>(*trouble), now);
    done.push_back("remove " + name);
    if (sessions.erase(name) == 0)
      return service.removed(name, tl::unexpected<BoxTrouble>({BoxTrouble::Kind::kUnknown, "no such job"}),
                             now);
    service.removed(name, {}, now);
  }
};

class Scene {
 public:
  explicit Scene(Settings settings = settings_of()) : service(std::move(settings)) { pass(Service::kTurn); }

  Service service;
  FakeBox box{};
  TimeNs now = 1'000 * kSecond;
  std::map<CallId, Answer> answers{};
  std::string log{};

  void settle() {
    for (Work work = service.take(); !work.answers.empty() || !work.orders.empty() || !work.lines.empty();
         work = service.take()) {
      for (Answer& answer : work.answers) {
        EXPECT_FALSE(answers.contains(answer.call)) << "call " << answer.call << " is answered twice";
        answers.emplace(answer.call, std::move(answer));
      }
      for (const Line& line : work.lines) log += line.text + "\n";
      for (const Order& order : work.orders) {
        if (box.hangs)
          box.held.push_back(order);
        else
          box.carry_out(order, service, now);
      }
    }
  }
  void pass(TimeNs time) {
    for (const TimeNs end = now + time; now < end;) {
      now = std::min(end, now + Service::kTurn);
      service.tick(now);
      settle();
    }
  }
  // What it did not answer is answered now.
  void wakes() {
    box.hangs = false;
    for (const Order& order : std::exchange(box.held, {})) box.carry_out(order, service, now);
    settle();
  }

  ConnectionId connect(std::size_t port = 0) {
    ++connections_;
    service.opened(connections_, port, "10.0.0." + std::to_string(connections_) + ":4000");
    return connections_;
  }
  void close(ConnectionId connection) {
    service.closed(connection, now);
    settle();
  }
  CallId ask(ConnectionId connection, const Request& request) {
    service.asked(++calls_, connection, request, now);
    settle();
    return calls_;
  }
  CallId broadcast(ConnectionId c, std::uint32_t rank, std::uint32_t workers, std::uint64_t value = 0) {
    return ask(c, Broadcast{value, rank, workers, 0});
  }
  CallId barrier(ConnectionId c, std::uint32_t workers) { return ask(c, Barrier{workers}); }
  // The member has the MAC 02:00:00:00:00:host and 10.0.0.host.
  static UdpSession wish(std::uint32_t rank, std::uint32_t workers, std::uint32_t host) {
    return {42, rank, workers, 0x020000000000U + host, 0x0A000000U + host, 3};
  }
  CallId session(ConnectionId c, std::uint32_t rank, std::uint32_t workers, std::uint32_t host) {
    return ask(c, wish(rank, workers, host));
  }

  [[nodiscard]] bool waits(CallId call) const { return !answers.contains(call); }
  [[nodiscard]] Code code(CallId call) const {
    EXPECT_TRUE(answers.contains(call)) << "call " << call << " has no answer";
    return answers.contains(call) ? answers.at(call).status.code : Code::kUnimplemented;
  }
  [[nodiscard]] std::string text(CallId call) const {
    return answers.contains(call) ? answers.at(call).status.text : "no answer";
  }

  // All calls but the last Barriers, in the original's order.
  std::vector<ConnectionId> meet(std::uint32_t workers, std::size_t port = 0, std::uint32_t first_host = 11) {
    std::vector<ConnectionId> all;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      all.push_back(connect(port));
      broadcast(all.back(), rank, workers, 7);
    }
    return register_all(all, first_host);
  }
  std::vector<ConnectionId> register_all(const std::vector<ConnectionId>& all,
                                         std::uint32_t first_host = 11) {
    const auto workers = static_cast<std::uint32_t>(all.size());
    EXPECT_EQ(code(session(all[0], 0, workers, first_host)), Code::kOk);
    for (const ConnectionId c : all) barrier(c, workers);
    if (workers == 1) return all;
    for (std::uint32_t rank = 1; rank < workers; ++rank)
      EXPECT_EQ(code(session(all[rank], rank, workers, first_host + rank)), Code::kOk);
    return all;
  }
  std::vector<CallId> last_barriers(const std::vector<ConnectionId>& all) {
    std::vector<CallId> calls;
    for (const ConnectionId c : all) calls.push_back(barrier(c, static_cast<std::uint32_t>(all.size())));
    return calls;
  }
  // A session that runs.
  std::vector<ConnectionId> run(std::uint32_t workers, std::size_t port = 0, std::uint32_t first_host = 11) {
    auto all = meet(workers, port, first_host);
    const auto calls = last_barriers(all);
    pass(kSecond / 2);
    for (const CallId call : calls) EXPECT_EQ(code(call), Code::kOk) << text(call);
    return all;
  }
  void close_all(const std::vector<ConnectionId>& all) {
    for (const ConnectionId c : all) close(c);
  }

 private:
  ConnectionId connections_ = 0;
  CallId calls_ = 0;
};

}  // namespace tally::session_service
