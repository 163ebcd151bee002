#include "load_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "tally/ids.h"
#include "tally/mtu.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::bench {

namespace {

tl::unexpected<Error> bad(std::string what, const char* option) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), option);
}

}  // namespace

std::optional<double> parse_per_s(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double scale = unit.empty() ? 1 : unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 0;
  if (error != std::errc{} || scale == 0 || !(value * scale >= 1) || value * scale > 1e12)
    return std::nullopt;
  return value * scale;
}

Result<LoadRate> parse_rate(std::string_view text) {
  if (text == "max") return LoadRate{};
  if (text == "search") return LoadRate{LoadRate::Kind::kSearch, 0};
  if (const auto per_s = parse_per_s(text)) return LoadRate{LoadRate::Kind::kFixed, *per_s};
  std::string what("'");  // what "'" + std::string() makes g++ 12 warn of, wrongly
  what.append(text).append("': must be max, search, or contributions per second such as 800k or 1.2M");
  return bad(std::move(what), "--rate");
}

namespace {

// Options as they were given, of those that are not kept so. vlan, cpu below 0 and pid 0: not given.
struct LoadTexts {
  std::vector<std::string> ports{};
  std::string rate = "max";
  std::string results = "unicast";
  std::string token_file{};
  double deadline_ms = 20;
  double join_timeout_s = 30;
  std::string dtype = "int32";
  std::string ceiling{};
  int vlan = -1;
  int cpu = -1;
  int pid = 0;
};

constexpr std::string_view kMemory = "memory";

Result<void> read_token(const std::string& file, std::string& token) {
  if (file.empty()) return {};
  auto read = text::read_token(file, "--token-file");
  if (!read) return tl::unexpected(std::move(read.error()));
  token = std::move(*read);
  return {};
}

// Before the runs, which would be lost.
Result<void> check_writable(const std::string& file, const char* option) {
  if (file.empty()) return {};
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  errno = EISDIR;
  if (!std::filesystem::is_directory(path, ignored) && access((exists ? path : folder).c_str(), W_OK) == 0)
    return {};
  return bad("cannot write '" + file + "': " + std::generic_category().message(errno), option);
}

// Its CPU time would be 0, which is no figure.
Result<void> check_process(int pid) {
  if (pid == 0 || std::filesystem::exists("/proc/" + std::to_string(pid))) return {};
  return bad("there is no process " + std::to_string(pid) + " here; `pidof tallyd` tells", "--pid");
}

Result<void> check_memory(const LoadOptions& o) {
  if (o.rate.kind == LoadRate::Kind::kSearch)
    return bad(
        "the in-memory port never loses a frame: --rate max is its limit, a number measures latency there",
        "--rate search");
  const std::uint64_t least = o.profile ? kMemoryWithProfile : kMemoryAlone;
  if (o.memory_mib < least)
    return bad(std::to_string(o.memory_mib) + " MiB is too little for --port memory" +
                   (o.profile ? " with --profile" : "") + ": give it " + std::to_string(least) +
                   " or more, or leave it out",
               "--memory");
  if (o.format.dtype != Dtype::kInt32 || o.format.vlan != jobs::kUntagged)
    return bad("--dtype and --vlan are for running boxes: its frames are int32, IPv4 and untagged",
               "--port memory");
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

// A number that nobody gave is what fits.
Result<void> fit_elements(LoadOptions& o) {
  if (o.elements == 0 || !valid_elements(o.elements))
    return bad(
        std::to_string(o.elements) + ": must be a multiple of 16 from 16 to " + std::to_string(kMaxElements),
        "--elements");
  if (o.ports.empty()) return {};
  const bool ipv4 = o.box.find(':') == std::string::npos;
  const std::uint16_t most = elements_that_fit(o.mtu, ipv4);
  if (o.elements <= most) return {};
  if (o.elements_given)
    return bad(std::to_string(o.elements) + " values are packets of " +
                   std::to_string(ip_udp_bytes(ipv4) + kHeaderBytes + 4U * o.elements) +
                   " bytes, and --mtu is " + std::to_string(o.mtu) + ": " + std::to_string(most) +
                   " at most, or a larger --mtu if all of the path carries it",
               "--elements");
  o.elements = most;
  return {};
}

std::string frames_text(std::uint32_t elements, bool ipv6, bool tagged) {
  return std::to_string(elements) + " elements, IPv" + (ipv6 ? "6" : "4") + (tagged ? ", tagged" : "");
}

// What a port carries without a box, packets per second. text: a number as parse_per_s() takes it; or the
// --json file of a run with --echo, whose frames were as long as those of `options` will be: then the most
// that came back in one of its runs.
Result<double> ceiling_of(const std::string& text, const LoadOptions& options) {
  if (const auto per_s = parse_per_s(text)) return *per_s;
  std::ifstream in(text);
  if (!in)
    return bad(
        "'" + text + "' is neither packets per second, such as 800k or 1.2M, nor a file that can be read",
        "--ceiling");
  try {
    const auto run = nlohmann::json::parse(in);
    if (!run.at("echo").get<bool>())
      return bad(text + " is of a run against a box: give one with --echo", "--ceiling");
    const std::string theirs = frames_text(run.at("elements").get<std::uint32_t>(),
                                           run.at("ipv6").get<bool>(), !run.at("vlan").is_null());
    const std::string ours = frames_text(options.elements, options.box.find(':') != std::string::npos,
                                         options.format.vlan != jobs::kUntagged);
    if (theirs != ours) return bad(text + " is of other frames: " + theirs + ", not " + ours, "--ceiling");
    double most = 0;
    for (const auto& one : run.at("runs")) most = std::max(most, one.at("received_per_s").get<double>());
    if (most > 0) return most;
    return bad(text + ": nothing came back in its runs", "--ceiling");
  } catch (const nlohmann::json::exception& e) {
    return bad(text + " is no --json file of tally-bench: " + e.what(), "--ceiling");
  }
}

// Completes what the command line has set. results_given: --results was there. Errors name the option.
Result<void> complete_options(LoadOptions& o, const LoadTexts& t, bool results_given) {
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
  if (o.profile && !o.ports.empty())
    return bad("only with --port memory: it is this process's own loop that is timed", "--profile");
  if (!o.profile && !o.profile_csv.empty()) return bad("needs --profile", "--profile-csv");
  o.format.dtype = t.dtype == "float32" ? Dtype::kFloat32
                   : t.dtype == "int16" ? Dtype::kInt16
                                        : Dtype::kInt32;
  if (t.vlan >= 0) o.format.vlan = static_cast<std::uint16_t>(t.vlan);
  if (auto fits = fit_elements(o); !fits) return fits;
  if (auto done = read_token(t.token_file, o.token); !done) return done;
  if (auto done = check_process(t.pid); !done) return done;
  if (auto done = check_writable(o.json, "--json"); !done) return done;
  if (auto done = check_writable(o.csv, "--csv"); !done) return done;
  if (auto done = check_writable(o.profile_csv, "--profile-csv"); !done) return done;
  if (o.echo && o.box.empty() && o.address.empty()) {
    o.box = "10.0.0.1";  // nobody looks at them
    o.address = "10.0.0.10/24";
  }
  if (!t.ceiling.empty()) {
    const auto ceiling = ceiling_of(t.ceiling, o);
    if (!ceiling) return tl::unexpected(ceiling.error());
    o.ceiling = *ceiling;
  }
  return o.ports.empty() ? check_memory(o) : check_ports(o, results_given);
}

constexpr int kLastVlan = 4094;  // IEEE 802.1Q: 4095 is reserved

void add_job(CLI::App& app, LoadOptions& o, LoadTexts& t) {
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
  app.add_option(
      "-e,--elements", o.elements,
      "Values in a packet, a multiple of 16 up to 2224, of which each takes 4 bytes of the MTU (default "
      "256, or what --mtu and the job have room for)");
  app.add_option(
         "-d,--dtype", t.dtype,
         "int32 (default), or quantised values, and exponents whose maximum is checked: float32, or int16, "
         "of which two take 4 bytes")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"int32", "float32", "int16"}));
  app.add_option("--vlan", t.vlan, "Every frame has a tag of this id, 0 to 4094 (default: no tag)")
      ->type_name("ID")
      ->check(CLI::Range(0, kLastVlan));
  app.add_option("--results", t.results,
                 "With --port memory: unicast (default) or multicast; else the job's configuration says it")
      ->type_name("MODE")
      ->check(CLI::IsMember({"unicast", "multicast"}));
  app.add_option("-s,--switch", o.box, "The box's address; an IPv6 one makes all frames IPv6");
  app.add_flag("--profile", o.profile,
               "With --port memory: the loop once more with stamps of the TSC, and cycles of each step");
  app.add_option("-a,--address", o.address,
                 "Of worker 0, such as 10.0.0.10/24 or fd00::10/64; the others have the next ones")
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
  app.add_option("--mtu", o.mtu, "Of the path to the box (default 1500); box and ports must carry it, too")
      ->check(CLI::Range(kLeastMtu, kGreatestMtu));
}

