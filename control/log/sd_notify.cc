#include "log/sd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace tally::log {
namespace {

constexpr std::uint64_t kPingsPerPatience = 4;

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// The environment may have been inherited from a process that is watched itself.
bool meant_for_us() {
  const auto pid = number_from("WATCHDOG_PID");
  return !pid || *pid == static_cast<std::uint64_t>(getpid());
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return manager;
  manager.address_ = name;
  if (manager.address_.size() >= sizeof(sockaddr_un::sun_path)) return manager;
  if (manager.address_[0] == '@') manager.address_[0] = '\0';
  manager.socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto patience = number_from("WATCHDOG_USEC");
  if (patience && meant_for_us()) manager.watchdog_ = *patience * kMicrosecond / kPingsPerPatience;
  return manager;
}

// Never waits: a manager that does not read its socket must not stop the control thread.
void ServiceManager::send(const std::string& message) const noexcept {
  if (!socket_) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  (void)sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&to), bytes);
}

void ServiceManager::ready(std::string_view status) const noexcept {
  send("READY=1\nSTATUS=" + std::string(status));
}
void ServiceManager::stopping(std::string_view status) const noexcept {
  send("STOPPING=1\nSTATUS=" + std::string(status));
}
void ServiceManager::status(std::string_view text) const noexcept { send("STATUS=" + std::string(text)); }
void ServiceManager::alive() const noexcept { send("WATCHDOG=1"); }

}  // namespace tally::log
