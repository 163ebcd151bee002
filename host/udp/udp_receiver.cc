#include "udp/udp_receiver.h"

#include <cerrno>

namespace tally::udp {
UdpReceiver::UdpReceiver(const UdpAddress& box, std::size_t most_bytes, PathErrors& errors)
    : boxes_{box}, stride_(stride_of(most_bytes)), errors_(errors), bytes_(kBurst * stride_) {
  for (std::size_t i = 0; i < kBurst; ++i) {
    rooms_[i] = {bytes_.data() + i * stride_, most_bytes};
    headers_[i].msg_hdr.msg_iov = &rooms_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_name = senders_[i].raw();
    headers_[i].msg_hdr.msg_namelen = UdpAddress::kRoom;
  }
}

void UdpReceiver::set_boxes(std::span<const UdpAddress> boxes) {
  boxes_.assign(boxes.begin(), boxes.end());
  last_ = 0;
}

std::size_t UdpReceiver::box_of(const UdpAddress& sender) noexcept {
  const unsigned shard = sender.port() - unsigned{kBasePort};
  if (shard >= kMaxShards) return boxes_.size();
  if (sender.same_ip(boxes_[last_])) return last_;
  for (std::size_t box = 0; box < boxes_.size(); ++box)
    if (sender.same_ip(boxes_[box])) return last_ = box;
  return boxes_.size();
}

std::size_t UdpReceiver::receive(int fd, const DatagramSink& sink) {
  const int taken = recvmmsg(fd, headers_.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (taken < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) errors_.expect_queued();
    return 0;
  }
  std::size_t handed = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(taken); ++i) {
    mmsghdr& message = headers_[i];
    const std::size_t box = box_of(senders_[i]);
    if (box == boxes_.size()) {
      ++counters_.foreign;
    } else if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
      ++counters_.too_long;
    } else {
      sink({bytes_.data() + i * stride_, message.msg_len}, box);
      ++handed;
    }
    message.msg_hdr.msg_namelen = UdpAddress::kRoom;
    message.msg_hdr.msg_flags = 0;
  }
  counters_.received += handed;
  return handed;
}

}  // namespace tally::udp
