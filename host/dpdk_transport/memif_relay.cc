#include "dpdk_transport/memif_relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "dpdk/memif_message.h"
#include "random/random.h"

namespace tally::dpdk_transport {
namespace {

constexpr std::size_t kReasonAt = 6;  // in DISCONNECT: u16 type, u32 code, then text

std::string reason_of(const dpdk::MemifMessage& message) {
  const auto* text = reinterpret_cast<const char*>(message.bytes.data()) + kReasonAt;
  return {text, strnlen(text, dpdk::MemifMessage::kBytes - kReasonAt)};
}

std::string advice(const std::string& reason) {
  if (reason == "ID not found") return "no port in the daemon's configuration has this id on this socket";
  if (reason == "Already connected") return "another worker uses this id, or has just gone";
  if (reason == "Invalid ring index") return "the daemon's port has fewer queues than this worker's queues=";
  if (reason.starts_with("the port has")) return "say so with queues=";
  return "see the daemon's log";
}

}  // namespace

Result<std::unique_ptr<MemifRelay>> MemifRelay::create(std::string daemon, bool abstract) {
  std::unique_ptr<MemifRelay> relay(new MemifRelay);
  relay->daemon_name_ = std::move(daemon);
  relay->abstract_ = abstract;
  relay->private_name_ = "tally-worker-" + std::to_string(getpid()) + "-" + std::to_string(random::word());
  relay->listener_ = dpdk::memif_socket();
  const dpdk::MemifAddress own(relay->private_name_, true);
  if (!relay->listener_ || bind(relay->listener_.get(), own.raw(), own.bytes()) != 0 ||
      listen(relay->listener_.get(), 4) != 0) {
    return system_failure("memif: no socket of our own; raise the limit of open files (ulimit -n)", errno);
  }
  return relay;
}

void MemifRelay::refused(int error) {
  why_ = "nobody answers at memif socket " + daemon_name_ + ": " + std::generic_category().message(error);
  if (error == EACCES) why_ += "; run as a user who may write that file, as the daemon's owner does";
  if (error == ENOENT || error == ECONNREFUSED)
    why_ += "; is tallyd running, and is its port on this socket?";
}

void MemifRelay::hang_up() noexcept {
  if (daemon_) shutdown(daemon_.get(), SHUT_RDWR);
  daemon_.reset();
}

bool MemifRelay::call_daemon() {
  hang_up();
  involved_ = false;
  introduced_ = false;
  accept_driver();
  UniqueFd fd = dpdk::memif_socket();
  const dpdk::MemifAddress there(daemon_name_, abstract_);
  if (!fd || connect(fd.get(), there.raw(), there.bytes()) != 0) {
    refused(errno);
    return false;
  }
  daemon_ = std::move(fd);
  return true;
}

void MemifRelay::new_driver() noexcept {
  driver_.reset();
  involved_ = false;
  introduced_ = false;
  accept_driver();
}

void MemifRelay::accept_driver() noexcept {
  // All that wait: a start that failed half-way leaves a dead connection before the one that counts.
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == getpid())
      driver_ = std::move(fd);
  }
}

MemifRelay::Moved MemifRelay::from_daemon() {
  dpdk::MemifMessage message;
  const dpdk::MemifReceived got = dpdk::receive_memif(daemon_.get(), message);
  if (got == dpdk::MemifReceived::kNothing) return Moved::kNothing;
  if (got == dpdk::MemifReceived::kEnd) {
    why_ = "the daemon at memif socket " + daemon_name_ + " has gone";
    return Moved::kEnd;
  }
  if (message.type() == dpdk::MemifType::kDisconnect) {
    const std::string reason = reason_of(message);
    why_ = "the daemon at memif socket " + daemon_name_ + " hung up: " + reason + " (" + advice(reason) + ")";
    return Moved::kEnd;
  }
  involved_ = true;
  if (!dpdk::send_memif(driver_.get(), message)) return Moved::kEnd;
  if (message.type() == dpdk::MemifType::kConnected) {
    introduced_ = true;
    why_.clear();
  }
  return Moved::kMessage;
}

MemifRelay::Moved MemifRelay::from_driver() {
  dpdk::MemifMessage message;
  const dpdk::MemifReceived got = dpdk::receive_memif(driver_.get(), message);
  if (got == dpdk::MemifReceived::kNothing) return Moved::kNothing;
  if (got == dpdk::MemifReceived::kEnd || message.type() == dpdk::MemifType::kDisconnect) {
    why_ = "memif's driver gave up: " +
           (got == dpdk::MemifReceived::kMessage ? reason_of(message) : "no memory for its rings?");
    driver_.reset();
    involved_ = true;  // only a restart makes it call again
    return Moved::kEnd;
  }
  return dpdk::send_memif(daemon_.get(), message) ? Moved::kMessage : Moved::kEnd;
}

bool MemifRelay::pump() {
  if (!daemon_) return false;
  accept_driver();
  if (!driver_) return true;
  Moved down = Moved::kMessage;
  Moved up = Moved::kMessage;
  while (down == Moved::kMessage || up == Moved::kMessage) {
    down = from_daemon();
    if (down == Moved::kEnd) break;
    up = from_driver();
    if (up == Moved::kEnd) break;
  }
  if (down != Moved::kEnd && up != Moved::kEnd) return true;
  hang_up();
  return false;
}

}  // namespace tally::dpdk_transport
