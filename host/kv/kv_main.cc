// tally-kv: a server, or the scheduler, of a key-value system, as a process of its own.

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "kv/kv_command_line.h"
#include "kv/row_server.h"
#include "kv/table_server.h"
#include "perf/interrupt_watch.h"
#include "tally/kv.h"
#include "text/text.h"

namespace tally::kv {
namespace {

constexpr int kFailedExit = 1;
constexpr int kUsageExit = 2;

int complain(const std::string& text, bool usage) {
  std::fprintf(stderr, "tally-kv: %s\n", text.c_str());
  if (!usage) return kFailedExit;
  std::fputs("Try 'tally-kv --help'.\n", stderr);
  return kUsageExit;
}

// What a server says of itself, now and then, and when it ends.
class Teller {
 public:
  Teller(const KvSettings& settings, Node& node) : settings_(settings), node_(node) {}
  ~Teller() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void begin(const RowServer* rows, const TableServer* tables) {
    const std::lock_guard lock(mutex_);
    rows_ = rows;
    tables_ = tables;
    if (rows != nullptr && settings_.statistics.count() != 0 && !thread_.joinable())
      thread_ = std::thread([this] { run(); });
  }
  // Any thread.
  void tell() {
    const std::lock_guard lock(mutex_);
    say();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, settings_.statistics, [this] { return ended_; })) say();
  }
  void say() const {
    const NodeStatistics net = node_.statistics();
    nlohmann::ordered_json line;
    line["connections"] = net.connections;
    if (rows_ != nullptr) {
      const RowServerStatistics counted = rows_->statistics();
      line.update({{"rows", counted.rows},
                   {"row_bytes", counted.bytes},
                   {"pushes", counted.pushes},
                   {"pulls", counted.pulls},
                   {"merged", counted.merged},
                   {"keys", counted.keys},
                   {"refused", counted.refused}});
      const TableServerStatistics tables = tables_->statistics();
      line.update({{"tables", tables.tables},
                   {"table_rounds", tables.rounds},
                   {"table_rows", tables.rows},
                   {"table_bytes", tables.bytes}});
    }
    line.update({{"bytes_in", net.bytes_received},
                 {"bytes_out", net.bytes_sent},
                 {"strangers", net.strangers},
                 {"malformed", net.malformed},
                 {"dropped", net.dropped}});
    std::string text = line.dump();
    if (!settings_.json) {
      text = "tally-kv:";
      for (const auto& [name, value] : line.items())
        text += " " + name + "=" + text::with_commas(value.get<std::uint64_t>());
    }
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  const KvSettings& settings_;
  Node& node_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  const RowServer* rows_ = nullptr;
  const TableServer* tables_ = nullptr;
  bool ended_ = false;
  std::thread thread_{};
};

int serve(const KvSettings& settings) {
  for (const auto& [variable, value] : settings.variables) (void)setenv(variable.c_str(), value.c_str(), 1);
  const NodeOptions options = NodeOptions::from_environment();
  if (options.role == Role::kWorks)
    return complain("it is a server or a scheduler, and DMLC_ROLE says worker (--role)", true);
  Teller* telling = nullptr;
  std::mutex mutex;
  // First, so that every thread has the signals blocked. A system has no use for what is half ended: workers see that this
  // node is lost.
  const perf::InterruptWatch watch([&](int) {
    const std::lock_guard lock(mutex);
    if (telling != nullptr) telling->tell();
    _exit(0);
  });
  Node node(options);
  node.on_loss([](const std::string& text) { std::fprintf(stderr, "tally-kv: %s\n", text.c_str()); });
  Teller teller(settings, node);
  {
    const std::lock_guard lock(mutex);
    telling = &teller;
  }
  // Nothing is wrong for as long as it waits, and who waits for it must see what it waits for.
  std::fprintf(stderr, "tally-kv: %s %s:%u, and waits %lld s at most (TALLY_JOIN_TIMEOUT)\n",
               options.role == Role::kServes ? "a server; it asks the scheduler at" : "the scheduler, at",
               options.root.c_str(), static_cast<unsigned>(options.port),
               static_cast<long long>(options.join_timeout.count()));
  node.start();
  std::unique_ptr<RowServer> rows;
  std::unique_ptr<TableServer> tables;
  if (options.role == Role::kServes) {
    rows = std::make_unique<RowServer>(node, settings.rows);
    tables = std::make_unique<TableServer>(node, settings.rows.rows.most_bytes);
  }
  teller.begin(rows.get(), tables.get());
  std::fprintf(stderr, "tally-kv: %s of %s and %s\n",
               rows ? ("server " + std::to_string(node.rank())).c_str() : "scheduler",
               text::counted(static_cast<std::uint64_t>(options.workers), "worker").c_str(),
               text::counted(static_cast<std::uint64_t>(options.servers), "server").c_str());
  const auto farewell = [&] {
    teller.tell();
    const std::lock_guard lock(mutex);
    telling = nullptr;
    teller.begin(nullptr, nullptr);
  };
  try {
    node.finalize();
  } catch (const Failure& failure) {
    farewell();
    return complain(failure.what(), false);
  }
  farewell();
  return 0;
}

int start(int argc, char** argv) {
  const auto parsed = parse_kv_command_line(argc, argv);
  if (!parsed) return complain(parsed.error().text(), true);
  if (const auto* text = std::get_if<KvText>(&*parsed)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  try {
    return serve(std::get<KvSettings>(*parsed));
  } catch (const Failure& failure) {
    return complain(failure.what(), failure.code() == ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tally::kv

int main(int argc, char** argv) {
  try {
    return tally::kv::start(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-kv: %s\n", e.what());
    return 1;
  }
}
