#include "daemon/control_server.h"

#include <array>
#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <optional>
#include <string_view>
#include <utility>

#include "api/events.h"

namespace tally::daemon {
namespace {

using Stream = asio::local::stream_protocol;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 4096;
constexpr auto kSweep = std::chrono::seconds(1);
constexpr auto kAfterTrouble = std::chrono::milliseconds(100);  // accept() fails: no descriptors are left

}  // namespace

class ControlServer::Hall : public std::enable_shared_from_this<Hall> {
 public:
  Hall(asio::io_context& io, ControlSocket socket, api::Box& box, LogSink log, ControlLimits limits)
      : io_(io),
        acceptor_(io),
        sweeper_(io),
        pause_(io),
        breather_(io),
        socket_(std::move(socket)),
        box_(box),
        log_(std::move(log)),
        limits_(limits) {
    UniqueFd descriptor = socket_->take();
    acceptor_.assign(Stream(), descriptor.get());
    descriptor.abandon();
  }

  void open() {
    accept();
    sweep();
  }

  // What waits comes back and finds it closed; a timer holds it for a second at most.
  void close() noexcept {
    open_ = false;
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const ClientPtr& client : clients_) client->socket.close(ignored);
    clients_.clear();
    socket_.reset();
  }

  [[nodiscard]] std::size_t clients() const noexcept { return clients_.size(); }
  [[nodiscard]] std::size_t followers() const noexcept { return followers_; }

  void tell(const std::string& line) {
    if (followers_ == 0) return;
    const std::list<ClientPtr> all = clients_;  // one that has gone is dropped on the way
    for (const ClientPtr& client : all) {
      if (!client->follows) continue;
      if (client->events.size() < limits_.events)
        client->events.push_back(line);
      else
        ++client->lost;
      flush(client);
    }
  }

 private:
  struct Client {
    Client(Stream::socket connection, api::Caller who)
        : socket(std::move(connection)), caller(std::move(who)) {}

    Stream::socket socket;
    api::Caller caller;
    std::string in{};    // what has come and is not answered: at most a line and kReadBytes
    std::string out{};   // is being written
    std::string next{};  // is written after it: an answer, or a piece of one
    std::optional<api::LongAnswer> rest{};  // of the answer
    std::deque<std::string> events{};       // wait until no answer is under way
    std::uint64_t lost = 0;                 // events that found too many waiting
    std::array<char, kReadBytes> buffer{};
    bool writing = false;
    bool answering = false;  // an answer has begun and is not written
    bool follows = false;
    bool last = false;      // nothing is read after this answer
    bool said_all = false;  // its end was read, which asio tells once
    Clock::time_point alive = Clock::now();
  };
  using ClientPtr = std::shared_ptr<Client>;

  void accept() {
    acceptor_.async_accept(
        [self = shared_from_this()](const asio::error_code& error, Stream::socket connection) {
          if (!self->open_) return;
          if (error) return self->accept_later();
          self->welcome(std::move(connection));
          self->accept();
        });
  }

