// tally_switchml_clients: SwitchML's clients, as they behave, over the ports of this machine.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "client_ports.h"
#include "clients_options.h"
#include "clients_report.h"
#include "load_machine.h"
#include "perf/interrupt_watch.h"
#include "perf/perf_report.h"
#include "process_cpu.h"

namespace tally::stock {
namespace {

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

SessionOutcome play(ClientPorts& ports, const PlannedSession& planned, const ClientsOptions& options) {
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
