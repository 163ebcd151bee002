// tally_switchml_clients: SwitchML's clients, as they behave, over the ports of this machine.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client_ports.h"
#include "clients_options.h"
#include "load_port.h"
#ifdef TALLY_HAS_GRPC
#include "service_calls.h"
#endif
#include "perf/interrupt_watch.h"
#include "perf/machine.h"
#include "perf/perf_report.h"
#include "stock_session.h"
#include "text/text.h"

namespace tally::stock {
namespace {

// What the clients did, as a table for people and JSON for programs. Pure.
struct SessionOutcome {
  std::string name{};
  std::size_t members = 0;
  std::uint64_t elements = 0;  // of all operations
  double seconds =
      0;  // from the first request to the last result; values are made before, and checked behind
  std::optional<double> box_cpu_s{};  // of tallyd meanwhile, with --pid
  SessionFigures figures{};
  double largest_error = 0;  // of float32, in parts of the bound
  std::string wrong{};       // empty: every sum and every byte was right

  // Requests, with resends: contributions as a box counts them. 0: the session did not end.
  [[nodiscard]] double packets_per_s() const noexcept {
    return per_s(figures.counters.sent + figures.counters.resent);
  }
  // Values contributed by all members.
  [[nodiscard]] double elements_per_s() const noexcept { return per_s(elements * members); }
  [[nodiscard]] double per_s(std::uint64_t count) const noexcept {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

[[nodiscard]] std::string clients_table(const std::vector<SessionOutcome>& outcomes);
[[nodiscard]] std::string clients_json(const perf::Machine& machine, const ClientsOptions& options,
                                       const std::vector<SessionOutcome>& outcomes);

// Of the box, for each request.
std::string cpu_text(const SessionOutcome& o) {
  const auto packets = static_cast<double>(o.figures.counters.sent + o.figures.counters.resent);
  return o.box_cpu_s ? text::fixed(*o.box_cpu_s * 1e9 / packets, 1) : "n/a";
}

std::string clients_table(const std::vector<SessionOutcome>& outcomes) {
  text::ColumnTable table({"session", "packets", "resent", "of it stale", "lost", "repeated replies",
                           "time ms", "k packets/s", "M elements/s", "CPU ns/packet", "largest error",
                           "sums"});
  for (const SessionOutcome& o : outcomes) {
    const StockCounters& c = o.figures.counters;
    table.add({o.name, text::with_commas(c.sent), text::with_commas(c.resent), text::with_commas(c.stale),
               text::with_commas(o.figures.lost_requests + o.figures.lost_replies),
               text::with_commas(c.duplicates), text::fixed(o.seconds * 1e3, 1),
               text::fixed(o.packets_per_s() / 1e3, 1), text::fixed(o.elements_per_s() / 1e6, 1), cpu_text(o),
               text::fixed(o.largest_error, 3), o.wrong.empty() ? "right" : "WRONG"});
  }
  return table.text();
}

std::string clients_json(const perf::Machine& machine, const ClientsOptions& options,
                         const std::vector<SessionOutcome>& outcomes) {
  nlohmann::json out{{"environment", perf::machine_json(machine)}, {"ports", options.ports}};
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const SessionOutcome& o = outcomes[i];
    const SessionOptions& s = options.sessions[i].session;
    const StockCounters& c = o.figures.counters;
    out["sessions"].push_back({{"name", o.name},
                               {"workers", o.members},
                               {"threads", s.threads},
                               {"payload", s.payload},
                               {"window", s.window},
                               {"loss", s.loss},
                               {"tsi", s.opaque_tsi ? "opaque" : "packet"},
                               {"elements", o.elements},
                               {"operations", s.operations.size()},
                               {"seconds", o.seconds},
                               {"box_cpu_s", o.box_cpu_s ? nlohmann::json(*o.box_cpu_s) : nlohmann::json()},
                               {"sent", c.sent},
                               {"resent", c.resent},
                               {"stale", c.stale},
                               {"answered", c.answered},
                               {"repeated_replies", c.duplicates},
                               {"taken_twice", c.taken_twice},
                               {"other_operations", c.others},
                               {"malformed", c.malformed},
                               {"strangers", o.figures.strangers},
                               {"judged", o.figures.judged},
                               {"lost_requests", o.figures.lost_requests},
                               {"lost_replies", o.figures.lost_replies},
                               {"packets_per_s", o.packets_per_s()},
                               {"elements_per_s", o.elements_per_s()},
                               {"largest_error", o.largest_error},
                               {"wrong", o.wrong}});
  }
  return out.dump(1) + "\n";
}

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::uint16_t kMtu = 1500;
const char* const kProgram = "tally_switchml_clients";

int complain(const std::string& text, int code) {
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
  return code;
}

Result<std::vector<std::unique_ptr<bench::LoadPort>>> open_ports(
    const std::vector<dpdk_transport::WorkerDevice>& devices) {
  std::vector<std::unique_ptr<bench::LoadPort>> ports;
  for (const dpdk_transport::WorkerDevice& device : devices) {
    auto port = bench::LoadPort::open(device, kMtu, ports.size());
    if (!port) return tl::unexpected(port.error());
    ports.push_back(std::move(*port));
  }
  return ports;
}

#ifdef TALLY_HAS_GRPC
// Connections of the session's clients, which their end would tell the service.
using OpenSession = std::optional<ServiceCalls>;

Result<OpenSession> ask_service(const ClientsOptions& options, SessionOptions& session) {
  if (options.service.empty()) return OpenSession();
  OpenSession calls(std::in_place, options.service, session.members.size());
  if (auto done = calls->ask(session); !done) return tl::unexpected(done.error());
  if (options.hang_up) calls.reset();
  return calls;
}
#else
using OpenSession = std::optional<int>;

Result<OpenSession> ask_service(const ClientsOptions& options, const SessionOptions& /*session*/) {
  if (options.service.empty()) return OpenSession();
  return fail(ErrorCode::kInvalidArgument, "this program was built without gRPC", "--session-service");
}
#endif

SessionOutcome play(ClientPorts& ports, PlannedSession planned, const ClientsOptions& options) {
  const auto open = ask_service(options, planned.session);
  if (!open)
    return {.name = planned.name, .members = planned.session.members.size(), .wrong = open.error().text()};
  StockSession session(planned.session);
  SessionOutcome outcome{.name = planned.name, .members = session.members()};
  for (const StockOperation& o : planned.session.operations) outcome.elements += o.elements;
  const double cpu_before = options.box_pid ? bench::process_cpu_seconds(*options.box_pid) : 0;
  const auto took = ports.run(session, options.patience);
  if (options.box_pid) outcome.box_cpu_s = bench::process_cpu_seconds(*options.box_pid) - cpu_before;
  if (!took) {
    outcome.wrong = took.error().text();
  } else {
    outcome.seconds = static_cast<double>(*took) / 1e9;
    outcome.wrong = session.check(outcome.largest_error);
  }
  outcome.figures = session.figures();
  return outcome;
}

int play_all(const ClientsOptions& options, const std::atomic<bool>& interrupted) {
  const auto devices = bench::parse_load_devices(options.ports, kMtu);
  if (!devices) return complain(devices.error().text(), kUsage);
  const auto eal = bench::start_load_eal(kProgram, *devices, options.memory_mib);
  if (!eal) return complain(eal.error().text(), kFailed);
  if (auto pinned = bench::pin_to(options.cpu); !pinned) return complain(pinned.error().text(), kUsage);
  auto opened = open_ports(*devices);
  if (!opened) return complain(opened.error().text(), kFailed);
  ClientPorts ports(std::move(*opened), interrupted);
  if (auto up = ports.connect(options.patience); !up) return complain(up.error().text(), kFailed);
  std::vector<SessionOutcome> outcomes;
  int code = 0;
  for (const PlannedSession& planned : options.sessions) {
    outcomes.push_back(play(ports, planned, options));
    const SessionOutcome& last = outcomes.back();
    if (!last.wrong.empty()) code = complain(last.name + ": " + last.wrong, kFailed);
    if (interrupted) break;
  }
  std::fputs(clients_table(outcomes).c_str(), stdout);
  const bool written =
      perf::write_result_file(kProgram, options.json, clients_json(perf::read_machine(), options, outcomes));
  return written ? code : kFailed;
}

int run(int argc, char** argv) {
  const auto parsed = parse_clients_options(argc, argv);
  if (!parsed) {
    complain(parsed.error().text(), kUsage);
    std::fprintf(stderr, "Try '%s --help'.\n", kProgram);
    return kUsage;
  }
  if (const auto* help = std::get_if<ClientsHelp>(&*parsed)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  std::atomic<bool> interrupted = false;
  perf::InterruptWatch watch([&interrupted](int signal) {
    if (interrupted.exchange(true)) _exit(128 + signal);  // the second one
  });
  const int code = play_all(std::get<ClientsOptions>(*parsed), interrupted);
  return watch.signal() != 0 ? 128 + watch.signal() : code;
}

}  // namespace
}  // namespace tally::stock

int main(int argc, char** argv) {
  try {
    return tally::stock::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally_switchml_clients: %s\n", e.what());
    return 1;
  }
}
