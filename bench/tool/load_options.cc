#include "load_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <fstream>

#include "tally/ids.h"
#include "tally/wire.h"
#include "tally/wire_join.h"

namespace tally::bench {
namespace {

constexpr std::string_view kMemory = "memory";
constexpr std::size_t kElementsHead = 84;      // IPv4, UDP and our header in front of the values
constexpr std::size_t kElementsHead6 = 104;    // IPv6
constexpr std::uint64_t kLeastInMemory = 240;  // MiB: three rigs, each with rings of 4 MiB and their pools

struct Texts {
  std::vector<std::string> ports{};
  std::string rate = "max";
  std::string results = "unicast";
  std::string token_file{};
  double deadline_ms = 20;
  double join_timeout_s = 30;
  int cpu = -1;
  int pid = 0;
};

tl::unexpected<Error> bad(std::string what, const char* option) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), option);
}

void add_job(CLI::App& app, LoadOptions& o, Texts& t) {
  app.add_option(
         "-p,--port", t.ports,
         "'memory': the data plane in this process over the in-memory port; else a device as a worker has "
         "it, "
         "such as net_memif0,role=client,id=0,socket=/run/tally/rack1.sock,socket-abstract=no, "
         "net_af_packet0,iface=eth0 or 0000:3b:00.0, cabled to a port of a running tallyd. Several: worker r "
         "is behind port r mod ports")
      ->type_name("DEVICE")
      ->required();
  app.add_option("-w,--workers", o.workers, "Of the job, all played by this process (default 8)")
      ->check(CLI::Range(1, 64));
  app.add_option("-e,--elements", o.elements,
                 "Values in a packet, a multiple of 16; the job may have fewer (default 256)");
  app.add_option("--results", t.results,
                 "With --port memory: unicast (default) or multicast; else the job's configuration says it")
      ->type_name("MODE")
      ->check(CLI::IsMember({"unicast", "multicast"}));
  app.add_option("-s,--switch", o.box, "The box's IP address");
  app.add_option("-a,--address", o.address,
                 "Of worker 0, such as 10.0.0.10/24; the others have the next ones")
      ->type_name("CIDR");
  app.add_option("-j,--job", o.job, "The job's name (default bench)");
  app.add_option("--token-file", t.token_file, "File with the job's token")->type_name("FILE");
  app.add_flag("--echo", o.echo,
               "There is no box: the other end sends every frame back, as dpdk-testpmd "
               "--forward-mode=macswap. Measures what "
               "the ports carry, for --ceiling");
  app.add_option("--window", o.window,
                 "With --echo: chunks in flight, a power of two (default 256); else the job's")
      ->check(CLI::IsMember({16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}));
  app.add_option("--mtu", o.mtu, "Of the path to the box (default 1500)")->check(CLI::Range(616, 9198));
}

void add_load(CLI::App& app, LoadOptions& o, Texts& t) {
  const auto* const load = "Load";
  app.add_option("-r,--rate", t.rate,
                 "Contributions per second of all workers: a number such as 800k or 1.2M; 'max' (default): "
                 "as many as the "
                 "job's window allows; 'search': the highest rate at which no result is late")
      ->group(load);
  app.add_option("--seconds", o.seconds, "Of the run that counts (default 5)")
      ->check(CLI::Range(0.01, 1e5))
      ->group(load);
  app.add_option("--trial", o.trial_s, "search: seconds of a trial (default 0.5)")
      ->check(CLI::Range(0.01, 1e3))
      ->group(load);
  app.add_option("--warm-up", o.warm_up_s, "Seconds before each that do not count (default 0.2)")
      ->check(CLI::Range(0.0, 1e3))
      ->group(load);
  app.add_option("--resolution", o.resolution, "search: ends at this part of the maximum (default 0.01)")
      ->check(CLI::Range(0.0001, 0.5))
      ->group(load);
  app.add_option("--deadline", t.deadline_ms,
                 "A result is late, and asked for again, so many ms after the last contribution (default 20)")
      ->check(CLI::Range(2.0, 1e4))
      ->group(load);
  app.add_flag("--allow-damage", o.allow_damage,
               "Results that arrive damaged do not fail the run; for a box or a path told to damage frames "
               "(impair)")
      ->group(load);
  app.add_option("--join-timeout", t.join_timeout_s, "Seconds for the job to start (default 30)")
      ->check(CLI::Range(0.1, 3600.0))
      ->group(load);
}

void add_output(CLI::App& app, LoadOptions& o, Texts& t) {
  const auto* const group = "Machine and output";
  app.add_option("--cpu", t.cpu, "Runs on this CPU only; give it one that no data core has")
      ->check(CLI::Range(0, 4095))
      ->group(group);
  app.add_option("--memory", o.memory_mib, "MiB for packets (default 240, the least with --port memory)")
      ->check(CLI::Range(64, 65536))
      ->group(group);
  app.add_option("--pid", t.pid, "Of tallyd on this machine: shows its CPU time per packet")
      ->check(CLI::Range(1, INT32_MAX))
      ->group(group);
  app.add_option("--line-rate", o.line_rate, "Of a port's link, for '% of line'; a card says its own")
      ->type_name("GBIT/S")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--ceiling", o.ceiling,
                 "Packets per second that the port carries without us, such as testpmd's, for '% of ceiling'")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_flag(
         "--hold", o.hold,
         "Keeps the ports until standard input ends: some programs forget their counters with the connection")
      ->group(group);
  app.add_option("--json", o.json, "Writes all figures and the environment to this file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--csv", o.csv, "Writes the table to this file")->type_name("FILE")->group(group);
}

