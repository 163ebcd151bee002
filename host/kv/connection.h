#pragma once
// One TCP connection between two nodes: a handshake, then frames both ways. What waits to be sent is bounded; whoever
// receives may hold it, so that the sender's queue fills instead of this memory.

#include <array>
#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kv/frame.h"
#include "kv/handshake.h"
#include "kv/send_queue.h"

namespace tally::kv {

// Of all connections of a node; NodeStatistics says what they are.
struct ConnectionCounters {
  std::atomic<std::uint64_t> connections{0}, frames_sent{0}, frames_received{0}, bytes_sent{0},
      bytes_received{0}, strangers{0}, malformed{0}, dropped{0};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Taken : std::uint8_t { kGoOn, kHold, kMalformed };
  // On the thread of the io_context.
  struct Handlers {
    std::function<void(const std::shared_ptr<Connection>&)> opened{};  // both ends have proven the token
    std::function<Taken(const std::shared_ptr<Connection>&, Frame)> received{};
    std::function<void(const std::shared_ptr<Connection>&, const std::string& why)> closed{};  // once
  };

  // bytes: what may wait to be sent, and the largest frame.
  Connection(asio::ip::tcp::socket socket, Handshake handshake, Handlers handlers, std::size_t bytes,
             ConnectionCounters& counters);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // io thread. caller: it says the first word.
  void open(bool caller);
  void close(const std::string& why);
  void finish();  // when all that waits is sent
  void resume();  // after kHold
  // Without data the kernel looks after it; with it, too: for connections whose other end always reads.
  void watch_closely();

  // Any thread. false: there is no room.
  [[nodiscard]] bool send(Frame frame);
  [[nodiscard]] std::size_t waiting_bytes() const;
  [[nodiscard]] const std::string& remote() const noexcept { return remote_; }  // its IP address
  [[nodiscard]] const Party& peer() const noexcept { return handshake_.peer(); }
  [[nodiscard]] bool proven() const noexcept { return handshake_.done(); }
  std::uint64_t id = 0;  // its owner's

 private:
  static constexpr std::size_t kGreetingBytes = 256;  // a stranger cannot make us hold more
  static constexpr auto kGreetingPatience = std::chrono::seconds(10);
  static constexpr std::size_t kBatch = 16;  // frames in a system call

  void read_header();
  void read_body(ParsedHeader parsed);
  void deliver(Frame frame);
  void shake(const Frame& frame);
  void write();

  asio::ip::tcp::socket socket_;
  asio::steady_timer greeting_;
  Handshake handshake_;
  Handlers handlers_;
  const std::size_t most_;
  ConnectionCounters& counters_;
  std::string remote_{};
  FrameHeader header_{};
  bool held_ = false;
  bool closed_ = false;
  std::string refused_{};  // why it is closed when what waits is sent

  mutable std::mutex mutex_{};
  SendQueue queue_;
  bool writing_ = false;
  bool finishing_ = false;
  std::vector<Frame> batch_{};
  std::vector<FrameHeader> headers_{};
};

}  // namespace tally::kv
