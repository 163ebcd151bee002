// Any calls of any clients, in any order, while connections come and go and the box does what it likes. Every call is
// answered at most once, and with a sentence if not OK; every job that the box is told is one that it takes, of members
// that asked for it; who waits longer than the deadline is answered.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/job_json.h"
#include "config/load_config.h"
#include "config/one_job.h"
#include "fuzz_input.h"
#include "session_service/service.h"
#include "tally/check.h"

namespace tally {
namespace {

using namespace session_service;  // NOLINT(google-build-using-namespace): of a fuzzer

constexpr std::size_t kPorts = 2;

Settings settings() {
  Settings all;
  all.listen = {{1, "a"}, {2, "b"}};
  all.slots = 16;
  all.allow = {{{10, 0, 0, 0}, 8}};
  return all;
}

class Scene {
 public:
  explicit Scene(FuzzInput& input) : input_(input) {
    config_.box.ipv4 = config::Cidr4{{10, 0, 0, 1}, 24};
    config_.box.mac = Mac{2, 0, 0, 0, 0, 0xfe};
    config_.dataplane.cores = {0};
  }

  void run() {
    while (!input_.empty()) step();
    // Whatever was, all that waits has its answer in the end.
    box_trouble_ = true;
    for (int i = 0; i < 3 * 80; ++i) pass(kSecond);
    TALLY_CHECK(waiting_.empty(), "a call without an answer");
  }

 private:
  void step() {
    switch (input_.below(10)) {
      case 0:
        connections_.push_back(++last_connection_);
        service_.opened(last_connection_, input_.below(kPorts), "somebody");
        break;
      case 1:
        if (const auto gone = any(); gone != 0) {
          std::erase(connections_, gone);
          service_.closed(gone, now_);
          // Its calls may stay without an answer: nobody is there.
          std::erase_if(waiting_, [&](const auto& one) { return one.second == gone; });
        }
        break;
      case 2:
      case 3:
        ask(Broadcast{input_.byte(), number(), number(), number()});
        break;
      case 4:
      case 5:
        ask(Barrier{number()});
        break;
      case 6:
      case 7:
        ask(wish());
        break;
      case 8:
        if (!waiting_.empty()) {
          const CallId call = waiting_.begin()->first;
          waiting_.erase(call);
          service_.cancelled(call);
        }
        break;
      default:
        box_trouble_ = input_.flip();
        phase_ = input_.flip() ? "running" : "declared";
        if (input_.below(8) == 0) at_box_.clear();
        pass(TimeNs{input_.byte()} * 100 * kMillisecond);
    }
    settle();
  }

  // Mostly small, so that groups form.
  std::uint32_t number() {
    const std::uint32_t n = input_.byte();
    return n == 0xFF ? input_.word() : n % 4;
  }
  UdpSession wish() {
    UdpSession out{
        input_.byte(),  number(), number(), 0x020000000000U + input_.below(8), 0x0A000000U + input_.below(8),
        input_.below(5)};
    if (input_.below(16) == 0) out.mac = std::uint64_t{input_.word()} << 32U | input_.word();
    if (input_.below(16) == 0) out.ipv4 = input_.word();
    wishes_.insert({out.mac, out.ipv4});
    return out;
  }
  ConnectionId any() { return connections_.empty() ? 0 : connections_[input_.byte() % connections_.size()]; }

  void ask(const Request& request) {
    const ConnectionId connection = any();
    waiting_.emplace(++last_call_, connection);
    service_.asked(last_call_, connection, request, now_);
  }

  void pass(TimeNs time) {
    now_ += time;
    service_.tick(now_);
    settle();
  }

  void settle() {
    for (Work work = service_.take(); !work.answers.empty() || !work.orders.empty(); work = service_.take()) {
      for (const Answer& answer : work.answers) check(answer);
      for (const Order& order : work.orders) carry_out(order);
    }
  }

  void check(const Answer& answer) {
    TALLY_CHECK(answer.status.ok() == answer.status.text.empty(),
                "a sentence with every refusal, and with no other");
    TALLY_CHECK(answered_.insert(answer.call).second, "one answer to a call");
    waiting_.erase(answer.call);
  }

  void carry_out(const Order& order) {
    const BoxTrouble away{BoxTrouble::Kind::kAway, "away"};
    if (std::holds_alternative<Look>(order)) {
      if (box_trouble_) return service_.looked(tl::unexpected<BoxTrouble>(away), now_);
      BoxReport report{.box = {*config_.box.mac, config_.box.ipv4->address}};
      for (auto& [name, job] : at_box_) {
        BoxSession one{.name = name, .phase = phase_, .reason = phase_ == "running" ? "" : "no room"};
        one.packets = job.second++;
        report.sessions.push_back(std::move(one));
      }
      return service_.looked(std::move(report), now_);
    }
    if (const auto* const add = std::get_if<Add>(&order)) {
      check_job(*add);
      if (box_trouble_) return service_.added(add->name, tl::unexpected<BoxTrouble>(away), now_);
      if (!at_box_.emplace(add->name, std::pair(add->job, 0U)).second)
        return service_.added(add->name, tl::unexpected<BoxTrouble>({BoxTrouble::Kind::kExists, "it exists"}),
                              now_);
      return service_.added(add->name, {}, now_);
    }
    const std::string& name = std::get<Remove>(order).name;
    if (box_trouble_) return service_.removed(name, tl::unexpected<BoxTrouble>(away), now_);
    at_box_.erase(name);
    service_.removed(name, {}, now_);
  }

  void check_job(const Add& add) {
    const auto read = config::read_one_job(api::node_of(add.job), config_, ".", config::TokenFiles::kLeave);
    TALLY_CHECK(read, "the box takes every job");
    const auto& session = std::get<config::SessionConfig>(read->job);
    TALLY_CHECK(session.name == add.name && add.name.starts_with("switchml."), "under its own name");
    for (const members::ConfiguredMember& m : session.members) {
      TALLY_CHECK(wishes_.contains({number_of(m.mac), number_of(m.ipv4)}), "of members that asked for it");
      TALLY_CHECK(m.ipv4[0] == 10, "that are allowed");
    }
  }

  FuzzInput& input_;
  Service service_{settings()};
  config::Config config_{};
  TimeNs now_ = 1'000 * kSecond;
  std::vector<ConnectionId> connections_{};
  std::map<CallId, ConnectionId> waiting_{};
  std::set<CallId> answered_{};
  std::set<std::pair<std::uint64_t, std::uint32_t>> wishes_{};
  std::map<std::string, std::pair<Json, std::uint64_t>> at_box_{};
  std::string phase_ = "running";
  bool box_trouble_ = false;
  ConnectionId last_connection_ = 0;
  CallId last_call_ = 0;
};

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::FuzzInput input(data, size);
  tally::Scene(input).run();
  return 0;
}