Result<void> read_token(const std::string& file, std::string& token) {
  if (file.empty()) return {};
  std::ifstream in(file);
  std::getline(in, token);
  if (!in || token.empty() || token.size() > kMaxTokenBytes)
    return bad("cannot read a token of 1 to 64 bytes from '" + file + "'", "--token-file");
  return {};
}

Result<void> check_memory(const LoadOptions& o) {
  if (o.rate.kind == LoadRate::Kind::kSearch)
    return bad(
        "the in-memory port never loses a frame: --rate max is its limit, a number measures latency there",
        "--rate search");
  if (o.memory_mib < kLeastInMemory)
    return bad(std::to_string(o.memory_mib) + " MiB is too little for --port memory: give it " +
                   std::to_string(kLeastInMemory) + " or more, or leave it out",
               "--memory");
  if (!o.box.empty() || !o.address.empty() || o.echo)
    return bad("with --port memory the box is in this process; leave --switch, --address and --echo out",
               "--port memory");
  return {};
}

Result<void> check_ports(const LoadOptions& o, bool results_given) {
  if (o.ports.size() > o.workers)
    return bad(std::to_string(o.ports.size()) + " ports for " + std::to_string(o.workers) +
                   " workers: every port needs one",
               "--port");
  if (o.echo) return {};
  if (o.box.empty()) return bad("needs the box's IP address (box.ipv4 of its configuration)", "--switch");
  if (o.address.empty())
    return bad("needs worker 0's address with its network, such as 10.0.0.10/24", "--address");
  if (results_given)
    return bad("only with --port memory; a running box's job says it: `results:` of its configuration",
               "--results");
  if (o.job.empty() || o.job.size() > kMaxNameBytes) return bad("must have 1 to 64 bytes", "--job");
  return {};
}

Result<void> complete(LoadOptions& o, const Texts& t, bool results_given) {
  const auto rate = parse_rate(t.rate);
  if (!rate) return tl::unexpected(rate.error());
  o.rate = *rate;
  o.deadline = static_cast<TimeNs>(t.deadline_ms * 1e6);
  o.join_timeout = static_cast<TimeNs>(t.join_timeout_s * 1e9);
  o.multicast = t.results == "multicast";
  if (t.cpu >= 0) o.cpu = static_cast<std::uint16_t>(t.cpu);
  if (t.pid > 0) o.box_pid = t.pid;
  for (const std::string& port : t.ports) {
    if (port == kMemory) continue;
    o.ports.push_back(port.starts_with("dpdk:") ? port.substr(5) : port);
  }
  if (o.ports.size() != t.ports.size() && t.ports.size() != 1)
    return bad("'memory' stands alone: it is a box of its own", "--port");
  const std::size_t head = o.box.find(':') == std::string::npos ? kElementsHead : kElementsHead6;
  const std::size_t most = (o.mtu - head) / 4 / kElementGranule * kElementGranule;
  if (o.elements == 0 || !valid_elements(o.elements) || (!o.ports.empty() && o.elements > most)) {
    return bad(std::to_string(o.elements) + ": must be a multiple of 16 from 16 to " +
                   std::to_string(o.ports.empty() ? std::size_t{kMaxElements} : most),
               "--elements");
  }
  if (auto done = read_token(t.token_file, o.token); !done) return done;
  if (o.echo && o.box.empty() && o.address.empty()) {
    o.box = "10.0.0.1";  // nobody looks at them
    o.address = "10.0.0.10/24";
  }
  return o.ports.empty() ? check_memory(o) : check_ports(o, results_given);
}

}  // namespace

Result<LoadRate> parse_rate(std::string_view text) {
  if (text == "max") return LoadRate{};
  if (text == "search") return LoadRate{LoadRate::Kind::kSearch, 0};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double scale = unit.empty() ? 1 : unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 0;
  if (error != std::errc{} || scale == 0 || !(value * scale >= 1) || value * scale > 1e12)
    return bad(
        "'" + std::string(text) + "': must be max, search, or contributions per second such as 800k or 1.2M",
        "--rate");
  return LoadRate{LoadRate::Kind::kFixed, value * scale};
}

Result<std::variant<LoadOptions, LoadHelp>> parse_load_options(int argc, const char* const* argv) {
  LoadOptions options;
  Texts texts;
  CLI::App app{
      "tally-bench: how fast a box sums. Plays all workers of a job against a running tallyd, or measures "
      "the "
      "data plane by itself (--port memory). The sums that a box sends back are checked, every one.",
      "tally-bench"};
  try {
    add_job(app, options, texts);
    add_load(app, options, texts);
    add_output(app, options, texts);
    app.footer(
        "docs/bench.md tells how to measure a box.\n"
        "Exit codes: 0 good; 1 failed, a sum was wrong, or results arrived damaged (but for --allow-damage); "
        "2 wrong usage; 3 the search found no rate that was carried.");
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return LoadHelp{app.help()};
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  if (const auto done = complete(options, texts, app.count("--results") > 0); !done)
    return tl::unexpected<Error>(done.error());
  return options;
}

}  // namespace tally::bench
