#include "client/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "text/text.h"

namespace tally::client {
namespace {

constexpr const char* kDirectory = "/run/tally";
constexpr std::chrono::milliseconds kGlance{200};
constexpr std::size_t kLongestAnswer = std::size_t{64} << 20U;

using Clock = std::chrono::steady_clock;

std::string reason(int error) { return std::generic_category().message(error); }

tl::unexpected<Trouble> trouble(Fault fault, std::string text) {
  return tl::unexpected<Trouble>(Trouble{fault, std::move(text)});
}

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// errno; 0: connected.
int connect_to(const UniqueFd& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                                   : errno;
}

// A full queue of a daemon that hangs is waited for so long.
tl::expected<UniqueFd, Trouble> new_socket(std::chrono::milliseconds patience) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return trouble(Fault::kUnreachable, "this process cannot open a socket: " + reason(errno));
  const timeval time{patience.count() / 1000, patience.count() % 1000 * 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  return socket;
}

// Sockets where somebody listens, would if we were let in, or hangs. Those of memif are of another type.
tl::expected<std::vector<std::string>, Trouble> daemons_here() {
  std::vector<std::string> found;
  std::error_code error;
  const std::filesystem::directory_iterator entries(kDirectory, error);
  if (error && error != std::errc::no_such_file_or_directory)
    return trouble(Fault::kUnreachable, std::string("cannot look into ") + kDirectory + ": " + error.message());
  for (const auto& entry : entries) {
    const std::string path = entry.path().string();
    const auto address = address_of(path);
    if (!address || !entry.is_socket(error)) continue;
    const auto socket = new_socket(kGlance);
    if (!socket) return tl::unexpected<Trouble>(socket.error());
    const int no = connect_to(*socket, *address);
    if (no == 0 || no == EACCES || no == EAGAIN) found.push_back(path);
  }
  return found;
}

bool wait_for(int descriptor, short what, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd one{descriptor, what, 0};
    constexpr std::int64_t kMost = 3'600'000;  // poll() takes an int
    const int ready = ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kMost)));
    if (ready > 0) return true;
    if (ready < 0 ? errno != EINTR : left <= kMost) return false;
  }
}

// Who may, what would be right, what was meant: the parts of an error's data that a sentence can have.
std::string details_of(const Json& data, const std::string& message) {
  if (!data.is_object()) return {};
  std::string out;
  if (const auto want = data.find("want"); want != data.end() && want->is_string()) {
    const auto& words = want->get_ref<const std::string&>();
    if (message.find(words) == std::string::npos) out += " (wanted: " + words + ")";
  }
  if (const auto jobs = data.find("jobs");
      jobs != data.end() && jobs->is_array() && !data.contains("nearest")) {
    std::vector<std::string> names;
    for (const Json& name : *jobs) names.push_back(name.is_string() ? name.get<std::string>() : "?");
    out += names.empty() ? "; there is none at all" : "; there are " + text::listed(names);
  }
  return out;
}

}  // namespace

tl::expected<std::string, Trouble> find_socket(const std::string& socket, const std::string& instance) {
  if (!socket.empty()) return socket;
  if (!instance.empty()) return std::string(kDirectory) + "/" + instance + ".sock";
  const auto found = daemons_here();
  if (!found) return tl::unexpected<Trouble>(found.error());
  if (found->size() == 1) return found->front();
  if (found->empty())
    return trouble(Fault::kUnreachable, std::string("no tallyd listens in ") + kDirectory +
                                            ": is one running? Name its control.socket with --socket PATH");
  return trouble(Fault::kUnreachable, "several daemons listen here: " + text::listed(*found) +
                                          "; say which with --socket PATH or --instance NAME");
}

