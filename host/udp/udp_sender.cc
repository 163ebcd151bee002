#include "udp/udp_sender.h"

#include <netinet/udp.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tally/check.h"

namespace tally::udp {

DatagramBatch::DatagramBatch(const UdpAddress& box) : boxes_{box} {}

void DatagramBatch::set_boxes(std::span<const UdpAddress> boxes) {
  boxes_.assign(boxes.begin(), boxes.end());
}

void DatagramBatch::clear() noexcept { count_ = messages_ = next_ = 0; }

void DatagramBatch::add(std::span<std::byte> datagram, std::uint16_t port, std::uint16_t box) noexcept {
  TALLY_DCHECK(count_ < kMost, "a batch holds a burst");
  TALLY_DCHECK(box < boxes_.size(), "a datagram goes to a box of the list");
  pieces_[count_] = {datagram.data(), datagram.size()};
  to_[count_] = std::uint32_t{box} << 16 | port;
  ++count_;
}

void DatagramBatch::build(bool segmented) noexcept {
  if (segmented) sort_by_port();
  make(0, segmented);
}

// Insertion keeps the order within a port, allocates nothing, and mostly finds one port only.
void DatagramBatch::sort_by_port() noexcept {
  for (std::size_t i = 1; i < count_; ++i) {
    for (std::size_t j = i; j > 0 && to_[j - 1] > to_[j]; --j) {
      std::swap(to_[j - 1], to_[j]);
      std::swap(pieces_[j - 1], pieces_[j]);
    }
  }
}

// How many from `first` on can be one message: of one port of a box and of one size; the last one may be shorter.
std::size_t DatagramBatch::run_from(std::size_t first) const noexcept {
  const std::size_t size = pieces_[first].iov_len;
  std::size_t bytes = size;
  std::size_t end = first + 1;
  for (; end < count_ && to_[end] == to_[first]; ++end) {
    const std::size_t more = pieces_[end].iov_len;
    if (more > size || bytes + more > kMostMessageBytes) break;
    bytes += more;
    if (more < size) return end + 1 - first;
  }
  return end - first;
}

void DatagramBatch::make(std::size_t first, bool segmented) noexcept {
  messages_ = next_ = 0;
  while (first < count_) {
    const std::size_t count = segmented ? run_from(first) : 1;
    fill(first, count);
    first += count;
  }
}

void DatagramBatch::fill(std::size_t first, std::size_t count) noexcept {
  UdpAddress& name = names_[messages_] = boxes_[to_[first] >> 16];
  name.set_port(static_cast<std::uint16_t>(to_[first]));
  mmsghdr& message = headers_[messages_] = {};
  message.msg_hdr.msg_name = name.raw();
  message.msg_hdr.msg_namelen = name.size();
  message.msg_hdr.msg_iov = &pieces_[first];
  message.msg_hdr.msg_iovlen = count;
  if (count > 1) {
    Control& room = controls_[messages_].bytes;
    message.msg_hdr.msg_control = room.data();
    message.msg_hdr.msg_controllen = room.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message.msg_hdr);
    control->cmsg_level = IPPROTO_UDP;
    control->cmsg_type = UDP_SEGMENT;
    control->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto size = static_cast<std::uint16_t>(pieces_[first].iov_len);
    std::memcpy(CMSG_DATA(control), &size, sizeof size);
  }
  ++messages_;
}

void DatagramBatch::split() noexcept {
  if (done()) return;
  make(static_cast<std::size_t>(headers_[next_].msg_hdr.msg_iov - pieces_.data()), false);
}

