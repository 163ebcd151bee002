#pragma once
// A data plane for tests of control: it notes what it is given and does what it is told, without EAL.

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/log.h"
#include "daemon/plane.h"
#include "members_support.h"

namespace tally::daemon_test {

using members_test::Bytes;
using members_test::Peer;
using members_test::Sent;

struct FakePlane : daemon::Plane {
  struct Waiting {
    Bytes datagram;
    jobs::Binding source;
  };

  explicit FakePlane(std::size_t cores_in = 2, std::size_t ports_in = 2)
      : core_statistics(cores_in), port_statistics_(ports_in), links(ports_in) {}

  void publish(jobs::Publication p) override {
    trace.push_back("publish " + std::to_string(p.version));
    publications.push_back(std::move(p));
  }
  std::uint64_t adopted() const override { return adopted_version; }
  std::optional<io::Punt> next_punt(std::span<std::byte> out) override {
    if (punts.empty()) return std::nullopt;
    const Waiting first = punts.front();
    punts.pop_front();
    std::copy(first.datagram.begin(), first.datagram.end(), out.begin());
    return io::Punt{first.datagram.size(), first.source};
  }
  bool inject(const jobs::Binding& to, std::span<const std::byte> datagram) override {
    Sent s;
    s.to = to;
    std::memcpy(&s.header, datagram.data(), kHeaderBytes);
    s.payload.assign(datagram.begin() + kHeaderBytes, datagram.end());
    if (s.type() == PacketType::kChallenge && !full) return answer(s);
    trace.push_back("inject " + std::to_string(static_cast<int>(s.header.type)));
    if (!full) injected.push_back(std::move(s));
    return !full;
  }
  std::optional<pipeline::Event> next_event() override {
    if (events.empty()) return std::nullopt;
    const pipeline::Event e = events.front();
    events.pop_front();
    return e;
  }

  Result<void> begin_trace(const io::TraceFilter& filter) override {
    if (tracing) return fail(ErrorCode::kInvalidArgument, "another trace is under way");
    tracing = true;
    traced_filter = filter;
    return {};
  }
  void end_trace() override { tracing = false; }
  bool next_traced(io::TracedFrame& out) override {
    if (traced.empty()) return false;
    out = traced.front();
    traced.pop_front();
    return true;
  }
  std::uint64_t trace_lost() const override { return traced_lost; }

  std::size_t cores() const override { return core_statistics.size(); }
  std::size_t ports() const override { return links.size(); }
  std::string port_name(PortIndex port) const override {
    return std::string("w").append(std::to_string(raw(port)));
  }
  dpdk::PortLink link(PortIndex port) const override { return links.at(raw(port)); }
  dpdk::PortLink follow(PortIndex port, TimeNs /*now*/) override { return links.at(raw(port)); }
  std::uint64_t rate(PortIndex /*port*/) const override { return 0; }
  void announce(PortIndex port) override { announced.push_back(port); }
  dpdk::PortStatistics port_statistics(PortIndex port) const override {
    return port_statistics_.at(raw(port));
  }
  void impair(PortIndex /*port*/, const impair::PortImpairment& /*faults*/) override {}
  io::DataPlane::ImpairedPort impaired(PortIndex port) const override {
    return raw(port) < impaired_.size() ? impaired_[raw(port)] : io::DataPlane::ImpairedPort{};
  }
  const io::CoreStatistics& statistics(std::size_t core) const override { return core_statistics.at(core); }
  JobCounters counters(std::size_t core, JobId job) const override {
    const auto at = job_counters.find({core, job});
    return at == job_counters.end() ? JobCounters{} : at->second;
  }
  const pipeline::JobState& state(std::size_t core, JobId job) const override { return state_of(core, job); }
  server::MergeCounters server(std::size_t core) const override {
    return core < servers.size() ? servers[core] : server::MergeCounters{};
  }
  std::size_t hosts() const override { return known_hosts; }
  std::uint32_t mbufs_in_use() const override { return 12'345; }

  // With some overflows, and entries as many as the core's number says.
  pipeline::JobState& state_of(std::size_t core, JobId job) const {
    const auto [at, is_new] = states.try_emplace({core, job});
    if (is_new) {
      at->second.occupancy = static_cast<std::uint32_t>(core) + 1;
      at->second.overflows = 10 * (core + 1);
    }
    return at->second;
  }

  // Every core did two turns and uses what was published.
  void obey(TimeNs now) {
    if (!publications.empty()) adopted_version = publications.back().version;
    for (auto& core : core_statistics) {
      core.turns += 2;
      core.last_turn = now;
    }
  }
  // With the challenge that its process has, if it has one.
  void receive(const Peer& from, const Bytes& datagram) {
    const auto header = wire_at<Header>(datagram.data());
    if (header.type == PacketType::kJoin)
      joins.insert_or_assign(from.binding.udp_port, std::pair{from, datagram});
    punts.push_back({members_test::with_challenge(from, datagram, challenges), from.binding});
  }
  // Who is challenged says its JOIN again, within the turn.
  bool answer(const Sent& challenge) {
    const auto said = wire_at<ChallengePayload>(challenge.payload.data());
    const auto& [from, join] = joins.at(challenge.to.udp_port);
    challenges[from.instance] = said.challenge;
    deliver(members_test::with_challenge(from, join, challenges), from.binding);
    return true;
  }
  [[nodiscard]] std::size_t count(PacketType type) const {
    return static_cast<std::size_t>(
        std::count_if(injected.begin(), injected.end(), [&](const Sent& s) { return s.type() == type; }));
  }

  std::deque<Waiting> punts;
  std::map<std::uint16_t, std::pair<Peer, Bytes>> joins;            // newest, by UDP port
  std::map<std::uint64_t, Tag> challenges;                          // newest, by instance
  std::function<void(const Bytes&, const jobs::Binding&)> deliver;  // to the engine at once
  std::deque<pipeline::Event> events;
  std::vector<jobs::Publication> publications;
  std::vector<Sent> injected;
  std::vector<std::string> trace;  // in the order of the calls
  std::uint64_t adopted_version = 0;
  bool full = false;  // inject takes nothing
  std::vector<io::CoreStatistics> core_statistics;
  std::vector<dpdk::PortStatistics> port_statistics_;
  std::vector<io::DataPlane::ImpairedPort> impaired_;  // by PortIndex
  std::vector<dpdk::PortLink> links;
  std::vector<PortIndex> announced;
  std::map<std::pair<std::size_t, JobId>, JobCounters> job_counters;
  mutable std::map<std::pair<std::size_t, JobId>, pipeline::JobState> states;
  std::vector<server::MergeCounters> servers;  // by core
  std::size_t known_hosts = 0;
  bool tracing = false;
  io::TraceFilter traced_filter;
  std::deque<io::TracedFrame> traced;
  std::uint64_t traced_lost = 0;
};

// What was logged, as "level text".
struct Journal {
  std::vector<std::pair<daemon::LogLevel, std::string>> lines;

  [[nodiscard]] daemon::LogSink sink() {
    return [this](daemon::LogLevel level, std::string_view text) {
      lines.emplace_back(level, std::string(text));
    };
  }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    return static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
      return line.second.find(part) != std::string::npos;
    }));
  }
  [[nodiscard]] std::string all() const {
    std::string text;
    for (const auto& line : lines) text += line.second + "\n";
    return text;
  }
};

}  // namespace tally::daemon_test
