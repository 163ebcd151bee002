#pragma once
// A box for tests of the control interface: a snapshot with three jobs, and notes of what it is told to
// change.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api.h"
#include "config/load_config.h"

namespace tally::control_api_test {

inline constexpr const char* kText = R"(instance: rack1
dataplane: {cores: [1, 3], slots: 32MiB}
box: {ipv4: 10.0.0.1/24}
ports:
  - {name: w0, device: net_ring0}
  - {name: w1, device: net_ring1}
jobs:
  - {name: resnet, workers: 3, token_file: none, window: 256, lease: 10s}
  - {name: bert, workers: 2, token_file: none, window: 64}
)";

inline constexpr TimeNs kNow = 1'000 * kSecond;

inline members::RankStatus joined_rank(std::uint8_t host, std::uint32_t next, TimeNs seen) {
  members::RankStatus rank;
  rank.joined = true;
  rank.instance = host;
  rank.next = Chunk{next};
  rank.last_seen = seen;
  rank.binding.address = mapped({10, 0, 0, host});
  rank.binding.udp_port = 40'001;
  rank.binding.port = PortIndex{1};
  return rank;
}

// resnet runs, all its ranks have done the same; bert forms and lacks rank 1.
inline api::Snapshot make_snapshot() {
  api::Snapshot box;
  box.instance = "rack1";
  box.revision = 7;
  box.now = kNow;
  box.uptime = 60 * kSecond;
  box.uptime_cycles = 1'000'000;
  box.config = std::make_shared<const config::Config>(config::load_config_text(kText, "box.yaml")->config);
  box.ports.resize(2);
  box.ports[0] = {.name = "w0", .link_up = true, .rx_packets = 1'000, .rx_bytes = 64'000};
  box.ports[1] = {.name = "w1", .link_up = true};
  box.cores.resize(2);
  box.cores[0] = {.cpu = 1,
                  .contributions = 900,
                  .frames_in = 1'000,
                  .busy_cycles = 250'000,
                  .counts = {{"frames in", true, 1'000}, {"lost: no mbuf", false, 0}}};
  box.cores[1].cpu = 3;
  box.cores[1].counts = box.cores[0].counts;
  api::JobCounts resnet;
  resnet.status.id = JobId{1};
  resnet.status.name = "resnet";
  resnet.status.phase = members::JobPhase::kRunning;
  resnet.status.world = 3;
  resnet.status.lease = 10 * kSecond;
  resnet.status.live = 7;
  resnet.status.window = 256;
  for (std::uint8_t r = 0; r < 3; ++r) {
    resnet.status.ranks.push_back(joined_rank(static_cast<std::uint8_t>(11 + r), 5'000, kNow - kMillisecond));
    resnet.contributed.push_back(kNow - kMillisecond);
  }
  resnet.counters.verdicts[static_cast<std::size_t>(Verdict::kAbsorb)] = 600;
  resnet.counters.verdicts[static_cast<std::size_t>(Verdict::kComplete)] = 300;
  resnet.counters.drops[static_cast<std::size_t>(Drop::kStale)] = 12;
  api::JobCounts bert;
  bert.status.id = JobId{2};
  bert.status.name = "bert";
  bert.status.phase = members::JobPhase::kForming;
  bert.status.world = 2;
  bert.status.live = 1;
  bert.status.missing = 2;
  bert.status.ranks = {joined_rank(21, 0, kNow - kSecond), {}};
  bert.contributed.resize(2);
  box.jobs = {std::move(resnet), std::move(bert)};
  return box;
}

struct NotedBox : api::Box {
  std::shared_ptr<const api::Snapshot> snapshot() override {
    return std::make_shared<const api::Snapshot>(now);
  }
  api::ReloadReport reload() override {
    notes.emplace_back("reload");
    return report;
  }
  std::uint64_t revision() const override { return now.revision; }
  api::DiffReport diff() override { return differs; }
  api::ReloadReport restart() override {
    notes.emplace_back("restart");
    return report;
  }
  void add_job(const api::Json& job, api::IfRevision if_revision, api::ChangeDone done) override {
    changes("add " + api::dumped(job), if_revision, done);
  }
  void set_job(const std::string& name, const api::Json& keys, api::IfRevision if_revision,
               api::ChangeDone done) override {
    changes("set " + name + " " + api::dumped(keys), if_revision, done);
  }
  void remove_job(const std::string& name, bool abort, api::IfRevision if_revision,
                  api::ChangeDone done) override {
    changes("remove " + name + (abort ? " and abort" : ""), if_revision, done);
  }
  Result<void> abort(const std::string& job, const std::string& reason) override {
    notes.push_back("abort " + job + ": " + reason);
    if (!refusal.empty()) return fail(ErrorCode::kInvalidArgument, refusal);
    return {};
  }
  Result<void> replan(const std::string& job) override {
    notes.push_back("replan " + job);
    if (!refusal.empty()) return fail(ErrorCode::kInvalidArgument, refusal);
    return {};
  }
  Result<void> set_plan_rate(const std::string& resource, std::optional<double> gbps) override {
    notes.push_back(resource + " has " + (gbps ? std::to_string(*gbps) : "the file's"));
    if (!refusal.empty()) return fail(ErrorCode::kInvalidArgument, refusal);
    return {};
  }
  std::vector<doctor::Finding> examine() override {
    return {{true, "CPU 9 is not online", "because", "do this"}};
  }
  Result<void> start_trace(const api::TraceWish& wish) override {
    notes.push_back("trace " + wish.job + " " + wish.way + " " + std::to_string(wish.frames));
    if (!refusal.empty()) return fail(ErrorCode::kInvalidArgument, refusal);
    return {};
  }
  api::TraceBatch read_trace() override {
    return {.frames = {{.port = "w0", .length = 60, .comment = "absorb", .bytes = {std::byte{0xA5}}}}};
  }
  void stop_trace() override { notes.emplace_back("stop trace"); }
  api::TraceStatus trace() override { return {}; }
  void set_log_level(config::LogSection::Level level) override {
    notes.push_back("level " + std::to_string(static_cast<int>(level)));
  }
  void note(const std::string& text) override { told.push_back(text); }

  void changes(const std::string& what, api::IfRevision if_revision, const api::ChangeDone& done) {
    notes.push_back(what + (if_revision ? " at " + std::to_string(*if_revision) : ""));
    if (refusal.empty()) return done(api::JobChange{{"told"}, {}});
    done(tl::unexpected<api::Failure>(api::Failure{api::Code::kNotNow, refusal, nullptr}));
  }

  api::Snapshot now = make_snapshot();
  api::ReloadReport report{};
  api::DiffReport differs{};
  std::string refusal{};
  std::vector<std::string> notes{};  // changes
  std::vector<std::string> told{};   // for the log
};

// Adds a job when `then` is called.
struct LaterBox : NotedBox {
  void add_job(const api::Json& /*job*/, api::IfRevision /*if_revision*/, api::ChangeDone done) override {
    then = std::move(done);
  }
  api::ChangeDone then{};
};

inline const api::Caller kOperator{true, "root, process 7 (tallyctl)", "root"};
inline const api::Caller kReader{false, "uid 1000", "root or a member of group ops"};

// What comes of a line.
inline api::Json said(api::Box& box, const std::string& line, const api::Caller& caller = kOperator) {
  api::Reply answer = api::answer(line, caller, box, "0.1.0");
  if (answer.text.empty()) return nullptr;
  if (answer.rest) answer.text.append(answer.rest->all()).append(api::kEndOfRest);
  return api::Json::parse(answer.text);
}

// The line of a request; parameters: JSON.
inline std::string request(const std::string& method, const std::string& parameters = "{}") {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + method + R"(","params":)" + parameters + "}";
}

}  // namespace tally::control_api_test
