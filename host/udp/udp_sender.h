#pragma once
// Sends bursts of datagrams to the box. What the kernel does not take yet is kept and sent before anything
// else; what the path refuses is counted, and the engine sends it again. Progress thread.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datagram_batch.h"
#include "path_errors.h"
#include "tally/one_writer.h"
#include "transport.h"

namespace tally {

// One writer: the progress thread.
struct UdpSenderCounters {
  OneWriter<std::uint64_t> sent = 0;       // datagrams that the kernel took
  OneWriter<std::uint64_t> refused = 0;    // datagrams that it did not, because of the path
  OneWriter<std::uint64_t> too_long = 0;   // of these: longer than the path carries
  OneWriter<std::uint64_t> held_back = 0;  // times that the kernel had no room
  OneWriter<std::uint64_t> calls = 0;      // of sendmmsg()
};

class UdpSender {
 public:
  // fd: outlives this. most_bytes: of a datagram.
  UdpSender(int fd, const UdpAddress& box, std::size_t most_bytes, bool segmented, PathErrors& errors);

  // As Transport's. Nothing is lent while something waits.
  [[nodiscard]] std::span<Outbound> lend(std::size_t wanted, std::size_t bytes);
  void send(std::size_t filled);
  // Sends what waits. False: the kernel has no room yet.
  bool flush();

  enum class Waits : std::uint8_t {
    kNothing,
    kSocket,  // for the socket to be writable
    kQueue,   // for the interface's queue, which does not tell
  };
  [[nodiscard]] Waits waits() const noexcept { return waits_; }
  // Whether bursts are cut by the kernel; off for good when it refused.
  [[nodiscard]] bool segmented() const noexcept { return segmented_; }
  [[nodiscard]] bool segmentation_refused() const noexcept { return segmentation_refused_; }
  [[nodiscard]] const UdpSenderCounters& counters() const noexcept { return counters_; }

 private:
  // What becomes of the first message that is left. False: it waits.
  bool handle(int error);
  // Gives it up.
  void refuse(int error);
  [[nodiscard]] bool queue_gives_up() noexcept;

  const int fd_;
  const std::size_t most_bytes_;
  const std::size_t stride_;
  bool segmented_;
  bool segmentation_refused_ = false;
  bool tried_ = false;      // the first message that is left, once more after an error
  bool suspected_ = false;  // the kernel refused several as one message; the first of them is tried alone
  std::optional<std::chrono::steady_clock::time_point> full_since_;  // the interface's queue
  Waits waits_ = Waits::kNothing;
  PathErrors& errors_;
  std::vector<std::byte> bytes_;
  std::array<Outbound, DatagramBatch::kMost> room_{};
  DatagramBatch batch_;
  UdpSenderCounters counters_;
};

}  // namespace tally
