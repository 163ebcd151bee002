#include "datagram_batch.h"

#include <netinet/udp.h>

#include <cstring>
#include <utility>

#include "tally/check.h"

namespace tally {

DatagramBatch::DatagramBatch(const UdpAddress& box) noexcept : box_(box) {}

void DatagramBatch::clear() noexcept { count_ = messages_ = next_ = 0; }

void DatagramBatch::add(std::span<std::byte> datagram, std::uint16_t port) noexcept {
  TALLY_DCHECK(count_ < kMost, "a batch holds a burst");
  pieces_[count_] = {datagram.data(), datagram.size()};
  ports_[count_] = port;
  ++count_;
}

void DatagramBatch::build(bool segmented) noexcept {
  if (segmented) sort_by_port();
  make(0, segmented);
}

// Insertion keeps the order within a port, allocates nothing, and mostly finds one port only.
void DatagramBatch::sort_by_port() noexcept {
  for (std::size_t i = 1; i < count_; ++i) {
    for (std::size_t j = i; j > 0 && ports_[j - 1] > ports_[j]; --j) {
      std::swap(ports_[j - 1], ports_[j]);
      std::swap(pieces_[j - 1], pieces_[j]);
    }
  }
}

// How many from `first` on can be one message: of one port and size; the last one may be shorter.
std::size_t DatagramBatch::run_from(std::size_t first) const noexcept {
  const std::size_t size = pieces_[first].iov_len;
  std::size_t bytes = size;
  std::size_t end = first + 1;
  for (; end < count_ && ports_[end] == ports_[first]; ++end) {
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
  UdpAddress& name = names_[messages_] = box_;
  name.set_port(ports_[first]);
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

}  // namespace tally
