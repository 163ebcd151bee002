#include "dpdk/memif_door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "dpdk/port_gate.h"

namespace tally::dpdk {
namespace {

constexpr int kMessagesAtOnce = 16;      // of one worker, before the others have their turn
constexpr std::size_t kMostHeld = 160;   // regions and rings: 64 rings each way, and some regions
constexpr std::size_t kMostVisits = 96;  // ports of a process: 32
constexpr std::uint8_t kMostLog2 = 14;   // of a ring's size: the driver's limit
constexpr int kLookAgainMs = 100;
constexpr std::chrono::seconds kPatience{5};  // with a worker that is not connected

// Bits 0..n-1. n: 1..64.
constexpr std::uint64_t first_bits(std::uint16_t n) noexcept { return ~std::uint64_t{0} >> (64 - n); }

Result<UniqueFd> listener_at(const device::MemifDevice& device) {
  constexpr int kWaiting = 64;
  const MemifAddress address(device.socket, device.abstract);
  UniqueFd fd = memif_socket();
  if (fd && bind(fd.get(), address.raw(), address.bytes()) == 0 && listen(fd.get(), kWaiting) == 0) return fd;
  const int code = errno;
  Error error{.code = ErrorCode::kSystem,
              .what = "the memif socket " + device.socket + " cannot be made (" + std::strerror(code) + ")",
              .sys_errno = code};
  if (code == EADDRINUSE) error.what += ": another process listens there; stop it, or name another socket";
  return tl::unexpected<Error>(std::move(error));
}

// What is wrong with the descriptor of a region or ring; empty: nothing. Memory must be as large as its
// worker says and stay so: on a file that is cut off afterwards the box would end with SIGBUS. (Both DPDK's
// driver and libmemif seal theirs. The seal first: after it the size cannot fall.)
std::string_view fault_of(const MemifMessage& message) {
  if (!message.fd) return "a region or ring came without its file descriptor";
  if (message.type() != MemifType::kAddRegion) return {};
  const int seals = fcntl(message.fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return "its shared memory may shrink: seal the memfd with F_SEAL_SHRINK";
  struct stat memory {};
  if (fstat(message.fd.get(), &memory) != 0 ||
      static_cast<std::uint64_t>(memory.st_size) < message.region().bytes)
    return "its shared memory is smaller than it says";
  return {};
}

std::string in_file(const std::string& path, const std::string& what) {
  return "the memif socket " + path + " " + what;
}

tl::unexpected<Error> system_error(std::string what, int code) {
  what += std::string(" (") + std::strerror(code) + ")";
  return tl::unexpected<Error>(Error{.code = ErrorCode::kSystem, .what = std::move(what), .sys_errno = code});
}

Result<void> check_directory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty())
    return fail(ErrorCode::kInvalidArgument, in_file(path, "must be named with its directory"));
  if (faccessat(AT_FDCWD, directory.c_str(), F_OK, AT_EACCESS) != 0)
    return system_error(in_file(path, "cannot be made: create its directory first: mkdir -p " + directory),
                        errno);
  if (faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0)
    return system_error(in_file(path, "cannot be made: this user may not write to " + directory), errno);
  return {};
}

// ECONNREFUSED: nobody. A datagram socket asks, which memif's (SOCK_SEQPACKET) does not even notice.
int why_not_connected(const std::string& path) {
  const MemifAddress address(path, false);
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && connect(fd.get(), address.raw(), address.bytes()) == 0 ? 0 : errno;
}

Result<void> make_way(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return fail(ErrorCode::kInvalidArgument,
                in_file(path, "cannot be made: there is a file that is no socket"));
  const int code = why_not_connected(path);
  if (code == 0 || code == EPROTOTYPE)
    return fail(ErrorCode::kSystem,
                in_file(path, "is in use by another process: stop that, or name another socket"));
  if (code != ECONNREFUSED) return system_error(in_file(path, "exists and cannot be tried; remove it"), code);
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return system_error(in_file(path, "is left from a killed process and cannot be removed"), errno);
  return {};
}

// Before a server listens: its directory can be written, and nobody else listens there. Removes the file that
// a killed process left. Never connects: that could abort a process whose memif is the driver's own.
Result<void> make_way_for(const device::MemifDevice& device) {
  if (device.abstract) return {};
  if (auto right = check_directory(device.socket); !right) return right;
  return make_way(device.socket);
}

}  // namespace

