#include "kv/kv_command_line.h"

#include <CLI/CLI.hpp>
#include <array>

#include "text/text.h"

namespace tally::kv {
namespace {

constexpr const char* kFooterText =
    "\nThe servers and the scheduler of a key-value system: programs with tally/kv.h, or written for "
    "PS-lite, are its "
    "workers.\n"
    "Every process of it is told the same numbers and the same scheduler, by options here or by the "
    "environment:\n"
    "  DMLC_ROLE  DMLC_NUM_WORKER  DMLC_NUM_SERVER  DMLC_PS_ROOT_URI  DMLC_PS_ROOT_PORT\n"
    "\n"
    "Examples: a scheduler and a server of two workers, on one machine:\n"
    "  tally-kv --role scheduler --workers 2 --servers 1 --root 127.0.0.1:9100\n"
    "  tally-kv --role server --workers 2 --servers 1 --root 127.0.0.1:9100 --rule sgd --rate 0.1 --shards "
    "2\n"
    "\n"
    "It ends when all workers have ended in order, exit code 0. SIGTERM ends it at once, exit code 0. Exit "
    "codes: 0 good,\n"
    "1 failed, or the scheduler was lost, 2 wrong usage.\n";

struct KvTexts {
  std::string role, workers, servers, root, host, rank, token_file;
  std::string memory = "1GiB";
  std::uint32_t statistics_s = 10;
};

constexpr std::uint64_t kLeastMemory = 64 << 10U;  // of a shard: rows and the index of their keys, which begins at 24 KiB

Result<void> complete_kv(const KvTexts& texts, KvSettings& settings) {
  const auto put = [&settings](const char* variable, const std::string& value) {
    if (!value.empty()) settings.variables.emplace_back(variable, value);
  };
  put("DMLC_ROLE", texts.role);
  put("DMLC_NUM_WORKER", texts.workers);
  put("DMLC_NUM_SERVER", texts.servers);
  put("DMLC_NODE_HOST", texts.host);
  put("DMLC_RANK", texts.rank);
  put("TALLY_KV_TOKEN_FILE", texts.token_file);
  if (!texts.root.empty()) {
    const std::size_t colon = texts.root.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == texts.root.size())
      return fail(ErrorCode::kInvalidArgument,
                  text::in_quotes(texts.root) + " is not IP:PORT, as in 10.0.0.1:9100", "--root");
    put("DMLC_PS_ROOT_URI", texts.root.substr(0, colon));
    put("DMLC_PS_ROOT_PORT", texts.root.substr(colon + 1));
  }
  const auto memory = text::parse_bytes(texts.memory);
  if (!memory) return fail(ErrorCode::kInvalidArgument, memory.error().what, "--memory");
  if (*memory != 0 && *memory / static_cast<std::uint64_t>(settings.rows.shards) < kLeastMemory)
    return fail(ErrorCode::kInvalidArgument,
                text::in_quotes(texts.memory) + " is too little: " +
                    text::counted(static_cast<std::uint64_t>(settings.rows.shards), "shard") +
                    " with at least 64KiB each",
                "--memory");
  settings.rows.rows.most_bytes = *memory;
  settings.statistics = std::chrono::seconds(texts.statistics_s);
  return {};
}

void declare_kv(CLI::App& app, KvSettings& settings, KvTexts& texts) {
  app.add_option("--role", texts.role, "server or scheduler (DMLC_ROLE)")
      ->check(CLI::IsMember({"server", "scheduler"}));
  app.add_option("--workers", texts.workers, "Workers of the system (DMLC_NUM_WORKER)")->type_name("N");
  app.add_option("--servers", texts.servers, "Servers of the system (DMLC_NUM_SERVER)")->type_name("N");
  app.add_option("--root", texts.root, "Where the scheduler listens (DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT)")
      ->type_name("IP:PORT");
  app.add_option("--host", texts.host,
                 "This server's address for the workers; default: as the scheduler sees it (DMLC_NODE_HOST)")
      ->type_name("IP");
  app.add_option("--rank", texts.rank, "This server's rank, and so its keys; default: any (DMLC_RANK)")
      ->type_name("N");
  app.add_option("--token-file", texts.token_file, "File with the system's token (TALLY_KV_TOKEN_FILE)")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--rule",
         [&settings](const std::string& name) {
           settings.rows.rows.rule = name == "sgd" ? Rule::kSgd : Rule::kSum;
         },
         "What a push does to a row: sum adds, sgd subtracts rate times it (default sum)")
      ->check(CLI::IsMember({"sum", "sgd"}));
  app.add_option("--rate", settings.rows.rows.rate, "Of sgd (default 0.01)");
  app.add_flag_callback(
      "--sync", [&settings] { settings.rows.merge = Merge::kSum; },
      "A push waits until all workers pushed these keys, and is applied once, with their sum");
  app.add_option("--dimension", settings.rows.rows.dimension,
                 "Values of a row that nobody pushed yet (default 1)")
      ->check(CLI::Range(1U, 1U << 20));
  app.add_option("--shards", settings.rows.shards, "Threads, each with a part of the keys (default 1)")
      ->check(CLI::Range(1, 64));
  app.add_option("--memory", texts.memory,
                 "For rows and pushes that wait for other workers', and as much for tables (default 1GiB); more are "
                 "refused")
      ->type_name("SIZE");
  app.add_option("--app", settings.rows.app, "The app_id of its workers' KVWorker (default 0)");
  app.add_option("--stats", texts.statistics_s,
                 "Seconds between lines of statistics (default 10); 0: only at the end")
      ->check(CLI::Range(0U, 86'400U))
      ->type_name("SECONDS");
  app.add_flag("--json", settings.json, "Statistics as one JSON object in each line");
  app.set_version_flag("--version", "tally-kv " TALLY_VERSION "\n");
  app.footer(kFooterText);
}

}  // namespace

Result<std::variant<KvSettings, KvText>> parse_kv_command_line(int argc, const char* const* argv) {
  KvSettings settings;
  KvTexts texts;
  CLI::App app{"tally-kv: servers of keys and values, and their scheduler.", "tally-kv"};
  try {
    declare_kv(app, settings, texts);
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return KvText{app.help()};
  } catch (const CLI::CallForVersion&) {
    return KvText{"tally-kv " TALLY_VERSION "\n"};
  } catch (const CLI::Error& e) {
    return fail(ErrorCode::kInvalidArgument, e.what());
  }
  if (const auto done = complete_kv(texts, settings); !done) return tl::unexpected<Error>(done.error());
  return settings;
}

}  // namespace tally::kv
