// Pushes of keys and values from one worker to one server on this machine: tally-kv's connections beside ZeroMQ's, used as
// PS-lite's van does, with the same arrays and the same work at the server. CPU time of both processes for each pair, bytes
// on the loopback interface; in turn, medians.
//
//   unshare --net sh -c 'ip link set lo up; exec tally_kv_transports [--rounds N] [--json FILE]'

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "command_line.h"
#include "harness.h"
#include "ps/ps.h"
#include "pushes.h"

namespace tally::bench {
namespace {

std::uint64_t loopback_bytes() {
  std::ifstream file("/proc/net/dev");  // of the own namespace; /sys may be another's
  for (std::string line; std::getline(file, line);)
    if (const auto at = line.find("lo:"); at != std::string::npos)
      return std::strtoull(&line[at + 3], nullptr, 10);
  return 0;
}

std::uint64_t wall_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void begin(Shared& shared) {
  shared.worker_used = cpu_ns();
  shared.wire = loopback_bytes();
  shared.wall = wall_ns();
}
void end(Shared& shared) {
  shared.worker_used = cpu_ns() - shared.worker_used;
  shared.wire = loopback_bytes() - shared.wire;
  shared.wall = wall_ns() - shared.wall;
}

void role(const char* name, std::uint16_t port) {
  const std::map<std::string, std::string> variables{{"DMLC_ROLE", name},
                                                     {"DMLC_NUM_WORKER", "1"},
                                                     {"DMLC_NUM_SERVER", "1"},
                                                     {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                                                     {"DMLC_PS_ROOT_PORT", std::to_string(port)}};
  for (const auto& [key, value] : variables) setenv(key.c_str(), value.c_str(), 1);
}

void kv_server(const PushCase& what, Shared& shared) {
  ps::Start(0);
  Rows rows(what.keys * what.width);
  std::size_t came = 0;
  ps::KVServer<float> server(0);
  server.set_request_handle(
      [&](const ps::KVMeta& meta, const ps::KVPairs<float>& data, ps::KVServer<float>* self) {
        rows.add(data.vals.data(), data.vals.size());
        if (came == 0) shared.server_begun = cpu_ns();
        if (came++ == what.pushes) {
          shared.server_ended = cpu_ns();
          shared.sum = rows.sum();
        }
        self->Response(meta);
      });
  ps::Finalize(0);
}

void kv_worker(const PushCase& what, Shared& shared) {
  ps::Start(0);
  {
    ps::KVWorker<float> kv(0, 0);
    std::vector<ps::Key> keys(what.keys);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    const ps::SArray<ps::Key> shared_keys(keys);
    const ps::SArray<float> values(what.keys * what.width, 1.F);
    kv.Wait(kv.ZPush(shared_keys, values));
    begin(shared);
    std::vector<int> stamps;
    for (std::size_t i = 0; i < what.pushes; ++i) {
      if (i >= kUnderWay) kv.Wait(stamps[i - kUnderWay]);
      stamps.push_back(kv.ZPush(shared_keys, values));
    }
    for (const int stamp : stamps) kv.Wait(stamp);
    end(shared);
  }
  ps::Finalize(0);
}

pid_t start(const std::function<void()>& what) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    what();
    std::exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tally_kv_transports: %s\n", error.what());
    std::exit(1);
  }
}

struct Figures {
  std::vector<double> cpu_ns{};   // of a pair, of both
  std::vector<double> wall_ns{};  // of a pair
  std::vector<double> bytes{};    // of a pair
};

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

void run_once(bool zmq, const PushCase& what, std::uint16_t port, Figures& figures) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared& shared = *new (memory) Shared{};
  std::vector<pid_t> children;
  if (zmq) {
    children.push_back(start([&] { zmq_server(what, port, shared); }));
    children.push_back(start([&] { zmq_worker(what, port, begin, end, shared); }));
  } else {
    const auto in = [&](const char* name, const std::function<void()>& then) {
      children.push_back(start([&] {
        role(name, port);
        then();
      }));
    };
    in("scheduler", [] {
      ps::Start(0);
      ps::Finalize(0);
    });
    in("server", [&] { kv_server(what, shared); });
    in("worker", [&] { kv_worker(what, shared); });
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    good = good && status == 0;
  }
  // Small whole numbers, exact in float: one more push than is measured.
  good = good && shared.sum == what.keys * what.width * (what.pushes + 1);
  if (!good) {
    std::fprintf(stderr, "tally_kv_transports: a run failed, or its sums are wrong\n");
    std::exit(1);
  }
  const auto pairs = static_cast<double>(what.pairs());
  const std::uint64_t cpu = shared.worker_used + shared.server_ended - shared.server_begun;
  figures.cpu_ns.push_back(static_cast<double>(cpu) / pairs);
  figures.wall_ns.push_back(static_cast<double>(shared.wall) / pairs);
  figures.bytes.push_back(static_cast<double>(shared.wire) / pairs);
  munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  int rounds = 5;
  std::string json;
  CommandLine line("Pushes over tally-kv's connections beside ZeroMQ's");
  line.option("--rounds", rounds);
  line.option("--json", json);
  line.parse(argc, argv);
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%7s %5s %20s %7s %9s %9s %9s\n", "keys", "width", "", "CPU ns", "of a pair", "wall ns",
              "bytes");
  std::fflush(stdout);  // else each child prints it, too
  std::uint16_t port = 20000;
  for (const std::size_t width : {1U, 16U}) {
    for (const std::size_t keys : {1'000U, 10'000U, 100'000U}) {
      const PushCase what{keys, width, 12'000'000 / keys / (width == 1 ? 1 : 4)};
      std::array<Figures, 2> figures;
      for (int round = 0; round < rounds; ++round)
        for (const bool zmq : {false, true}) run_once(zmq, what, port += 4, figures[zmq ? 1 : 0]);
      for (const bool zmq : {false, true}) {
        const Figures& f = figures[zmq ? 1 : 0];
        const auto [least, most] = std::minmax_element(f.cpu_ns.begin(), f.cpu_ns.end());
        std::printf("%7zu %5zu %20s %7.1f (%.1f..%.1f) %9.1f %9.2f\n", keys, width,
                    zmq ? "ZeroMQ" : "tally-kv", median(f.cpu_ns), *least, *most, median(f.wall_ns),
                    median(f.bytes));
        rows.push_back({{"keys", keys},
                        {"width", width},
                        {"transport", zmq ? "zmq" : "tally-kv"},
                        {"cpu_ns", f.cpu_ns},
                        {"wall_ns", f.wall_ns},
                        {"bytes", f.bytes}});
      }
      std::fflush(stdout);
    }
  }
  write_json(json, rows);
  return 0;
}
