#include "ps/ps_command_line.h"

#include <CLI/CLI.hpp>

#include "kernels/kernels.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::ps {
namespace {

constexpr const char* kFooter =
    "\nA server of a job with `server: external` in tallyd's configuration: it sums what finds no slot in "
    "the box. Start\n"
    "one for each of the job's servers (`servers: 2` needs NAME:0 and NAME:1, in two processes). One process "
    "may serve\n"
    "many jobs. It outlives them: started before or after tallyd and the workers, it joins each job again "
    "and again.\n"
    "A job that several boxes sum needs no more of it: it learns their addresses from the job, must reach "
    "them all, "
    "and\n"
    "says which of them it lost.\n"
    "\n"
    "Examples: over the kernel's sockets; over shared memory two jobs, each with its token:\n"
    "  tally-ps --box 10.0.0.254 --job resnet --token-file /etc/tally/resnet.token\n"
    "  tally-ps --transport dpdk:net_memif0,role=client,id=9,socket=/run/tally/ps.sock --box 10.0.0.254 \\\n"
    "    --address 10.0.0.9/24 --job resnet --token-file /etc/tally/resnet.token --job bert --token-file "
    "/etc/tally/bert.token\n"
    "\n"
    "SIGTERM ends it: a last line of statistics, exit code 0. Exit codes: 0 good, 1 failed, 2 wrong usage.\n";

std::string version() {
  return "tally-ps " TALLY_VERSION "\nDPDK " TALLY_DPDK_VERSION "\nkernels " +
         std::string(kernels::best_kernels().name) + "\n";
}

struct Texts {
  std::string memory = "64MiB";
  std::uint32_t statistics_s = 10;
  std::vector<std::string> jobs;
  std::vector<std::string> token_files;  // of each job; empty: none of its own
  std::string common_token_file;         // given before the first --job
};

Result<PsJobOptions> job_of(const std::string& text) {
  PsJobOptions job;
  const std::size_t colon = text.find(':');
  job.job = text.substr(0, colon);
  if (colon == std::string::npos) return job;
  const auto index = text::whole_number(std::string_view(text).substr(colon + 1), 0, kMaxServers - 1);
  if (!index)
    return fail(ErrorCode::kInvalidArgument,
                "'" + text + "': behind the colon is which of the job's servers this is, 0.." +
                    std::to_string(kMaxServers - 1) + ", as in " + job.job + ":0",
                "--job");
  job.index = static_cast<std::uint32_t>(*index);
  return job;
}

Result<void> take_jobs(const Texts& texts, PsSettings& settings) {
  for (std::size_t i = 0; i < texts.jobs.size(); ++i) {
    auto job = job_of(texts.jobs[i]);
    if (!job) return tl::unexpected(job.error());
    const std::string& own = texts.token_files[i];
    if (const std::string& path = own.empty() ? texts.common_token_file : own; !path.empty()) {
      auto token = text::read_token(path, "--token-file");
      if (!token) return tl::unexpected(token.error());
      job->token = std::move(*token);
    }
    settings.jobs.push_back(std::move(*job));
  }
  if (std::string why = objection_to(settings.jobs); !why.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(why), "--job");
  return {};
}

Result<void> complete(const Texts& texts, PsSettings& settings) {
  const std::string scheme = settings.transport.substr(0, settings.transport.find(':'));
  if (scheme != "udp" && scheme != "dpdk")
    return fail(ErrorCode::kInvalidArgument,
                "there is no transport '" + settings.transport +
                    "'; write udp, or dpdk:DEVICE, for example "
                    "dpdk:net_memif0,role=client,id=0,socket=PATH",
                "--transport");
  if (scheme == "dpdk" && settings.address.empty())
    return fail(ErrorCode::kInvalidArgument,
                "over dpdk a server has an address of its own; give it, for example 10.0.0.9/24",
                "--address");
  for (const std::string& box : settings.boxes) {
    if (!text::ip_address(box))
      return fail(ErrorCode::kInvalidArgument,
                  text::in_quotes(box) +
                      " is not an IP address; names are not looked up: write 10.0.0.254 or fd00::1",
                  "--box");
  }
  const auto memory = text::parse_bytes(texts.memory);
  if (!memory) return fail(ErrorCode::kInvalidArgument, memory.error().what, "--memory");
  settings.memory = *memory;
  settings.statistics = std::chrono::seconds(texts.statistics_s);
  if (settings.elements != 0 && !valid_elements(settings.elements))
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(settings.elements) + " is not a multiple of 16 in 16..2224", "--elements");
  return take_jobs(texts, settings);
}

void declare(CLI::App& app, PsSettings& settings, Texts& texts) {
  app.add_option_function<std::string>(
         "--job",
         [&texts](const std::string& job) {
           texts.jobs.push_back(job);
           texts.token_files.emplace_back();
         },
         "NAME or NAME:INDEX, a job to serve, and which of its servers this is (default 0); again for each "
         "job")
      ->required()
      ->trigger_on_parse()
      ->type_name("NAME[:INDEX]");
  app.add_option_function<std::string>(
         "--token-file",
         [&texts](const std::string& path) {
           (texts.jobs.empty() ? texts.common_token_file : texts.token_files.back()) = path;
         },
         "File with the token of the --job before it; before the first --job: of all that have none of their "
         "own")
      ->trigger_on_parse()
      ->type_name("FILE");
  app.add_option("--transport", settings.transport,
                 "udp, sockets of the kernel (the default), or dpdk:DEVICE")
      ->type_name("TRANSPORT");
  app.add_option(
         "--box", settings.boxes,
         "The box's IP address. Of jobs that several boxes sum: any of them, or several, IP,IP, which are "
         "asked in turn")
      ->required()
      ->delimiter(',')
      ->take_all()
      ->type_name("IP[,IP]");
  app.add_option("--address", settings.address,
                 "This server's address, such as 10.0.0.9/24; over udp the route's, unless it is given")
      ->type_name("ADDRESS");
  app.add_option("--mtu", settings.mtu, "Of the path to the box (default 1500)");
  app.add_option("--elements", settings.elements, "Most values in a packet (default: what the MTU carries)");
  app.add_option("--memory", texts.memory, "For partial and kept sums, of all jobs together (default 64MiB)")
      ->type_name("SIZE");
  app.add_flag("--poll", settings.poll, "Never sleep: a core for the least delay");
  app.add_option("--stats", texts.statistics_s,
                 "Seconds between lines of statistics (default 10); 0: only at the end")
      ->check(CLI::Range(0U, 86'400U))
      ->type_name("SECONDS");
  app.add_flag("--json", settings.json, "Statistics as one JSON object in each line");
  app.set_version_flag("--version", version());
  app.footer(kFooter);
}

}  // namespace

Result<std::variant<PsSettings, PsText>> parse_command_line(int argc, const char* const* argv) {
  PsSettings settings;
  Texts texts;
  CLI::App app{"tally-ps: a parameter server of Tally.", "tally-ps"};
  try {
    declare(app, settings, texts);
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PsText{app.help()};
  } catch (const CLI::CallForVersion&) {
    return PsText{version()};
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  if (const auto done = complete(texts, settings); !done) return tl::unexpected<Error>(done.error());
  return settings;
}

}  // namespace tally::ps
