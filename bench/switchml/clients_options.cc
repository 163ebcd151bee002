#include "clients_options.h"

#include <arpa/inet.h>
#include <netinet/ether.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstring>
#include <tuple>

namespace tally::stock {
namespace {

constexpr unsigned kMostRanks = 64;

struct Texts {
  std::string switch_mac{};
  std::string switch_ipv4{};
  std::string mac = "02:00:00:00:00:01";
  std::string ipv4 = "10.0.0.11";
  std::vector<std::uint32_t> workers{2};
  std::vector<std::uint16_t> threads{1};
  std::vector<std::uint16_t> payloads{1024};
  std::vector<std::string> losses{"0"};
  std::vector<std::string> operations{"int32:1000000", "float32:1000000"};
  std::string guard = "every";
  std::string timers = "numbered";
  std::vector<std::tuple<std::uint32_t, std::size_t, double>> late{};
  std::string tsi = "packet";
  std::uint16_t window = 64;
  double timeout_ms = 1;
  double patience_s = 10;
  std::uint64_t seed = 1;
  std::uint32_t repeat = 1;
  bool unjudged = false;
  int cpu = -1;
  int pid = 0;
};

tl::unexpected<Error> bad(std::string what, const char* option) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), option);
}

void add_session(CLI::App& app, Texts& t) {
  const auto* const group = "Sessions";
  app.add_option("-w,--workers", t.workers,
                 "Of a session; several, such as 2,8: a session with each (default 2)")
      ->delimiter(',')
      ->check(CLI::Range(1U, kMostRanks))
      ->group(group);
  app.add_option("-t,--threads", t.threads, "Of each client, the same way (default 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->group(group);
  app.add_option("--payload", t.payloads,
                 "Bytes of values in a packet: 128, 256, 512, 1024 (default), the same way")
      ->delimiter(',')
      ->check(CLI::IsMember({128, 256, 512, 1024}))
      ->group(group);
  app.add_option(
         "--loss", t.losses,
         "Share of requests and of replies that are lost on purpose, such as 1% (default 0), the same way")
      ->delimiter(',')
      ->group(group);
  app.add_option("--window", t.window,
                 "Packets under way, of each thread; slots are 2 x window x threads (default 64)")
      ->check(CLI::Range(1, 8192))
      ->group(group);
  app.add_option("--timeout", t.timeout_ms,
                 "ms until a packet is sent again; the first window waits window times as long (default 1)")
      ->check(CLI::Range(0.01, 1e4))
      ->group(group);
  app.add_option("-o,--operations", t.operations, "What each session sums, such as int32:4096,float32:1001")
      ->delimiter(',')
      ->group(group);
  app.add_option("--repeat", t.repeat, "So many times over (default 1)")
      ->check(CLI::Range(1, 100000))
      ->group(group);
  app.add_option("--late", t.late,
                 "RANK,OPERATION,SECONDS: the rank begins that operation, of 0 .., so much later; several")
      ->delimiter(',')
      ->type_name("RANK,OPERATION,SECONDS")
      ->group(group);
  app.add_option("--seed", t.seed, "Of values and losses (default 1)")->group(group);
  app.add_option(
         "--guard", t.guard,
         "every: repeated replies are passed over; observed: most count as new ones, as the original's do")
      ->check(CLI::IsMember({"every", "observed"}))
      ->group(group);
  app.add_option("--timers", t.timers,
                 "own: each packet has one, as in a corrected client; numbered (default): they run on as the "
                 "original's do; observed: those of a first window also have its wrong number")
      ->check(CLI::IsMember({"own", "numbered", "observed"}))
      ->group(group);
  app.add_option(
         "--tsi", t.tsi,
         "packet: packets are numbered; opaque: the numbers mean nothing, for sessions with tsi: opaque")
      ->check(CLI::IsMember({"packet", "opaque"}))
      ->group(group);
  app.add_flag("--unjudged", t.unjudged,
               "Replies are not compared byte by byte, only the sums in the end; for speed")
      ->group(group);
}

void add_place(CLI::App& app, ClientsOptions& o, Texts& t) {
  app.add_option("-p,--port", o.ports,
                 "A device as a worker has it, such as "
                 "net_memif0,role=client,id=0,socket=/run/tally/rack1.sock,socket-abstract=no or "
                 "net_af_packet0,iface=eth0. Several: rank r is behind port r mod ports")
      ->type_name("DEVICE")
      ->required();
  app.add_option("-s,--switch", t.switch_ipv4, "The box's IPv4 address");
  app.add_option("--switch-mac", t.switch_mac, "The box's MAC address: there is no ARP");
  app.add_option("--session-service", o.service,
                 "Instead of these two: asks for them, and for each session, as the original's clients do")
      ->type_name("HOST:PORT");
  app.add_flag("--hang-up", o.hang_up, "Closes the connections to it before the first packet");
  app.add_option(
      "--mac", t.mac,
      "Of the first member of the first session; the others have the next ones (default 02:00:00:00:00:01)");
  app.add_option("-a,--address", t.ipv4, "The same, IPv4 (default 10.0.0.11)");
  app.add_option("--patience", t.patience_s,
                 "Seconds without a result until a session is given up (default 10)")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option("--cpu", t.cpu, "Runs on this CPU only")->check(CLI::Range(0, 4095));
  app.add_option("--pid", t.pid, "Of tallyd on this machine: shows its CPU time per packet")
      ->check(CLI::Range(1, INT32_MAX));
  app.add_option("--memory", o.memory_mib, "MiB for packets (default 128)")->check(CLI::Range(64, 65536));
  app.add_option("--json", o.json, "Writes all figures and the environment to this file")->type_name("FILE");
}

Result<Mac> parse_mac_address(const std::string& text, const char* option) {
  ether_addr address{};
  if (ether_aton_r(text.c_str(), &address) == nullptr) return bad(text + ": is no MAC address", option);
  Mac mac{};
  std::memcpy(mac.data(), &address, mac.size());
  return mac;
}

Result<Ipv4> parse_ipv4_address(const std::string& text, const char* option) {
  Ipv4 ipv4{};
  if (inet_pton(AF_INET, text.c_str(), ipv4.data()) != 1) return bad(text + ": is no IPv4 address", option);
  return ipv4;
}

Result<double> parse_share(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double share = unit == "%" ? value / 100 : value;
  if (error != std::errc{} || (!unit.empty() && unit != "%") || !(share >= 0) || share >= 1)
    return bad(text + ": must be a share below 100 %, such as 1% or 0.01", "--loss");
  return share;
}

template <std::size_t N>
void step(std::array<std::uint8_t, N>& address) noexcept {
  for (std::size_t i = N; i-- > 0;)
    if (++address[i] != 0) return;
}

// Two clients must not have one address, and none the box's.
Result<std::vector<StockAddresses>> take_members(StockAddresses& next, std::uint32_t count) {
  std::vector<StockAddresses> members;
  while (members.size() < count) {
    if (next.ipv4 == next.switch_ipv4 || next.mac == next.switch_mac)
      return bad("members have addresses one after the other, and one would have the box's: begin elsewhere",
                 "--address");
    members.push_back(next);
    step(next.mac);
    step(next.ipv4);
  }
  return members;
}

std::string name_of(const SessionOptions& s, const std::string& loss) {
  std::string name = "w" + std::to_string(s.members.size()) + "t" + std::to_string(s.threads) + "p" +
                     std::to_string(s.payload);
  if (s.loss > 0) name += "l" + loss;
  return name;
}

TimerHabit timers_of(const std::string& text) noexcept {
  if (text == "own") return TimerHabit::kOwn;
  return text == "numbered" ? TimerHabit::kNumbered : TimerHabit::kObserved;
}

Result<SessionOptions> common_session(const Texts& t) {
  SessionOptions common{.window = t.window,
                        .timeout = static_cast<TimeNs>(t.timeout_ms * 1e6),
                        .guard = t.guard == "every" ? DuplicateGuard::kEvery : DuplicateGuard::kObserved,
                        .timers = timers_of(t.timers),
                        .seed = t.seed,
                        .opaque_tsi = t.tsi == "opaque",
                        .judged = !t.unjudged};
  for (const auto& [rank, operation, seconds] : t.late)
    common.late.push_back({rank, operation, static_cast<TimeNs>(seconds * 1e9)});
  for (std::uint32_t round = 0; round < t.repeat; ++round) {
    for (const std::string& text : t.operations) {
      auto operation = parse_operation(text);
      if (!operation) return tl::unexpected(operation.error());
      common.operations.push_back(*operation);
    }
  }
  return common;
}

// asked: the box's are not known yet.
Result<StockAddresses> first_addresses(const Texts& t, bool asked) {
  if (asked != (t.switch_ipv4.empty() && t.switch_mac.empty()))
    return asked ? bad("says where the box is, so leave --switch and --switch-mac out", "--session-service")
                 : bad("say where the box is: this and --switch-mac, or --session-service", "--switch");
  const auto switch_mac = asked ? Result<Mac>(Mac{}) : parse_mac_address(t.switch_mac, "--switch-mac");
  if (!switch_mac) return tl::unexpected(switch_mac.error());
  const auto switch_ipv4 = asked ? Result<Ipv4>(Ipv4{}) : parse_ipv4_address(t.switch_ipv4, "--switch");
  if (!switch_ipv4) return tl::unexpected(switch_ipv4.error());
  const auto mac = parse_mac_address(t.mac, "--mac");
  if (!mac) return tl::unexpected(mac.error());
  const auto ipv4 = parse_ipv4_address(t.ipv4, "--address");
  if (!ipv4) return tl::unexpected(ipv4.error());
  return StockAddresses{*mac, *ipv4, *switch_mac, *switch_ipv4};
}

Result<void> plan(ClientsOptions& o, const Texts& t) {
  const auto common = common_session(t);
  if (!common) return tl::unexpected(common.error());
  const auto first = first_addresses(t, !o.service.empty());
  if (!first) return tl::unexpected(first.error());
  StockAddresses next = *first;
  for (const std::uint32_t workers : t.workers) {
    for (const std::uint16_t threads : t.threads) {
      if (2U * t.window * threads > kSlotMask + 1U)
        return bad("2 x window x threads is more than the 16,384 slots that a packet can name", "--window");
      for (const std::uint16_t payload : t.payloads) {
        for (const std::string& loss : t.losses) {
          PlannedSession planned{.session = *common};
          const auto share = parse_share(loss);
          if (!share) return tl::unexpected(share.error());
          if (!o.service.empty()) next = *first;
          auto members = take_members(next, workers);
          if (!members) return tl::unexpected(members.error());
          planned.session.members = std::move(*members);
          planned.session.threads = threads;
          planned.session.payload = payload;
          planned.session.loss = *share;
          planned.name = name_of(planned.session, loss);
          o.sessions.push_back(std::move(planned));
        }
      }
    }
  }
  return {};
}

}  // namespace

Result<std::variant<ClientsOptions, ClientsHelp>> parse_clients_options(int argc, const char* const* argv) {
  ClientsOptions options;
  Texts texts;
  CLI::App app{
      "tally_switchml_clients: plays all clients of SwitchML sessions against a running tallyd, as the "
      "original client "
      "behaves. Every sum is checked, and every byte of every reply.",
      "tally_switchml_clients"};
  try {
    add_place(app, options, texts);
    add_session(app, texts);
    app.footer(
        "docs/switchml_clients.md tells what they do.\nExit codes: 0 good; 1 failed, or something was wrong; "
        "2 wrong usage.");
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return ClientsHelp{app.help()};
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  options.patience = static_cast<TimeNs>(texts.patience_s * 1e9);
  if (texts.cpu >= 0) options.cpu = static_cast<std::uint16_t>(texts.cpu);
  if (texts.pid > 0) options.box_pid = texts.pid;
  if (auto done = plan(options, texts); !done) return tl::unexpected(done.error());
  return options;
}

}  // namespace tally::stock
