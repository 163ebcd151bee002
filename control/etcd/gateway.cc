#include "etcd/gateway.h"

#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "text/text.h"

namespace tally::etcd {
namespace {

using fleet::Fault;
using fleet::StoreError;

constexpr int kOk = 200;  // of HTTP
constexpr TimeNs kConnect = 2 * kSecond;
// A watch that hears nothing for so long is asked for again: its server may be there and yet stand still.
constexpr TimeNs kSilence = 20 * kSecond;
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20U;

void set(int socket, int level, int name, int value) noexcept {
  (void)::setsockopt(socket, level, name, &value, sizeof value);
}

// A peer that went without a word is found out in some ten seconds.
void set_socket(int socket) noexcept {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

// Of a server that closes the connection. What it lacks it says to nobody, so who never had an answer is told what that may be.
std::string closed_text(const std::string& endpoint, const std::string& certificate, bool ever) {
  std::string out = endpoint + " closes the connection without an answer";
  if (ever) return out;
  if (!is_encrypted(endpoint)) return out + "; if it speaks TLS, write https:// and the CA";
  return out + (certificate.empty() ? "; it may ask for a certificate: fleet.cert and fleet.key"
                                    : "; the CA that it trusts may not vouch for " + certificate);
}

std::string seconds_text(TimeNs time) { return text::fixed(static_cast<double>(time) / 1e9, 1) + " s"; }

}  // namespace

struct Gateway::Sent {
  int status = 0;  // of HTTP; 0: no answer, and `trouble` says why
  std::string body{};
  std::string trouble{};
  bool perhaps = false;  // it may have arrived all the same
};

Gateway::Gateway(const Settings& settings, Choice& choice) : settings_(settings), choice_(choice) {}
Gateway::~Gateway() = default;

void Gateway::stop() noexcept {
  stopped_.store(true, std::memory_order_release);
  std::shared_ptr<httplib::Client> client;
  {
    const std::lock_guard lock(mutex_);
    client = client_;
  }
  if (client) client->stop();
}

std::shared_ptr<httplib::Client> Gateway::client_of(std::size_t server) {
  if (client_ && server == server_) return client_;
  const std::string& endpoint = settings_.endpoints[server];
  auto made = std::make_shared<httplib::Client>(endpoint, settings_.certificate, settings_.key);
  made->set_keep_alive(true);
  made->set_tcp_nodelay(true);
  made->set_socket_options(set_socket);
  if (is_encrypted(endpoint)) {
    if (!settings_.ca.empty()) made->set_ca_cert_path(settings_.ca);
    made->enable_server_certificate_verification(true);
  }
  std::shared_ptr<httplib::Client> old;  // closes its connection behind the lock
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(client_, made);
  }
  server_ = server;
  answered_ = false;
  token_.clear();  // one server need not know another's
  return made;
}

// line: of a stream.
Gateway::Sent Gateway::post(const Call& call, TimeNs deadline, const TakeLine* line) {
  Sent sent;
  const std::size_t server = choice_.now();
  const std::string& endpoint = settings_.endpoints[server];
  const TimeNs begun = steady_now();
  if (stopped_.load(std::memory_order_acquire) || begun >= deadline) {
    sent.trouble = "no answer from " + endpoint + " in time";
    return sent;
  }
  const auto client = client_of(server);
  if (is_encrypted(endpoint) && !settings_.ca.empty() && ::access(settings_.ca.c_str(), R_OK) != 0) {
    sent.trouble = "the certificates of " + settings_.ca + " cannot be read";
    return sent;
  }
  if (!client->is_valid()) {
    sent.trouble = "the client's certificate and key, " + settings_.certificate + " and " + settings_.key +
                   ", cannot be used";
    return sent;
  }
  const TimeNs patience = std::max(deadline - begun, kMillisecond);
  client->set_connection_timeout(std::chrono::nanoseconds(std::min(patience, kConnect)));
  client->set_read_timeout(std::chrono::nanoseconds(line != nullptr ? kSilence : patience));
  client->set_write_timeout(std::chrono::nanoseconds(patience));

  httplib::Request request;
  request.method = "POST";
  request.path = call.path;
  request.body = call.body;
  request.set_header("Content-Type", "application/json");
  if (!token_.empty()) request.set_header("Authorization", token_);
  bool too_much = false;
  bool ended = false;  // by the one who takes the lines
  int status = 0;
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    answered_ = true;
    return true;
  };
  request.content_receiver = [&](const char* data, std::size_t length, std::uint64_t, std::uint64_t) {
    if (stopped_.load(std::memory_order_acquire)) return false;
    sent.body.append(data, length);
    too_much = sent.body.size() > kMostAnswerBytes;
    if (line == nullptr || status != kOk) return !too_much && (line != nullptr || steady_now() < deadline);
    std::size_t from = 0;
    for (std::size_t end = 0; !ended && (end = sent.body.find('\n', from)) != std::string::npos;
         from = end + 1)
      ended = !(*line)(std::string_view(sent.body).substr(from, end - from));
    sent.body.erase(0, from);
    return !ended && sent.body.size() <= kMostAnswerBytes;
  };
  httplib::Response response;
  auto error = httplib::Error::Success;
  const bool whole = client->send(request, response, error);
  // Answers that are errors end in a way that this library does not take for an end (a trailer behind the last chunk);
  // whether what came is whole its JSON tells.
  if (whole || (status != 0 && status != kOk)) {
    sent.status = status;
    return sent;
  }
  if (line != nullptr && status == kOk) {
    sent.trouble = ended ? "" : "the connection to " + endpoint + " ended";
    return sent;
  }
  const TimeNs took = steady_now() - begun;
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      sent.trouble = "no connection to " + endpoint;
      break;
    case httplib::Error::SSLConnection:
      sent.trouble = "no TLS with " + endpoint;
      break;
    case httplib::Error::SSLLoadingCerts:
      sent.trouble =
          "the certificates of " + (settings_.ca.empty() ? "this system" : settings_.ca) + " cannot be read";
      break;
    case httplib::Error::SSLServerVerification:
      sent.trouble = "the certificate of " + endpoint + " is of nobody that " +
                     (settings_.ca.empty() ? "this system" : settings_.ca) +
                     " vouches for, or of another name";
      break;
    default:
      sent.trouble = too_much ? "the answer of " + endpoint + " is too large"
                     : took > patience - patience / 8
                         ? "no answer from " + endpoint + " within " + seconds_text(took)
                         : closed_text(endpoint, settings_.certificate, answered_);
      sent.perhaps = true;
      break;
  }
  return sent;
}

