#include "load_option_checks.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "load_ceiling.h"
#include "tally/ids.h"
#include "tally/wire.h"

namespace tally::bench {
namespace {

constexpr std::string_view kMemory = "memory";
constexpr std::uint32_t kElementsHead = 84;    // IPv4, UDP and our header in front of the values
constexpr std::uint32_t kElementsHead6 = 104;  // IPv6

tl::unexpected<Error> bad(std::string what, const char* option) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), option);
}

Result<void> read_token(const std::string& file, std::string& token) {
  if (file.empty()) return {};
  std::ifstream in(file);
  std::getline(in, token);
  if (!in || token.empty() || token.size() > kMaxTokenBytes)
    return bad("cannot read a token of 1 to 64 bytes from '" + file + "'", "--token-file");
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
  const std::uint32_t head = o.box.find(':') == std::string::npos ? kElementsHead : kElementsHead6;
  const std::uint32_t most = (o.mtu - head) / 4 / kElementGranule * kElementGranule;
  if (o.elements <= most) return {};
  if (o.elements_given)
    return bad(std::to_string(o.elements) + " values are packets of " +
                   std::to_string(head + 4U * o.elements) + " bytes, and --mtu is " + std::to_string(o.mtu) +
                   ": " + std::to_string(most) + " at most, or a larger --mtu if all of the path carries it",
               "--elements");
  o.elements = static_cast<std::uint16_t>(most);
  return {};
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
  o.format.dtype = t.dtype == "float32" ? Dtype::kFloat32 : Dtype::kInt32;
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

}  // namespace tally::bench