namespace {

constexpr std::chrono::milliseconds kQueuePatience{8};  // some 60 frames of 100 Mbit/s

bool says_no_segmentation(int error) noexcept {
  return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

}  // namespace

UdpSender::UdpSender(int fd, const UdpAddress& box, std::size_t most_bytes, bool segmented,
                     PathErrors& errors)
    : fd_(fd),
      most_bytes_(most_bytes),
      stride_(stride_of(most_bytes)),
      segmented_(segmented),
      errors_(errors),
      bytes_(DatagramBatch::kMost * stride_),
      batch_(box) {}

std::span<Outbound> UdpSender::lend(std::size_t wanted, std::size_t bytes) {
  if (bytes > most_bytes_ || !flush()) return {};
  const std::size_t count = std::min(wanted, room_.size());
  for (std::size_t i = 0; i < count; ++i)
    room_[i] = Outbound{{bytes_.data() + i * stride_, bytes}, 0, kBasePort};
  return {room_.data(), count};
}

void UdpSender::send(std::size_t filled) {
  TALLY_DCHECK(filled <= room_.size(), "only what was lent can be sent");
  batch_.clear();
  for (const Outbound& each : std::span(room_).first(filled)) {
    if (each.box < batch_.boxes().size()) {
      batch_.add(each.room.first(each.bytes), each.destination_port, each.box);
    } else {
      ++counters_.refused;  // of a list that could not be taken
    }
  }
  batch_.build(segmented_);
  static_cast<void>(flush());
}

void UdpSender::set_boxes(std::span<const UdpAddress> boxes) {
  static_cast<void>(flush());
  while (!batch_.done()) {
    counters_.refused += batch_.datagrams();
    batch_.advance();
  }
  waits_ = Waits::kNothing;
  tried_ = suspected_ = false;
  batch_.set_boxes(boxes);
}

bool UdpSender::flush() {
  waits_ = Waits::kNothing;
  while (!batch_.done()) {
    const std::span<mmsghdr> left = batch_.left();
    ++counters_.calls;
    const int taken = sendmmsg(fd_, left.data(), static_cast<unsigned>(left.size()), MSG_DONTWAIT);
    if (taken < 0) {
      if (!handle(errno)) return false;
      continue;
    }
    for (int i = 0; i < taken; ++i) {
      counters_.sent += batch_.datagrams();
      batch_.advance();
    }
    if (suspected_) {
      segmented_ = false;
      segmentation_refused_ = true;
    }
    tried_ = suspected_ = false;
    full_since_.reset();
  }
  return true;
}

bool UdpSender::handle(int error) {
  if (error == EINTR) return true;
  if (error == EAGAIN || error == EWOULDBLOCK) {
    waits_ = Waits::kSocket;
    ++counters_.held_back;
    return false;
  }
  if (error == ENOBUFS || error == ENOMEM) {
    if (queue_gives_up()) {
      refuse(error);
      return true;
    }
    waits_ = Waits::kQueue;
    ++counters_.held_back;
    return false;
  }
  // It may be what became of an earlier datagram: the kernel tells it with the next call, which then does
  // nothing else.
  errors_.expect_queued();
  if (!tried_) {
    tried_ = true;
    return true;
  }
  tried_ = false;
  if (batch_.datagrams() > 1 && (error == EMSGSIZE || says_no_segmentation(error))) {
    // Kernels of Linux 6.1 say EINVAL also when the path is too narrow: the first datagram alone shows it.
    suspected_ = error != EMSGSIZE;
    batch_.split();
    return true;
  }
  refuse(error);
  return true;
}

// A queue that took nothing for so long is full for good, or its policy drops: what is behind this message, a
// HEARTBEAT perhaps, must not wait for it. Until something is taken everything has one try only.
bool UdpSender::queue_gives_up() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (!full_since_) full_since_ = now;
  return now - *full_since_ >= kQueuePatience;
}

void UdpSender::refuse(int error) {
  suspected_ = false;
  errors_.note(error);
  counters_.refused += batch_.datagrams();
  if (error == EMSGSIZE) counters_.too_long += batch_.datagrams();
  batch_.advance();
}

namespace {

// Room comes by whole bursts: in less time one more or less would look like another rate. In more there may
// be a pause of the program.
constexpr TimeNs kLeastMeasured = 4 * kMillisecond;
constexpr TimeNs kMostMeasured = 100 * kMillisecond;
constexpr std::uint32_t kTooLarge = 4;  // times too large: only then it becomes smaller

constexpr std::size_t kHeaders = 128;
constexpr std::size_t kRecords = 320;
constexpr std::size_t kDescriptor = 256;

}  // namespace

void SendBacklog::start(std::uint32_t window) noexcept {
  window_ = window;
  limit_ = std::min(window, kLeastBacklog);
  measures_ = false;
}

bool SendBacklog::full(TimeNs now, std::uint64_t sent) noexcept {
  if (window_ <= kLeastBacklog) return false;
  const TimeNs took = now - since_;
  if (measures_ && took < kLeastMeasured) return false;
  const bool measured = measures_ && took <= kMostMeasured;
  const std::uint64_t left = sent - sent_then_;
  measures_ = true;
  since_ = now;
  sent_then_ = sent;
  if (!measured) return false;
  const std::uint64_t in_time = std::clamp<std::uint64_t>(left * kBacklogTime / took, kLeastBacklog, window_);
  const std::uint32_t wanted = std::bit_ceil(static_cast<std::uint32_t>(in_time));
  if (wanted <= limit_ && wanted > limit_ / kTooLarge) return false;
  limit_ = wanted;
  return true;
}

std::size_t send_buffer_of(std::uint32_t datagrams, std::size_t bytes_each) noexcept {
  return datagrams * (std::bit_ceil(bytes_each + kHeaders + kRecords) + kDescriptor) / 2;
}

}  // namespace tally::udp
