#include "load_options.h"

#include <CLI/CLI.hpp>

#include "load_option_checks.h"

namespace tally::bench {
namespace {

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
  app.add_option("-d,--dtype", t.dtype,
                 "int32 (default) or float32: quantised values, and exponents whose maximum is checked")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"int32", "float32"}));
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
      ->check(CLI::Range(616, 9198));
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
