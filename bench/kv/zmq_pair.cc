#include <zmq.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "pushes.h"

namespace tally::bench {
namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "tally_kv_transports: %s: %s\n", what, zmq_strerror(zmq_errno()));
  std::exit(1);
}

std::string address(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// A node: what it receives with, and what it sends to its peer with.
class Node {
 public:
  Node(int own, int peer) : context_(zmq_ctx_new()) {
    receiver_ = zmq_socket(context_, ZMQ_ROUTER);
    sender_ = zmq_socket(context_, ZMQ_DEALER);
    const int linger = 1000;
    zmq_setsockopt(sender_, ZMQ_LINGER, &linger, sizeof linger);
    require(zmq_bind(receiver_, address(own).c_str()) == 0, "bind");
    require(zmq_connect(sender_, address(peer).c_str()) == 0, "connect");
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    zmq_close(sender_);
    zmq_close(receiver_);
    zmq_ctx_term(context_);
  }

  // The array is sent where it lies, and stays.
  void part(const void* bytes, std::size_t n, bool more) {
    zmq_msg_t message;
    zmq_msg_init_data(
        &message, const_cast<void*>(bytes), n, [](void*, void*) {}, nullptr);
    require(zmq_msg_send(&message, sender_, more ? ZMQ_SNDMORE : 0) >= 0, "send");
  }
  // The parts of one message behind the sender's name: calls f(index, data, bytes).
  template <class F>
  void receive(F f) {
    for (int i = -1;; ++i) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      require(zmq_msg_recv(&message, receiver_, 0) >= 0, "receive");
      if (i >= 0) f(i, zmq_msg_data(&message), zmq_msg_size(&message));
      const bool more = zmq_msg_more(&message) != 0;
      zmq_msg_close(&message);
      if (!more) return;
    }
  }

 private:
  void* context_;
  void* receiver_;
  void* sender_;
};

}  // namespace

void zmq_server(const PushCase& what, std::uint16_t port, Shared& shared) {
  Node node(port, port + 1);
  Rows rows(what.keys * what.width);
  std::array<std::byte, 64> meta{};
  for (std::size_t i = 0; i <= what.pushes; ++i) {  // one more to begin with
    node.receive([&](int part, const void* data, std::size_t bytes) {
      if (part == 0) std::memcpy(meta.data(), data, std::min(bytes, meta.size()));
      if (part == 2) rows.add(static_cast<const float*>(data), bytes / sizeof(float));
    });
    if (i == 0) shared.server_begun = cpu_ns();
    if (i == what.pushes) {
      shared.server_ended = cpu_ns();
      shared.sum = rows.sum();
    }
    node.part(meta.data(), meta.size(), false);
  }
}

void zmq_worker(const PushCase& what, std::uint16_t port, void (*begin)(Shared&), void (*end)(Shared&),
                Shared& shared) {
  Node node(port + 1, port);
  const std::array<std::byte, 64> meta{};
  std::vector<std::uint64_t> keys(what.keys);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> values(what.keys * what.width, 1.F);
  const auto push = [&] {
    node.part(meta.data(), meta.size(), true);
    node.part(keys.data(), keys.size() * sizeof(std::uint64_t), true);
    node.part(values.data(), values.size() * sizeof(float), false);
  };
  const auto acknowledged = [&] { node.receive([](int, const void*, std::size_t) {}); };
  push();
  acknowledged();
  begin(shared);
  for (std::size_t i = 0; i < what.pushes; ++i) {
    if (i >= kUnderWay) acknowledged();
    push();
  }
  for (std::size_t i = 0; i < std::min(kUnderWay, what.pushes); ++i) acknowledged();
  end(shared);
}

}  // namespace tally::bench