  void accept_later() {
    pause_.expires_after(kAfterTrouble);
    pause_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && self->open_) self->accept();
    });
  }

  void welcome(Stream::socket connection) {
    asio::error_code error;
    connection.non_blocking(true, error);
    api::Caller caller = socket_->caller_at(connection.native_handle());
    const std::size_t most = limits_.clients + (caller.may_change ? limits_.reserved : 0);
    const auto client = std::make_shared<Client>(std::move(connection), std::move(caller));
    if (clients_.size() < most) {
      clients_.push_back(client);
      return read(client);
    }
    if (told_.take(steady_now()))
      log_(LogLevel::kWarning, "control: more than " + std::to_string(limits_.clients) +
                                   " clients at once; those beyond are sent away");
    client->last = true;
    say(client,
        api::failure_line({}, {api::Code::kBusy,
                               "the daemon serves " + std::to_string(clients_.size()) + " clients already",
                               {{"want", "come back later"}}}));
  }

  void read(const ClientPtr& client) {
    client->socket.async_read_some(
        asio::buffer(client->buffer),
        [self = shared_from_this(), client](const asio::error_code& error, std::size_t n) {
          if (!self->open_) return;
          if (error && (error != asio::error::eof || client->in.empty())) return self->drop(client);
          client->in.append(client->buffer.data(), n);
          if (error) {
            client->in += '\n';  // the last line may lack its end
            client->said_all = true;
          }
          self->look(client);
        });
  }

  // A whole line waits for its turn; a piece of one, for more.
  void look(const ClientPtr& client) {
    if (client->in.find('\n') == std::string::npos && client->in.size() <= api::kMaxRequestBytes)
      return client->said_all ? drop(client) : read(client);
    waiting_.push_back(client);
    serve_soon();
  }

  void serve_soon() {
    if (due_ || waiting_.empty()) return;
    due_ = true;
    auto next = [self = shared_from_this()](const asio::error_code& error = {}) {
      self->due_ = false;
      if (!error && self->open_) self->serve();
    };
    if (spent_ < std::chrono::nanoseconds(limits_.dear)) return asio::post(io_, std::move(next));
    breather_.expires_after(std::exchange(spent_, {}));
    breather_.async_wait(std::move(next));
  }

  // One request. Between two of these calls the event loop looks at timers and signals.
  void serve() {
    const ClientPtr client = std::move(waiting_.front());
    waiting_.pop_front();
    const auto begun = Clock::now();
    if (client->socket.is_open()) client->rest ? go_on(client) : answer(client);
    spent_ += Clock::now() - begun;
    serve_soon();
  }

  void answer(const ClientPtr& client) {
    const std::size_t end = client->in.find('\n');
    client->last = end == std::string::npos;  // too long: where the next one begins is not known
    std::string_view line(client->in.data(), client->last ? client->in.size() : end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string request(line);
    client->in.erase(0, client->last ? client->in.size() : end + 1);
    client->alive = Clock::now();
    if (request.empty()) return look(client);
    // It is not read until the answer is there, which may wait for the disk. What happens meanwhile is told.
    api::answer(request, client->caller, box_, TALLY_VERSION,
                [self = shared_from_this(), client](api::Reply reply) {
                  if (self->open_ && client->socket.is_open()) self->take(client, std::move(reply));
                });
  }

  void take(const ClientPtr& client, api::Reply reply) {
    if (reply.follow && !std::exchange(client->follows, true)) ++followers_;
    client->rest = std::move(reply.rest);
    if (reply.text.empty()) return look(client);
    say(client, std::move(reply.text));
  }

  // The next piece of a long answer.
  void go_on(const ClientPtr& client) {
    std::string piece;
    try {
      piece = client->rest->next();
    } catch (const std::exception&) {  // no memory: half a line cannot be mended
      return drop(client);
    }
    if (piece.empty()) {
      client->rest.reset();
      piece = api::kEndOfRest;
    }
    say(client, std::move(piece));
  }

  // An answer, or a piece of one.
  void say(const ClientPtr& client, std::string text) {
    client->answering = true;
    client->next = std::move(text);
    flush(client);
  }

  // Writes what there is to write, unless something is being written.
  void flush(const ClientPtr& client) {
    if (client->writing) return;
    client->out = std::exchange(client->next, {});
    if (client->out.empty() && !client->answering) {
      for (const std::string& event : std::exchange(client->events, {})) client->out += event;
      if (const std::uint64_t lost = std::exchange(client->lost, 0)) client->out += api::lost_line(lost);
    }
    if (client->out.empty()) return;
    client->writing = true;
    client->alive = Clock::now();
    write_rest(client, 0);
  }

  void write_rest(const ClientPtr& client, std::size_t done) {
    client->socket.async_write_some(
        asio::buffer(client->out.data() + done, client->out.size() - done),
        [self = shared_from_this(), client, done](const asio::error_code& error, std::size_t n) {
          if (!self->open_) return;
          if (error) return self->drop(client);
          client->alive = Clock::now();
          if (done + n < client->out.size()) return self->write_rest(client, done + n);
          client->writing = false;
          self->written(client);
        });
  }

  void written(const ClientPtr& client) {
    if (!client->next.empty() || !client->answering) return flush(client);
    if (client->rest) {
      waiting_.push_back(client);
      return serve_soon();
    }
    client->answering = false;
    if (client->last) return drop(client);
    flush(client);
    look(client);
  }

  void drop(const ClientPtr& client) {
    asio::error_code ignored;
    client->socket.close(ignored);
    if (std::exchange(client->follows, false)) --followers_;
    clients_.remove(client);
  }

  void sweep() {
    sweeper_.expires_after(kSweep);
    sweeper_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (error || !self->open_) return;
      const auto oldest = Clock::now() - std::chrono::nanoseconds(self->limits_.idle);
      const std::list<ClientPtr> all = self->clients_;
      for (const ClientPtr& client : all) {
        const bool waits_for_us = client->follows && !client->writing;
        if (client->alive < oldest && !waits_for_us) self->drop(client);
      }
      self->sweep();
    });
  }

  asio::io_context& io_;
  Stream::acceptor acceptor_;
  asio::steady_timer sweeper_;
  asio::steady_timer pause_;
  asio::steady_timer breather_;
  std::optional<ControlSocket> socket_;  // while open
  api::Box& box_;
  LogSink log_;
  ControlLimits limits_;
  LogLimit told_{1, 60 * kSecond};
  std::list<ClientPtr> clients_{};
  std::size_t followers_ = 0;
  std::deque<ClientPtr> waiting_{};  // each has a line to be answered
  bool due_ = false;                 // serve() will be called
  Clock::duration spent_{};          // on requests, since it last waited for that
  bool open_ = true;
};

ControlServer::ControlServer(asio::io_context& io, ControlSocket socket, api::Box& box, LogSink log,
                             ControlLimits limits)
    : hall_(std::make_shared<Hall>(io, std::move(socket), box, std::move(log), limits)) {
  hall_->open();
}

ControlServer::~ControlServer() { hall_->close(); }

std::size_t ControlServer::clients() const noexcept { return hall_->clients(); }
std::size_t ControlServer::followers() const noexcept { return hall_->followers(); }
void ControlServer::tell(const std::string& line) { hall_->tell(line); }

}  // namespace tally::daemon
