#pragma once
// Where workers knock: listens at the socket of memif servers in place of DPDK's driver, and passes the
// control messages on to it and back. Packets do not come here; they go through the shared memory that these
// messages set up. Without it, in DPDK 22.11 (tests/e2e/dpdk_door_test.cc):
//  - a worker that is killed under load crashes the daemon (port_gate.h);
//  - a connection that ends before the driver has greeted it aborts the process (a descriptor that the driver
//    closed is still on EAL's list: rte_panic);
//  - a client with fewer queues than the server is connected, and the server uses rings that do not exist;
//  - what a client says of its memory is believed, and not given back when it leaves before it is connected;
//  - a client that cuts off its memory afterwards ends the daemon with SIGBUS.
//
// One per socket and process, with a thread of its own; several ports with different ids may share it.

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/memif_device.h"
#include "dpdk/memif_message.h"
#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::dpdk {

class MemifDoor {
 public:
  // The door of the device's socket, shared by all ports of this process that name it. Refuses a socket at
  // which somebody else listens; replaces the file that a killed process left. Thread: that of the ports.
  [[nodiscard]] static Result<std::shared_ptr<MemifDoor>> open(const device::MemifDevice& device);
  MemifDoor(const MemifDoor&) = delete;
  MemifDoor& operator=(const MemifDoor&) = delete;
  ~MemifDoor();  // removes the socket file

  // For the driver: socket=..., with socket-abstract=yes.
  [[nodiscard]] const std::string& driver_socket() const noexcept { return driver_socket_; }

  [[nodiscard]] bool has(std::uint32_t id) const;
  // Lets clients through to the port of ethdev that is the interface `id`. A client must have exactly
  // these numbers of queues. The port's gate is open while one is connected, and only then.
  void admit(std::uint32_t id, std::uint16_t port, std::uint16_t receive_queues,
             std::uint16_t transmit_queues);
  // Ends the connection of this interface; the gate is closed when it returns.
  void dismiss(std::uint32_t id);

 private:
  struct Interface {
    std::uint16_t port = 0;
    std::uint16_t receive_queues = 0;
    std::uint16_t transmit_queues = 0;
  };
  struct Visit {
    UniqueFd worker{};
    UniqueFd driver{};
    std::uint32_t id = 0;
    std::chrono::steady_clock::time_point since{};
    bool greeted = false;     // the driver knows the connection: only then may it end
    bool introduced = false;  // INIT was passed on
    bool asked = false;       // CONNECT was passed on, and with it what was held
    bool answered = false;    // the driver has said CONNECTED, or hung up
    bool connected = false;   // the gate is open
    // Regions and rings, held until the worker asks to be connected: the driver does not close the memory of
    // one that leaves before.
    std::vector<MemifMessage> held{};
    std::size_t own_acks = 0;              // of the driver for what was held: the worker has had ours
    std::vector<std::uint64_t> regions{};  // bytes of each
    std::uint64_t to_server = 0;           // bitmap of rings
    std::uint64_t to_client = 0;
  };

  MemifDoor() = default;
  void run();
  void accept_worker();
  // False: the visit is over.
  bool from_worker(Visit& visit);
  bool from_driver(Visit& visit);
  // False: what the worker said is wrong, or out of order.
  bool take(Visit& visit, MemifMessage message);
  bool hold(Visit& visit, MemifMessage message);
  bool ask(Visit& visit, const MemifMessage& message);
  bool checked(Visit& visit);
  void end(Visit& visit);
  bool end_stragglers();
  void wake() const noexcept;

  std::string path_;  // empty: abstract
  std::string driver_socket_;
  UniqueFd listener_;
  UniqueFd wake_;
  mutable std::mutex mutex_;  // of all below; held by the thread except while it waits
  std::map<std::uint32_t, Interface> interfaces_;
  std::list<Visit> visits_;
  bool out_of_descriptors_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tally::dpdk
