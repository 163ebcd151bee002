#include "udp_sender.h"

#include <algorithm>
#include <cerrno>

#include "tally/check.h"

namespace tally {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::chrono::milliseconds kQueuePatience{8};  // some 60 frames of 100 Mbit/s

bool says_no_segmentation(int error) noexcept {
  return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

}  // namespace

UdpSender::UdpSender(int fd, const UdpAddress& box, std::size_t most_bytes, bool segmented,
                     PathErrors& errors)
    : fd_(fd),
      most_bytes_(most_bytes),
      stride_((most_bytes + kCacheLine - 1) / kCacheLine * kCacheLine),
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
  for (std::size_t i = 0; i < filled; ++i)
    batch_.add(room_[i].room.first(room_[i].bytes), room_[i].destination_port);
  batch_.build(segmented_);
  static_cast<void>(flush());
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

}  // namespace tally
