#pragma once
// How a worker's datagrams reach its boxes. A transport carries UDP payloads and nothing else; it knows
// how to get to an address, the engine does not. It is made on the thread that joins and destroyed on any, when the progress
// thread has ended or by it; in between the progress thread alone uses it, except for wake().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "engine/worker_join.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally {

// A box that datagrams go to and come from. What a transport needs to know of one of several.
struct BoxAddress {
  Ipv6 address{};           // IPv4 as ::ffff:a.b.c.d; all zero: that of TransportOptions::box
  Mac mac = kBroadcastMac;  // this: not known

  bool operator==(const BoxAddress&) const = default;
};

// A datagram to be sent: the caller writes `bytes` of `room` and names the UDP destination port, and which of the
// boxes it goes to.
struct Outbound {
  std::span<std::byte> room{};
  std::size_t bytes = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t box = 0;
};

// Takes one received UDP payload, valid during the call, and which of the boxes it came from; who knows one box takes
// the payload alone.
class DatagramSink {
 public:
  template <class Take>
  DatagramSink(Take take) : take_(wrapped(std::move(take))) {}  // NOLINT(google-explicit-constructor)
  void operator()(std::span<const std::byte> datagram, std::size_t box = 0) const { take_(datagram, box); }

 private:
  using Function = std::function<void(std::span<const std::byte>, std::size_t)>;
  template <class Take>
  static Function wrapped(Take take) {
    if constexpr (std::is_invocable_v<Take, std::span<const std::byte>, std::size_t>) {
      return take;
    } else {
      return [take = std::move(take)](std::span<const std::byte> datagram, std::size_t) mutable {
        take(datagram);
      };
    }
  }
  Function take_;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // The thread that uses the transport from now on: called once, first, on it.
  [[nodiscard]] virtual Result<void> attach() = 0;
  // Most int32 values that a packet of this path carries, 16..2224, a multiple of 16.
  [[nodiscard]] virtual std::uint16_t most_elements() const noexcept = 0;
  // Of a datagram of this path.
  [[nodiscard]] virtual std::size_t most_bytes() const noexcept {
    return kHeaderBytes + std::size_t{4} * most_elements();
  }
  // Takes at most one burst from every queue. Returns the datagrams handed to `sink`.
  virtual std::size_t receive(const DatagramSink& sink) = 0;
  // Room for up to `wanted` datagrams of `bytes` each; fewer or none when the path is full or down. The
  // caller fills the first n and calls send(n) before anything else; what it did not fill is taken back.
  // After an empty answer there is no send(); it is asked again within a millisecond.
  [[nodiscard]] virtual std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) = 0;
  virtual void send(std::size_t filled) = 0;
  // The boxes from now on, in the order of Outbound::box and of what sinks are told; before the first call it is the
  // one of TransportOptions::box alone. What comes from elsewhere is dropped; what is lent is sent by the list at the
  // moment of send(). Errors name an address that cannot be reached this way, and why; then the list stays what it was.
  [[nodiscard]] virtual Result<void> set_boxes(std::span<const BoxAddress> boxes) {
    if (boxes.size() == 1) return {};
    return fail(ErrorCode::kInvalidArgument,
                "this transport reaches one box, and the job is summed by several", "TALLY_TRANSPORT");
  }
  // Every JOINED(running) with a new epoch or MAC: the box's MAC, multicast group and port, number of shards.
  virtual void joined(const engine::Membership& membership) = 0;
  // Sleeps until something may have arrived, `until`, or wake(); may return early. Also reconnects a path
  // that is down, without blocking longer than `until`. With `poll` until is now. Not called any more when
  // the worker is closed and has nothing left to say.
  virtual void wait(TimeNs now, TimeNs until) = 0;
  virtual void wake() noexcept = 0;  // any thread
  // One line for people: device, MTU, queues, link.
  [[nodiscard]] virtual std::string describe() const = 0;
  // What went wrong on the path so far, for people, with what to do; empty if nothing did. Progress thread,
  // at most once a millisecond, and when the worker closes and ends.
  [[nodiscard]] virtual std::string trouble() const { return {}; }
};

// What a transport needs of WorkerOptions.
struct TransportOptions {
  std::string_view device;   // behind the scheme: of TALLY_TRANSPORT
  std::string_view box;      // IP address
  std::string_view address;  // with or without a prefix length; may be empty
  std::uint16_t mtu = 1500;
  bool poll = false;
  // Not 0: MAC and UDP port are made from it, and are the same whenever it is the same. 0: at random.
  std::uint64_t identity = 0;
};

using TransportFactory = Result<std::unique_ptr<Transport>> (*)(const TransportOptions& options);

// That of a class with open().
template <class T>
Result<std::unique_ptr<Transport>> open_transport(const TransportOptions& options) {
  auto opened = T::open(options);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  return std::unique_ptr<Transport>(std::move(*opened));
}

inline constexpr std::string_view kDefaultTransport = "udp";

// Transports by scheme. 'udp' is inside libtally. libtally_dpdk.so registers 'dpdk' when it is loaded;
// libtally loads it when TALLY_TRANSPORT asks for it, so that a program without DPDK never links it:
// libtally_dpdk.so.0 from libtally's own folder, else from where the loader looks.
void register_transport(std::string_view scheme, TransportFactory factory);
[[nodiscard]] Result<std::unique_ptr<Transport>> make_transport(std::string_view transport,
                                                                TransportOptions options);

}  // namespace tally
