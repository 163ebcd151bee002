#include "perf/perf_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>

#include "text/text.h"

namespace tally::perf {
namespace {

constexpr std::uint64_t kElementBytes = 4;  // of both types

struct Variable {
  const char* flag;
  const char* name;
  const char* help;
};
constexpr std::array<Variable, 9> kVariables{{
    {"--job", "TALLY_JOB", "The job's name"},
    {"--rank", "TALLY_RANK", "This process, from 0 on"},
    {"--world", "TALLY_WORLD", "How many ranks the job has"},
    {"--switch", "TALLY_SWITCH", "The box's IP address"},
    {"--transport", "TALLY_TRANSPORT", "udp (the default) or dpdk:DEVICE"},
    {"--address", "TALLY_ADDRESS", "This worker's address, such as 10.0.0.11/24"},
    {"--token-file", "TALLY_TOKEN_FILE", "File with the job's token"},
    {"--mtu", "TALLY_MTU", "Of the path to the box"},
    {"--idle", "TALLY_IDLE", "poll or adaptive: what a worker does without packets"},
}};

constexpr std::array kTypes{PerfType::kFloat, PerfType::kExact, PerfType::kInt16, PerfType::kInt32};

std::vector<std::string> names_of_types() {
  std::vector<std::string> names;
  names.reserve(kTypes.size());
  for (const PerfType type : kTypes) names.emplace_back(name_of(type));
  return names;
}

struct Texts {
  std::string min_bytes = "4K";
  std::string max_bytes = "64M";
  std::uint32_t check = 1;
  std::string type = "float";
  std::uint32_t timeout_s = 60;
  std::array<std::string, kVariables.size()> variables{};
};

void add_measurement(CLI::App& app, PerfOptions& options, Texts& texts) {
  app.add_option("-b,--min-bytes", texts.min_bytes, "Smallest message (default 4K)")->type_name("SIZE");
  app.add_option("-e,--max-bytes", texts.max_bytes, "Largest message (default 64M)")->type_name("SIZE");
  app.add_option("-f,--factor", options.factor, "From one message to the next (default 4)")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 20));
  app.add_option("-n,--iterations", options.iterations, "Measured operations of each size (default 20)")
      ->check(CLI::Range(1U, 100'000'000U));
  app.add_option("-w,--warm-up", options.warm_up, "Operations of each size before these (default 5)");
  app.add_option("-c,--check", texts.check, "1: check every sum, outside the measured time (default); 0: not")
      ->check(CLI::Range(0U, 1U));
  app.add_option("-d,--type", texts.type,
                 "Of the values (default float); int16: floats that travel in 16 bits; exact: floats whose "
                 "sum is exact, rounded once, in 384 bits")
      ->type_name("TYPE")
      ->check(CLI::IsMember(names_of_types()));
  app.add_flag("--zeros", options.zeros,
               "All ranks but 0 have zeros, as in a broadcast: their packets are headers");
  app.add_option("--seed", options.seed, "Of the values (default 1); the same at all ranks");
  app.add_option("--line-rate", options.line_rate, "Of this worker's link, for the column '% of line'")
      ->type_name("GBIT/S")
      ->check(CLI::PositiveNumber);
  app.add_option("--timeout", texts.timeout_s, "Of one operation, seconds (default 60)")
      ->check(CLI::Range(1U, 86'400U));
  app.add_flag("--all-ranks", options.all_ranks, "Every rank prints its table, not only rank 0");
  app.add_option("--json", options.json, "Rank 0 writes all results to this file")->type_name("FILE");
  app.add_option("--csv", options.csv, "Rank 0 writes the table to this file")->type_name("FILE");
}

void add_worker(CLI::App& app, Texts& texts) {
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    const auto& variable = kVariables[i];
    app.add_option(variable.flag, texts.variables[i], std::string(variable.help) + "; else " + variable.name)
        ->group("Worker (otherwise from the environment, as for any program with libtally)");
  }
}

Result<void> complete(PerfOptions& options, const Texts& texts) {
  const auto least = text::parse_bytes(texts.min_bytes);
  if (!least) return fail(ErrorCode::kInvalidArgument, least.error().what, "-b");
  const auto most = text::parse_bytes(texts.max_bytes);
  if (!most) return fail(ErrorCode::kInvalidArgument, most.error().what, "-e");
  if (*least < kElementBytes || *least > *most) {
    return fail(ErrorCode::kInvalidArgument, "the smallest message, " + texts.min_bytes +
                                                 ", must be at least 4 bytes and at most the largest, " +
                                                 texts.max_bytes);
  }
  options.min_bytes = *least;
  options.max_bytes = *most;
  options.check = texts.check == 1;
  options.type =
      *std::find_if(kTypes.begin(), kTypes.end(), [&](PerfType type) { return texts.type == name_of(type); });
  options.timeout = std::chrono::seconds(texts.timeout_s);
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    if (!texts.variables[i].empty()) setenv(kVariables[i].name, texts.variables[i].c_str(), 1);
  }
  return {};
}

}  // namespace

Result<std::variant<PerfOptions, PerfHelp>> parse_perf_options(int argc, const char* const* argv) {
  PerfOptions options;
  Texts texts;
  CLI::App app{"tally-perf: how fast a job's workers sum. Start it once per rank.", "tally-perf"};
  try {
    add_measurement(app, options, texts);
    add_worker(app, texts);
    app.footer("Exit codes: 0 good, 1 failed or a sum was wrong, 2 wrong usage.");
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PerfHelp{app.help()};
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  if (const auto done = complete(options, texts); !done) return tl::unexpected<Error>(done.error());
  return options;
}

std::vector<std::uint64_t> perf_sizes(const PerfOptions& options) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    sizes.push_back(bytes / kElementBytes * kElementBytes);
    if (bytes > options.max_bytes / options.factor) break;
  }
  return sizes;
}

}  // namespace tally::perf
