#pragma once
// Sends bursts of datagrams to the boxes. What the kernel does not take yet is kept and sent before anything
// else; what the path refuses is counted, and the engine sends it again. Progress thread.

#include <sys/socket.h>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "api/transport.h"
#include "tally/one_writer.h"
#include "tally/time.h"
#include "udp/udp_address.h"
#include "udp/udp_socket.h"

namespace tally::udp {

// Datagrams in the form of sendmmsg(): one message each, or, with generic segmentation offload (GSO), one for
// several of one size to one port of one box, which the kernel or the card cuts into frames. Pure: no system call.

class DatagramBatch {
 public:
  static constexpr std::size_t kMost = 32;
  // A message becomes one IP packet for a moment.
  static constexpr std::size_t kMostMessageBytes = 65'000;

  explicit DatagramBatch(const UdpAddress& box);
  DatagramBatch(const DatagramBatch&) = delete;
  DatagramBatch& operator=(const DatagramBatch&) = delete;

  // Of an empty one. One box at least.
  void set_boxes(std::span<const UdpAddress> boxes);
  [[nodiscard]] std::span<const UdpAddress> boxes() const noexcept { return boxes_; }
  // Empty again.
  void clear() noexcept;
  // The bytes stay the caller's until they are sent. At most kMost.
  // box: a place in the list.
  void add(std::span<std::byte> datagram, std::uint16_t port, std::uint16_t box = 0) noexcept;
  // Makes messages of what was added. With `segmented` datagrams of one port of a box come behind each other; those
  // of one port keep their order.
  void build(bool segmented) noexcept;

  [[nodiscard]] bool done() const noexcept { return next_ == messages_; }
  [[nodiscard]] std::span<mmsghdr> left() noexcept { return {headers_.data() + next_, messages_ - next_}; }
  // Of the first message that is left.
  [[nodiscard]] std::size_t datagrams() const noexcept { return headers_[next_].msg_hdr.msg_iovlen; }
  // The first message that is left was sent or given up.
  void advance() noexcept { ++next_; }
  // What is left becomes one message each.
  void split() noexcept;

 private:
  using Control = std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))>;
  void sort_by_port() noexcept;
  [[nodiscard]] std::size_t run_from(std::size_t first) const noexcept;
  void make(std::size_t first, bool segmented) noexcept;
  void fill(std::size_t first, std::size_t count) noexcept;

  std::vector<UdpAddress> boxes_;
  std::array<iovec, kMost> pieces_{};      // datagrams in the order of sending
  std::array<std::uint32_t, kMost> to_{};  // of each piece: box << 16 | port
  std::size_t count_ = 0;
  std::array<mmsghdr, kMost> headers_{};
  std::array<UdpAddress, kMost> names_{};
  struct alignas(cmsghdr) AlignedControl {
    Control bytes{};
  };
  std::array<AlignedControl, kMost> controls_{};
  std::size_t messages_ = 0;
  std::size_t next_ = 0;
};

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

  // Where datagrams go from now on; what waits for a box of the former list is given up. One box at least.
  void set_boxes(std::span<const UdpAddress> boxes);
  // Bursts are no longer cut by the kernel.
  void stop_segmenting() noexcept { segmented_ = false; }

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

// How many of a worker's datagrams may wait in its own machine for the wire. A chunk that is sent again waits
// behind all of them, and meanwhile the window moves on by as many: with a whole window in the queue each
// loss costs the link a whole window's time, and on a slow link the queue alone outlasts the RTO. What waits
// beyond that waits in the engine, where repairs go first. Pure.

// A burst. An eighth of the default window, so that a loss can show, be told and be repaired behind it before
// the window is at its end.
inline constexpr std::uint32_t kLeastBacklog = 32;
// A thread that was told that there is room may come so late; what is on the wire until then must be there
// already.
inline constexpr TimeNs kBacklogTime = kMillisecond;

class SendBacklog {
 public:
  // Starts anew with the window of an epoch; 0: for who has none (a server), no limit.
  void start(std::uint32_t window) noexcept;

  // The socket had no room at `now`, `sent` datagrams after the beginning: from one such moment to another
  // one, some milliseconds later, as many left as were added. True: limit() has changed.
  bool full(TimeNs now, std::uint64_t sent) noexcept;

  // Datagrams; 0: no limit. kLeastBacklog, or as many as leave in kBacklogTime, in powers of two up to the
  // window.
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

 private:
  std::uint32_t window_ = 0;
  std::uint32_t limit_ = 0;
  bool measures_ = false;
  TimeNs since_ = 0;
  std::uint64_t sent_then_ = 0;
};

// What to ask of SO_SNDBUF for so many datagrams; the kernel doubles that, and counts memory and not bytes of
// data: a power of two with room for its headers and its own records, and a descriptor. Where it keeps the
// data in pages (network cards that gather) up to half as many more find room.
[[nodiscard]] std::size_t send_buffer_of(std::uint32_t datagrams, std::size_t bytes_each) noexcept;

}  // namespace tally::udp