void add_load(CLI::App& app, LoadOptions& o, LoadTexts& t) {
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

void add_output(CLI::App& app, LoadOptions& o, LoadTexts& t) {
  const auto* const group = "Machine and output";
  app.add_option("--cpu", t.cpu, "Runs on this CPU only; give it one that no data core has")
      ->check(CLI::Range(0, 4095))
      ->group(group);
  app.add_option("--memory", o.memory_mib,
                 "MiB for packets (default 240, the least with --port memory; with --profile 320)")
      ->check(CLI::Range(64, 65536))
      ->group(group);
  app.add_option("--pid", t.pid, "Of tallyd on this machine: shows its CPU time per packet")
      ->check(CLI::Range(1, INT32_MAX))
      ->group(group);
  app.add_option("--line-rate", o.line_rate, "Of a port's link, for '% of line'; a card says its own")
      ->type_name("GBIT/S")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option(
         "--ceiling", t.ceiling,
         "What the port carries without us, for '% of ceiling': packets per second, such as 1.2M, or the "
         "--json file of an --echo run over it")
      ->type_name("RATE|FILE")
      ->group(group);
  app.add_flag(
         "--hold", o.hold,
         "Keeps the ports until standard input ends: some programs forget their counters with the connection")
      ->group(group);
  app.add_option("--json", o.json, "Writes all figures and the environment to this file")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--csv", o.csv, "Writes the table to this file")->type_name("FILE")->group(group);
  app.add_option("--profile-csv", o.profile_csv, "Writes the steps of --profile to this file")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace

Result<std::variant<LoadOptions, LoadHelp>> parse_load_options(int argc, const char* const* argv) {
  LoadOptions options;
  LoadTexts texts;
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
  options.elements_given = app.count("--elements") > 0;
  if (options.profile && app.count("--memory") == 0) options.memory_mib = kMemoryWithProfile;
  if (const auto done = complete_options(options, texts, app.count("--results") > 0); !done)
    return tl::unexpected<Error>(done.error());
  return options;
}

}  // namespace tally::bench
