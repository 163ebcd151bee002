#pragma once
// How a worker's datagrams reach the box. A transport carries UDP payloads and nothing else; it knows
// addresses, the engine does not. It is made on the thread that joins and destroyed on any, when the progress
// thread has ended or by it; in between the progress thread alone uses it, except for wake().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/worker_join.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally {

// A datagram to be sent: the caller writes `bytes` of `room` and names the UDP destination port.
struct Outbound {
  std::span<std::byte> room{};
  std::size_t bytes = 0;
  std::uint16_t destination_port = 0;
};

// Takes one received UDP payload; valid during the call.
using DatagramSink = std::function<void(std::span<const std::byte>)>;

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
  // Takes at most one burst from every queue. Returns the datagrams handed to `sink`.
  virtual std::size_t receive(const DatagramSink& sink) = 0;
  // Room for up to `wanted` datagrams of `bytes` each; fewer or none when the path is full or down. The
  // caller fills the first n and calls send(n) before anything else; what it did not fill is taken back.
  // After an empty answer there is no send(); it is asked again within a millisecond.
  [[nodiscard]] virtual std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) = 0;
  virtual void send(std::size_t filled) = 0;
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