tl::expected<Connection, Trouble> Connection::open(const std::string& path,
                                                   std::chrono::milliseconds timeout) {
  const auto address = address_of(path);
  if (!address)
    return trouble(Fault::kUsage,
                   text::in_quotes(text::cleaned(path)) + " is too long, or empty, for a socket's path");
  auto socket = new_socket(timeout);
  if (!socket) return tl::unexpected<Trouble>(std::move(socket.error()));
  const int error = connect_to(*socket, *address);
  const std::string what = "cannot reach a tallyd at " + text::cleaned(path) + ": ";
  if (error == 0) return Connection(std::move(*socket), path, timeout);
  if (error == ENOENT)
    return trouble(Fault::kUnreachable,
                   what + "there is no such socket: is tallyd running, is this its control.socket?");
  std::error_code ignored;
  if (error == ECONNREFUSED && !std::filesystem::is_socket(path, ignored))
    return trouble(Fault::kUnreachable, what + "it is no socket: name the daemon's control.socket");
  if (error == ECONNREFUSED)
    return trouble(Fault::kUnreachable, what + "nobody listens there any more: start tallyd");
  if (error == EPROTOTYPE)
    return trouble(Fault::kUnreachable, what + "it is another socket, perhaps one of memif");
  if (error == EACCES)
    return trouble(Fault::kNotPermitted,
                   what +
                       "you may not open it: be its owner, of its group or root (control.access, "
                       "control.group)");
  if (error == EAGAIN)
    return trouble(Fault::kUnreachable, what + "it is there and takes nobody: it may hang");
  return trouble(Fault::kUnreachable, what + reason(error));
}

tl::unexpected<Trouble> Connection::silent(const std::string& how) const {
  return trouble(Fault::kUnreachable, "the tallyd at " + text::cleaned(path_) + " " + how);
}

tl::expected<void, Trouble> Connection::send(std::string_view line) {
  const auto until = Clock::now() + timeout_;
  while (!line.empty()) {
    if (!wait_for(socket_.get(), POLLOUT, until)) return silent("does not read what we ask");
    const ssize_t sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // It sends away whom it cannot serve, and says why before that.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
    if (sent < 0) return silent("has closed the connection: " + reason(errno));
    line.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

tl::expected<std::string, Trouble> Connection::receive(std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  std::array<char, 65536> buffer{};
  std::size_t looked = 0;
  for (;;) {
    if (const auto end = in_.find('\n', looked); end != std::string::npos) {
      std::string line = in_.substr(0, end);
      in_.erase(0, end + 1);
      return line;
    }
    looked = in_.size();
    if (looked > kLongestAnswer) return silent("does not come to an end");
    if (!wait_for(socket_.get(), POLLIN, until))
      return silent("does not answer within " + text::fixed(static_cast<double>(timeout_.count()) / 1000, 1) +
                    " s");
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return silent("has closed the connection");
    in_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

tl::expected<Json, Trouble> Connection::call(const std::string& method, const Json& parameters) {
  const Json request{{"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", parameters}};
  // Arguments of the command line may be anything; the daemon says what is wrong with what is no UTF-8.
  const std::string line = request.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (auto sent = send(line); !sent) return tl::unexpected<Trouble>(std::move(sent.error()));
  const auto answer = receive(timeout_);
  if (!answer) return tl::unexpected<Trouble>(answer.error());
  return read_answer(*answer, id_);
}

tl::expected<Json, Trouble> Connection::next_event() {
  constexpr std::chrono::hours kForEver{24 * 365};
  const auto line = receive(kForEver);
  if (!line) return tl::unexpected<Trouble>(line.error());
  const Json event = Json::parse(*line, nullptr, false);
  if (!event.is_object() || event.value("method", Json()) != "event" || !event.contains("params"))
    return trouble(Fault::kUnreachable, "what answers there is no tallyd");
  return event["params"];
}

tl::expected<Json, Trouble> read_answer(std::string_view line, std::uint64_t id) {
  constexpr int kNotPermittedCode = -32001;
  constexpr int kConfigurationCode = -32012;
  const Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object()) return trouble(Fault::kUnreachable, "what answers there is no tallyd");
  if (const auto error = answer.find("error"); error != answer.end() && error->is_object()) {
    const Json code = error->value("code", Json());
    const Json said = error->value("message", Json());
    const Json data = error->value("data", Json());
    const std::string message = said.is_string() ? said.get<std::string>() : "an error without words";
    Trouble t{Fault::kRefused, text::cleaned(message + details_of(data, message)), data};
    if (code.is_number_integer()) t.code = code.get<int>();
    if (code == kNotPermittedCode) t.fault = Fault::kNotPermitted;
    if (code == kConfigurationCode) t.fault = Fault::kErrors;
    return tl::unexpected<Trouble>(std::move(t));
  }
  const auto result = answer.find("result");
  if (result == answer.end() || answer.value("id", Json()) != id)
    return trouble(Fault::kUnreachable,
                   "the answer is not to what was asked: what answers there is no tallyd");
  return *result;
}

}  // namespace tally::client
