// The TCP connections of a key-value system at rest, as ss sees them: tally-kv's nodes, and ZeroMQ's sockets wired as
// PS-lite's van has them: each node binds a ROUTER to receive and connects a DEALER to each node of the other role and to
// the scheduler, which connects one to each. All on the loopback interface of a namespace that has nothing else.
//
//   unshare --net sh -c 'ip link set lo up; exec tally_kv_connections'

#include <zmq.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "command_line.h"
#include "tally/kv_node.h"

namespace tally::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "tally_kv_connections: %s\n", why.c_str());
  std::exit(1);
}

// Both ends of each are here.
int connections() {
  FILE* const ss = popen("ss --no-header --tcp --numeric state established | wc --lines", "r");
  std::array<char, 32> line{};
  if (ss == nullptr || std::fgets(line.data(), line.size(), ss) == nullptr) give_up("cannot run ss");
  pclose(ss);
  return std::atoi(line.data()) / 2;
}

// When it has been the same for a second.
int settled_connections() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int last = -1;
  for (int same = 0; same < 10; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
    const int now = connections();
    same = now == last ? same + 1 : 0;
    last = now;
    if (std::chrono::steady_clock::now() > end) give_up("connections come and go");
  }
  return last;
}

int of_tally(int workers, int servers) {
  std::vector<std::unique_ptr<kv::Node>> nodes;
  kv::NodeOptions options;
  options.workers = workers;
  options.servers = servers;
  options.role = kv::Role::kSchedules;
  nodes.push_back(std::make_unique<kv::Node>(options));
  options.port = nodes.front()->port();
  for (int i = 0; i < workers + servers; ++i) {
    options.role = i < servers ? kv::Role::kServes : kv::Role::kWorks;
    nodes.push_back(std::make_unique<kv::Node>(options));
  }
  const auto all = [&](const std::function<void(kv::Node&)>& work) {
    std::vector<std::thread> threads;
    for (const auto& node : nodes) threads.emplace_back([&work, &node] { work(*node); });
    for (std::thread& thread : threads) thread.join();
  };
  all([](kv::Node& node) { node.start(); });
  const int count = settled_connections();
  all([](kv::Node& node) { node.finalize(); });
  return count;
}

int of_zmq(int workers, int servers) {
  constexpr int kFirstPort = 20'000;
  enum class Role : std::uint8_t { kSchedules, kServes, kWorks };
  struct Node {
    Role role = Role::kSchedules;
    void* context = nullptr;
    std::vector<void*> sockets{};
    void add(int type, int (*connect)(void*, const char*), int port) {
      sockets.push_back(zmq_socket(context, type));
      if (connect(sockets.back(), ("tcp://127.0.0.1:" + std::to_string(port)).c_str()) != 0)
        give_up(zmq_strerror(zmq_errno()));
    }
  };
  std::vector<Node> nodes(1 + static_cast<std::size_t>(workers + servers));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].context = zmq_ctx_new();
    nodes[i].role = i == 0                                   ? Role::kSchedules
                    : i <= static_cast<std::size_t>(servers) ? Role::kServes
                                                             : Role::kWorks;
    nodes[i].add(ZMQ_ROUTER, zmq_bind, kFirstPort + static_cast<int>(i));
  }
  for (Node& node : nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].role != node.role) node.add(ZMQ_DEALER, zmq_connect, kFirstPort + static_cast<int>(i));
  }
  const int count = settled_connections();
  for (Node& node : nodes) {
    for (void* const socket : node.sockets) zmq_close(socket);
    zmq_ctx_term(node.context);
  }
  return count;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  CommandLine("TCP connections of a key-value system, tally-kv's and ZeroMQ's").parse(argc, argv);
  if (connections() != 0) give_up("other connections are here: run it in a network namespace of its own");
  struct Size {
    int workers;
    int servers;
  };
  std::printf("%7s %7s %9s %7s\n", "workers", "servers", "tally-kv", "ZeroMQ");
  for (const auto& [workers, servers] : {Size{2, 1}, Size{3, 2}, Size{8, 4}, Size{16, 8}, Size{32, 8}}) {
    std::printf("%7d %7d", workers, servers);
    std::printf(" %9d", of_tally(workers, servers));
    std::printf(" %7d\n", of_zmq(workers, servers));
    std::fflush(stdout);
  }
  return 0;
}