Result<std::shared_ptr<MemifDoor>> MemifDoor::open(const device::MemifDevice& device) {
  static std::map<std::string, std::weak_ptr<MemifDoor>> doors;
  static unsigned number = 0;
  auto& known = doors[(device.abstract ? "@" : "") + device.socket];
  if (auto door = known.lock()) return door;
  if (auto free = make_way_for(device); !free) return tl::unexpected<Error>(std::move(free.error()));
  auto listener = listener_at(device);
  if (!listener) return tl::unexpected<Error>(std::move(listener.error()));
  std::shared_ptr<MemifDoor> door(new MemifDoor);
  door->listener_ = std::move(*listener);
  if (!device.abstract) door->path_ = device.socket;
  door->driver_socket_ = "tally-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  door->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!door->wake_) return fail(ErrorCode::kSystem, "no eventfd for the memif socket " + device.socket);
  door->thread_ = std::thread([self = door.get()] { self->run(); });
  known = door;
  return door;
}

MemifDoor::~MemifDoor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  for (Visit& visit : visits_) {
    end(visit);
    visit.driver.abandon();  // as in end(); the process is about to close it
  }
  if (!path_.empty()) unlink(path_.c_str());
}

void MemifDoor::wake() const noexcept { static_cast<void>(eventfd_write(wake_.get(), 1)); }

bool MemifDoor::has(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return interfaces_.contains(id);
}

void MemifDoor::admit(std::uint32_t id, std::uint16_t port, std::uint16_t receive_queues,
                      std::uint16_t transmit_queues) {
  const std::lock_guard lock(mutex_);
  PortGate::of(port).guard(true);
  interfaces_[id] = {port, receive_queues, transmit_queues};
}

void MemifDoor::dismiss(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto it = interfaces_.find(id);
  if (it == interfaces_.end()) return;
  for (Visit& visit : visits_)
    if (visit.connected && visit.id == id) end(visit);
  PortGate::of(it->second.port).close();
  interfaces_.erase(it);
  wake();
}

void MemifDoor::run() {
  std::unique_lock lock(mutex_);
  std::vector<pollfd> fds;
  while (!stop_) {
    // One at a time until the driver has greeted it: its own queue holds one, and connect() must not wait.
    const bool at_ease = std::ranges::all_of(visits_, &Visit::greeted) && visits_.size() < kMostVisits &&
                         !std::exchange(out_of_descriptors_, false);
    const bool somebody_waits = end_stragglers() || !at_ease;
    fds.assign({{at_ease ? listener_.get() : -1, POLLIN, 0}, {wake_.get(), POLLIN, 0}});
    for (const Visit& visit : visits_) {
      fds.push_back({visit.worker.get(), POLLIN, 0});
      fds.push_back({visit.driver.get(), POLLIN, 0});
    }
    lock.unlock();
    const int ready = poll(fds.data(), fds.size(), somebody_waits ? kLookAgainMs : -1);
    lock.lock();
    if (ready < 0) continue;
    eventfd_t ignored = 0;
    static_cast<void>(eventfd_read(wake_.get(), &ignored));
    // Nobody else adds or removes visits. What a visit has is read without waiting, so a stale sign is fine.
    for (auto visit = visits_.begin(); visit != visits_.end();)
      visit = from_driver(*visit) && from_worker(*visit) ? std::next(visit) : visits_.erase(visit);
    if ((fds[0].revents & POLLIN) != 0) accept_worker();
  }
}

void MemifDoor::accept_worker() {
  Visit visit;
  visit.worker.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  out_of_descriptors_ = !visit.worker && (errno == EMFILE || errno == ENFILE);
  if (!visit.worker) return;
  visit.since = std::chrono::steady_clock::now();
  const MemifAddress driver(driver_socket_, true);
  visit.driver = memif_socket();
  if (!visit.driver || connect(visit.driver.get(), driver.raw(), driver.bytes()) != 0) return;
  visits_.push_back(std::move(visit));
}

bool MemifDoor::from_worker(Visit& visit) {
  for (int n = 0; visit.worker && n < kMessagesAtOnce; ++n) {
    MemifMessage message;
    const MemifReceived received = receive_memif(visit.worker.get(), message);
    if (received == MemifReceived::kNothing) break;
    if (received == MemifReceived::kEnd || !take(visit, std::move(message))) end(visit);
  }
  return static_cast<bool>(visit.driver);  // without a worker it waits for the driver's word
}