std::unique_ptr<StoreError> Gateway::show_who(TimeNs deadline) {
  // A token is of one server; whose turn it is decides.
  (void)client_of(choice_.now());
  if (settings_.user.empty() || !token_.empty() || no_auth_) return nullptr;
  auto password = read_password(settings_.password_file);
  if (!password)
    return std::make_unique<StoreError>(StoreError{Fault::kRefused, password.error().what, false});
  const Sent sent = post(authentication(settings_.user, *password), deadline, nullptr);
  if (sent.status == kOk) {
    if (auto token = read_token(sent.body)) {
      token_ = std::move(*token);
      return nullptr;
    }
    return std::make_unique<StoreError>(
        StoreError{Fault::kUnreachable, "etcd's token is not understood", false});
  }
  if (sent.status == 0)
    return std::make_unique<StoreError>(StoreError{Fault::kUnreachable, sent.trouble, false});
  Refusal refusal = read_refusal(sent.status, sent.body);
  if (refusal.kind == Refusal::Kind::kNoAuth) {
    no_auth_ = true;
    return nullptr;
  }
  refusal.error.perhaps = false;
  return std::make_unique<StoreError>(std::move(refusal.error));
}

// An error without a text: the reply is there.
StoreError Gateway::try_once(const fleet::Request& request, const Call& call, TimeNs deadline,
                             fleet::Reply& reply, bool& renewed) {
  for (;;) {
    if (const auto error = show_who(deadline)) return *error;
    Sent sent = post(call, deadline, nullptr);
    if (sent.status == 0) return {Fault::kUnreachable, std::move(sent.trouble), sent.perhaps};
    if (sent.status != kOk) {
      Refusal refusal = read_refusal(sent.status, sent.body);
      if (refusal.kind == Refusal::Kind::kNoToken && !settings_.user.empty() &&
          !std::exchange(renewed, true)) {
        token_.clear();
        no_auth_ = false;
        continue;
      }
      return std::move(refusal.error);
    }
    auto read = read_reply(request, sent.body);
    if (!read)
      return {Fault::kUnreachable, "the answer of " + settings_.endpoints[server_] + " is not understood",
              true};
    reply = std::move(*read);
    return {};
  }
}

fleet::StoreResult Gateway::ask(const fleet::Request& request, TimeNs deadline) {
  const Call call = call_of(request);
  const std::size_t servers = settings_.endpoints.size();
  StoreError all{Fault::kUnreachable, "", false};
  bool renewed = false;
  for (std::size_t tried = 0; tried < servers; ++tried) {
    const TimeNs now = steady_now();
    if (now >= deadline || stopped_.load(std::memory_order_acquire)) break;
    // One that stands still leaves time for another.
    const TimeNs until = tried + 1 < servers ? now + (deadline - now) / 2 : deadline;
    const std::size_t server = choice_.now();
    fleet::Reply reply;
    StoreError error = try_once(request, call, until, reply, renewed);
    if (error.text.empty()) return reply;
    if (error.fault != Fault::kUnreachable) return tl::unexpected(std::move(error));
    choice_.failed(server);
    all.text += (all.text.empty() ? "" : "; ") + error.text;
    all.perhaps = error.perhaps;
    if (error.perhaps && !is_repeatable(request)) break;
  }
  if (all.text.empty()) all.text = "no answer came in time";
  return tl::unexpected(std::move(all));
}

std::string Gateway::stream(const Call& call, const TakeLine& line) {
  const std::size_t server = choice_.now();
  if (const auto error = show_who(steady_now() + kConnect)) {
    if (error->fault == Fault::kUnreachable) choice_.failed(server);
    return error->text;
  }
  bool heard = false;
  const TakeLine take = [&](std::string_view text) {
    heard = true;
    return line(text);
  };
  const Sent sent = post(call, steady_now() + kSilence, &take);
  if (sent.status != 0 && sent.status != kOk) {
    const Refusal refusal = read_refusal(sent.status, sent.body);
    if (refusal.kind == Refusal::Kind::kNoToken) {
      token_.clear();
      no_auth_ = false;
    }
    return refusal.error.text;
  }
  if (!heard) choice_.failed(server);
  return sent.trouble;
}

}  // namespace tally::etcd