// A worker is silent from the moment it asks to be connected: whatever it says then, and its end, ends the
// visit.
bool MemifDoor::take(Visit& visit, MemifMessage message) {
  if (visit.asked) return false;
  switch (message.type()) {
    case MemifType::kInit:
      if (std::exchange(visit.introduced, true)) return false;
      visit.id = message.interface_id();
      message.fd.reset();
      return send_memif(visit.driver.get(), message);
    case MemifType::kAddRegion:
    case MemifType::kAddRing:
      return visit.introduced && hold(visit, std::move(message));
    case MemifType::kConnect:
      message.fd.reset();
      return visit.introduced && ask(visit, message);
    default:
      return message.type() == MemifType::kAck;  // of our greeting, says nothing
  }
}

bool MemifDoor::hold(Visit& visit, MemifMessage message) {
  if (visit.held.size() == kMostHeld) return false;
  if (const std::string_view fault = fault_of(message); !fault.empty()) {
    send_memif(visit.worker.get(), memif_disconnect(fault));
    return false;
  }
  if (message.type() == MemifType::kAddRegion) {
    if (message.region().index != visit.regions.size()) return false;
    visit.regions.push_back(message.region().bytes);
  } else {
    const MemifMessage::Ring ring = message.ring();
    std::uint64_t& rings = message.ring_to_server() ? visit.to_server : visit.to_client;
    if (ring.index >= 64 || (rings >> ring.index & 1U) != 0 || ring.region >= visit.regions.size() ||
        ring.log2_size > kMostLog2 || ring.end_byte > visit.regions[ring.region])
      return false;
    rings |= std::uint64_t{1} << ring.index;
  }
  visit.held.push_back(std::move(message));
  return send_memif(visit.worker.get(), memif_ack());
}

bool MemifDoor::ask(Visit& visit, const MemifMessage& message) {
  if (!checked(visit)) return false;
  for (const MemifMessage& held : visit.held)
    if (!send_memif(visit.driver.get(), held)) return false;
  visit.own_acks = visit.held.size();
  visit.held.clear();
  visit.asked = send_memif(visit.driver.get(), message);
  return visit.asked;
}

bool MemifDoor::from_driver(Visit& visit) {
  while (visit.driver) {
    MemifMessage message;
    const MemifReceived received = receive_memif(visit.driver.get(), message);
    if (received == MemifReceived::kNothing) return true;
    visit.greeted = true;
    if (received == MemifReceived::kMessage && message.type() == MemifType::kAck && visit.own_acks != 0) {
      --visit.own_acks;
      continue;
    }
    visit.answered |= received == MemifReceived::kEnd || message.type() == MemifType::kConnected;
    bool go_on = received == MemifReceived::kMessage && static_cast<bool>(visit.worker);
    if (go_on && message.type() == MemifType::kConnected) {
      const auto it = interfaces_.find(visit.id);
      visit.connected = go_on = it != interfaces_.end() && visit.asked;
      if (go_on) PortGate::of(it->second.port).open();
    }
    if (go_on) go_on = send_memif(visit.worker.get(), message);
    if (!go_on) end(visit);
  }
  return false;
}

// Whether both ends have the same rings: with fewer the server would use some that do not exist.
bool MemifDoor::checked(Visit& visit) {
  const auto it = interfaces_.find(visit.id);
  if (it == interfaces_.end()) return false;
  const Interface& here = it->second;
  const int to_server = std::popcount(visit.to_server);
  const int to_client = std::popcount(visit.to_client);
  if (visit.to_server == first_bits(here.receive_queues) &&
      visit.to_client == first_bits(here.transmit_queues))
    return true;
  send_memif(visit.worker.get(),
             memif_disconnect("the port has " + std::to_string(here.receive_queues) + " queues to it and " +
                              std::to_string(here.transmit_queues) + " from it, you have " +
                              std::to_string(to_server) + " and " + std::to_string(to_client)));
  return false;
}

// First the data threads leave, then the driver may see the end.
void MemifDoor::end(Visit& visit) {
  if (visit.connected) {
    if (const auto it = interfaces_.find(visit.id); it != interfaces_.end())
      PortGate::of(it->second.port).close();
    visit.connected = false;
  }
  visit.worker.reset();
  // Before its greeting, and between CONNECT and its answer, the driver must not find the connection closed.
  if (visit.greeted && (!visit.asked || visit.answered)) visit.driver.reset();
}

// Who does not come to the point keeps others out. True: somebody is still on the way.
bool MemifDoor::end_stragglers() {
  bool some = false;
  const auto now = std::chrono::steady_clock::now();
  for (Visit& visit : visits_) {
    if (visit.connected || !visit.worker) continue;
    if (now > visit.since + kPatience) end(visit);
    some = true;
  }
  return some;
}

}  // namespace tally::dpdk
