#include "http/shell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "http/event_history.h"
#include "http/responses.h"
#include "http/visitor.h"

namespace tally::http {
namespace {

// Of a connection, for its request and the headers of its answer; libmicrohttpd answers 431 where it is too little.
constexpr std::size_t kMemoryBeside = 8 << 10U;
constexpr std::size_t kBlock = 16 << 10U;  // most of a stream that is handed over at once
constexpr int kMostAccepted = 64;          // in one turn
constexpr TimeNs kAfterTrouble = 100 * kMillisecond;

}  // namespace

// Callbacks of libmicrohttpd come from MHD_run(), which turn() calls, and from the end.
class Shell::Body {
 public:
  explicit Body(Options options)
      : o_(std::move(options)),
        own_{o_.version, o_.instance, {}},
        history_(std::to_string(unix_now() / kMillisecond)),
        spare_(::fcntl(o_.exchange.bell(), F_DUPFD_CLOEXEC, 0)) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  Result<void> begin() {
    if (o_.exchange.bell() < 0 || !spare_)
      return system_failure("HTTP has no descriptor", errno, "control.http");
    failed_ = response_of("the answer could not be made: no memory is left, or a defect of tallyd\n", kPlain,
                          free_);
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, handle,
        this, MHD_OPTION_NOTIFY_CONNECTION, notify, this, MHD_OPTION_NOTIFY_COMPLETED, completed, this,
        MHD_OPTION_URI_LOG_CALLBACK, begun, this, MHD_OPTION_CONNECTION_LIMIT,
        static_cast<unsigned>(o_.limits.connections + 1), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        o_.limits.request_bytes + kMemoryBeside, MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_END);
    const MHD_DaemonInfo* const info =
        daemon_ == nullptr ? nullptr : MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == nullptr) return system_failure("HTTP cannot begin", errno, "control.http");
    epoll_ = info->epoll_fd;
    return {};
  }

  ~Body() {
    if (daemon_ == nullptr) return;
    begin_to_end();
    for (Visitor& visitor : visitors_) cut(visitor, std::nullopt);
    // What is resumed and closed goes in the first round, what a callback has suspended meanwhile in the next.
    for (int round = 0; round < 8 && !visitors_.empty(); ++round) {
      for (Visitor& visitor : visitors_) resume(visitor);
      MHD_run(daemon_);
    }
    newest_answers_ = {};
    MHD_stop_daemon(daemon_);
  }

  void adopt(UniqueFd connection) {
    ++own_.counts.accepted;
    if (visitors_.size() >= o_.limits.connections) return send_away(connection.get(), Refusal::kConnections);
    // What the kernel keeps for one who does not read is bounded too.
    (void)::setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &o_.limits.send_buffer,
                       sizeof o_.limits.send_buffer);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(connection.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return;
    const int fd = connection.get();
    connection.abandon();  // it closes it, whatever comes of this
    if (MHD_add_connection(daemon_, fd, reinterpret_cast<sockaddr*>(&peer), size) != MHD_YES)
      ++own_.counts.of(Refusal::kFailed);
  }

  void turn(int longest) {
    std::array<pollfd, 3> all{{{epoll_, POLLIN, 0}, {o_.exchange.bell(), POLLIN, 0}, {-1, POLLIN, 0}}};
    if (o_.listener && o_.now() >= accept_at_) all[2].fd = o_.listener.get();
    (void)::poll(all.data(), all.size(), wait_of(longest));
    if (all[1].revents != 0) o_.exchange.silence();
    if (all[2].revents != 0) accept();
    now_ = o_.now();
    take_snapshot();
    take_events();
    for (Visitor& visitor : visitors_) {
      try {
        look_at(visitor);
      } catch (...) {  // no memory for what it is to be sent
        cut(visitor, Refusal::kFailed);
      }
    }
    cut_slowest();
    MHD_run(daemon_);
    ask();  // for those who came just now, too: the next turn may be far away
  }

  void begin_to_end() {
    if (std::exchange(ending_, true)) return;
    o_.listener.reset();
    now_ = o_.now();
    for (Visitor& visitor : visitors_) {
      if (visitor.state == Visitor::State::kReading) cut(visitor, std::nullopt);
      if (visitor.state == Visitor::State::kStreaming) visitor.last = true;
      resume(visitor);
    }
    MHD_run(daemon_);
  }

  [[nodiscard]] const HttpCounts& counts() const noexcept { return own_.counts; }

 private:
  using State = Visitor::State;

  // The callbacks. What is thrown in one ends there.

  static MHD_Result handle(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char* /*version*/, const char* /*upload*/, std::size_t* upload_size,
                           void** request) noexcept {
    auto& body = *static_cast<Body*>(self);
    try {
      if (*upload_size != 0) return MHD_NO;  // it said that it has none
      Visitor* const visitor = visitor_of(connection);
      if (visitor == nullptr) return body.fail(connection);
      if (visitor->cut) return MHD_NO;
      if (*request != nullptr) return body.serve(*visitor);
      *request = visitor;
      return body.judge(*visitor, url, method);
    } catch (...) {
      return body.fail(connection);
    }
  }

  static void* begun(void* /*self*/, const char* /*uri*/, MHD_Connection* connection) noexcept {
    if (Visitor* const visitor = visitor_of(connection); visitor != nullptr) visitor->spoke = true;
    return nullptr;
  }

  static void completed(void* self, MHD_Connection* connection, void** /*request*/,
                        MHD_RequestTerminationCode /*how*/) noexcept {
    if (Visitor* const visitor = visitor_of(connection); visitor != nullptr)
      static_cast<Body*>(self)->leave(*visitor);
  }

  static void notify(void* self, MHD_Connection* connection, void** visitor,
                     MHD_ConnectionNotificationCode what) noexcept {
    auto& body = *static_cast<Body*>(self);
    try {
      if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *visitor = body.welcome(connection);
      else if (*visitor != nullptr)
        body.forget(*static_cast<Visitor*>(std::exchange(*visitor, nullptr)));
    } catch (...) {
      ++body.own_.counts.of(
          Refusal::kFailed);  // without a visitor it is not served, and has no deadline but this
      MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    }
  }

  static ssize_t read(void* of, std::uint64_t /*at*/, char* to, std::size_t room) noexcept {
    Visitor& visitor = *static_cast<Visitor*>(of);
    auto& body = *static_cast<Body*>(visitor.body);
    if (visitor.cut) return MHD_CONTENT_READER_END_WITH_ERROR;
    const std::size_t n = visitor.take(to, room, body.now_);
    if (n != 0) return static_cast<ssize_t>(n);
    if (visitor.last) return MHD_CONTENT_READER_END_OF_STREAM;
    body.suspend(visitor);
    return 0;
  }

  // nullptr: there was no memory for one.
  static Visitor* visitor_of(MHD_Connection* connection) noexcept {
    const MHD_ConnectionInfo* const info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == nullptr ? nullptr : static_cast<Visitor*>(info->socket_context);
  }

  // Connections.

  void accept() {
    for (int i = 0; i < kMostAccepted; ++i) {
      UniqueFd made(::accept4(o_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (made) {
        adopt(std::move(made));
        continue;
      }
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EAGAIN) return;
      if (!turn_one_away()) return;
    }
  }

  // No descriptor is left. With the spare one somebody is let in and closed, who would wait in vain. False: nor that.
  bool turn_one_away() {
    const bool none_left = errno == EMFILE || errno == ENFILE;
    spare_.reset();
    UniqueFd made(none_left ? ::accept4(o_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)
                            : -1);
    if (made) send_away(made.get(), Refusal::kDescriptors);
    const bool one_went = static_cast<bool>(made);
    made.reset();
    spare_.reset(::fcntl(o_.exchange.bell(), F_DUPFD_CLOEXEC, 0));
    if (!one_went || !spare_) accept_at_ = o_.now() + kAfterTrouble;
    return one_went && spare_;
  }

  void send_away(int connection, Refusal why) {
    ++own_.counts.of(why);
    send_busy(connection);
  }

  Visitor* welcome(MHD_Connection* connection) {
    Visitor& visitor = visitors_.emplace_back();
    visitor.here = std::prev(visitors_.end());
    visitor.body = this;
    visitor.connection = connection;
    visitor.since = o_.now();
    visitor.fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    own_.counts.connections = visitors_.size();
    return &visitor;
  }

  void forget(Visitor& visitor) {
    if (visitor.spoke && !visitor.cut) ++own_.counts.of(Refusal::kMalformed);
    visitors_.erase(visitor.here);
    own_.counts.connections = visitors_.size();
  }

  void suspend(Visitor& visitor) {
    if (std::exchange(visitor.suspended, true)) return;
    MHD_suspend_connection(visitor.connection);
  }
  void resume(Visitor& visitor) {
    if (std::exchange(visitor.suspended, false)) MHD_resume_connection(visitor.connection);
  }

  // libmicrohttpd finds the connection closed, and forgets it.
  void cut(Visitor& visitor, std::optional<Refusal> why) {
    if (std::exchange(visitor.cut, true)) return;
    if (why) ++own_.counts.of(*why);
    (void)::shutdown(visitor.fd, SHUT_RDWR);
    resume(visitor);
  }

  // Of one request: it is over, or its connection.
  void leave(Visitor& visitor) {
    if (visitor.state == State::kStreaming) {
      --own_.counts.streams;
      o_.exchange.set_followed(own_.counts.streams != 0);
    }
    visitor.begin_anew(now_);
  }

  // Requests.

  MHD_Result judge(Visitor& visitor, const char* url, const char* method) {
    visitor.spoke = false;
    visitor.head = std::string_view(method) == MHD_HTTP_METHOD_HEAD;
    const MHD_ConnectionInfo* const size =
        MHD_get_connection_info(visitor.connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size != nullptr && size->header_size > o_.limits.request_bytes)
      return refuse(visitor, Refusal::kMalformed, 431,
                    "the request is longer than " + std::to_string(o_.limits.request_bytes) + " bytes\n");
    if (!visitor.head && std::string_view(method) != MHD_HTTP_METHOD_GET)
      return refuse(visitor, Refusal::kMethod, 405, "only GET and HEAD: nothing can be changed here\n");
    const RequestHeader length = header_of(visitor.connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const bool empty = length.times == 0 || (length.times == 1 && *length.value == "0");
    if (!empty || header_of(visitor.connection, MHD_HTTP_HEADER_TRANSFER_ENCODING).times != 0)
      return refuse(visitor, Refusal::kBody, 413, "a request here has no body\n");
    const RequestHeader host = header_of(visitor.connection, MHD_HTTP_HEADER_HOST);
    if (std::string why = host.times > 1 ? "the request has several Hosts\n"
                                         : objection_to_host(host.value, local_address(visitor.fd));
        !why.empty())
      return refuse(visitor, Refusal::kHost, 403, std::move(why));
    visitor.path = find_path(url);
    if (visitor.path == nullptr) return refuse(visitor, std::nullopt, 404, no_such_path_text());
    if (const RequestHeader last = header_of(visitor.connection, "Last-Event-ID"); last.times == 1)
      visitor.last_id = std::string(*last.value);
    return MHD_YES;
  }

  MHD_Result refuse(Visitor& visitor, std::optional<Refusal> why, unsigned status, std::string text) {
    if (why) ++own_.counts.of(*why);
    const Ready refusal = ready_of({status, kPlain, std::move(text)}, free_);
    return send(visitor, status, refusal.response.get());
  }

  MHD_Result send(Visitor& visitor, unsigned status, MHD_Response* response) {
    visitor.enter(State::kAnswering, now_);
    ++own_.counts.requests;
    return MHD_queue_response(visitor.connection, status, response);
  }

  MHD_Result fail(MHD_Connection* connection) noexcept {
    ++own_.counts.of(Refusal::kFailed);
    if (Visitor* const visitor = visitor_of(connection); visitor != nullptr)
      visitor->enter(State::kAnswering, now_);  // and has its deadline
    return failed_ ? MHD_queue_response(connection, 500, failed_.get()) : MHD_NO;
  }

  MHD_Result serve(Visitor& visitor) {
    if (ending_ && visitor.path->of_box)
      return refuse(visitor, std::nullopt, 503, "tallyd is shutting down\n");
    const PathId id = visitor.path->id;
    if (id == PathId::kEvents && !visitor.head && own_.counts.streams >= o_.limits.streams)
      return refuse(visitor, Refusal::kStreams, 503,
                    std::to_string(o_.limits.streams) + " event streams are open already; come back later\n");
    if (visitor.path->of_box && !serves(visitor)) {
      if (visitor.state == State::kWaiting && now_ >= visitor.since + o_.limits.patience)
        return refuse(visitor, Refusal::kNoSnapshot, 503, "the control thread does not answer\n");
      if (visitor.state != State::kWaiting) visitor.enter(State::kWaiting, now_);
      suspend(visitor);
      return MHD_YES;
    }
    if (id == PathId::kEvents) return stream(visitor);
    const auto& [status, response] = answer_of(id);
    return send(visitor, status, response.get());
  }

  // Made once for all who ask for it within one snapshot.
  const Ready& answer_of(PathId id) {
    Ready& ready = newest_answers_[static_cast<std::size_t>(id)];
    if (!ready.response) ready = ready_of(o_.answer(id, newest_.get(), own_), own_.counts.kept_bytes);
    return ready;
  }

  // Event streams.

  MHD_Result stream(Visitor& visitor) {
    const ResponsePtr response = visitor.head
                                     ? response_of("", kStreamType, free_)
                                     : with_headers(MHD_create_response_from_callback(
                                                        MHD_SIZE_UNKNOWN, kBlock, read, &visitor, nullptr),
                                                    kStreamType);
    if (visitor.head) return send(visitor, 200, response.get());
    visitor.push(std::make_shared<const std::string>(hello_text(own_)));
    push_box(visitor);
    for (const Frame& frame : history_.since(visitor.last_id)) visitor.push(frame);
    const MHD_Result queued = send(visitor, 200, response.get());
    if (queued == MHD_YES) {
      visitor.enter(State::kStreaming, now_);
      ++own_.counts.streams;
      o_.exchange.set_followed(true);
    }
    return queued;
  }

  void push_box(Visitor& visitor) {
    if (!box_frame_) {
      auto kept =
          std::make_shared<const Kept>(frame_text("box", box_text(*newest_, own_)), own_.counts.kept_bytes);
      box_frame_ = Frame(kept, &kept->text);
    }
    visitor.push(box_frame_);
    visitor.box_bytes = box_frame_->size();
    visitor.box = newest_->number;
    visitor.box_at = now_;
  }

  void offer(Visitor& visitor, const Frame& frame) {
    if (visitor.unsent != 0 && visitor.unsent + frame->size() > o_.limits.unsent + visitor.box_bytes)
      return cut(visitor, Refusal::kUnread);
    visitor.push(frame);
    resume(visitor);
  }

  void take_events() try {
    for (const ToldEvent& event : o_.exchange.take_events()) {
      for (const Frame& frame : history_.add(event.number, event.text)) {
        for (Visitor& visitor : visitors_)
          if (visitor.streams()) offer(visitor, frame);
      }
    }
  } catch (...) {  // no memory: the numbers of what comes next tell that some are missing
    ++own_.counts.of(Refusal::kFailed);
  }

  // Snapshots.

  // As fresh as they may be (Exchange::kBetween).
  [[nodiscard]] bool is_fresh() const noexcept { return newest_ && now_ < newest_->at + Exchange::kBetween; }

  // One that was made after it asked is what it asked for, however late this thread comes to look.
  [[nodiscard]] bool serves(const Visitor& v) const noexcept {
    return is_fresh() ||
           (v.state == State::kWaiting && newest_ && v.since < newest_->at + Exchange::kBetween);
  }

  void take_snapshot() {
    auto is = o_.exchange.newest();
    if (is == newest_) return;
    newest_ = std::move(is);
    box_frame_.reset();
    for (const Path& path : paths())
      if (path.of_box) newest_answers_[static_cast<std::size_t>(path.id)] = {};
  }

  void look_at(Visitor& visitor) {
    if (visitor.cut) return;
    const Limits& limits = o_.limits;
    switch (visitor.state) {
      case State::kReading:
        if (ending_) return cut(visitor, std::nullopt);
        if (now_ >= visitor.since + limits.idle) cut(visitor, Refusal::kIdle);
        return;
      case State::kWaiting:
        if (serves(visitor) || now_ >= visitor.since + limits.patience) resume(visitor);
        return;
      case State::kAnswering:
        if (now_ >= visitor.since + limits.answer) cut(visitor, Refusal::kSlow);
        return;
      case State::kStreaming:
        if (visitor.unsent != 0 && now_ >= visitor.moved + limits.answer)
          return cut(visitor, Refusal::kUnread);
        if (visitor.last) return;
        if (visitor.wants_box(newest_->number) && now_ >= visitor.box_at + Visitor::next_box_after(limits)) {
          push_box(visitor);
          resume(visitor);
        }
        if (now_ >= visitor.said_at + limits.keep_open) {
          visitor.said_at = now_;
          offer(visitor, comment_);
        }
        return;
    }
  }

  void ask() {
    const bool waiting = std::ranges::any_of(
        visitors_, [&](const Visitor& v) { return v.state == State::kWaiting && !v.cut && !serves(v); });
    const bool due = own_.counts.streams != 0 && now_ >= asked_at_ + o_.limits.stream_pace;
    if (!waiting && !due) return;
    if (due) asked_at_ = now_;
    o_.exchange.ask(now_);
  }

  // Answers of old snapshots live as long as somebody reads them.
  void cut_slowest() {
    if (own_.counts.kept_bytes <= o_.limits.kept) return;
    Visitor* slowest = nullptr;
    const auto since = [](const Visitor& v) { return v.state == State::kStreaming ? v.moved : v.since; };
    for (Visitor& v : visitors_) {
      const bool reads = v.state == State::kAnswering || (v.state == State::kStreaming && v.unsent != 0);
      if (reads && !v.cut && (slowest == nullptr || since(v) < since(*slowest))) slowest = &v;
    }
    if (slowest != nullptr) cut(*slowest, Refusal::kSlow);
  }

  // In milliseconds, until something is due.
  [[nodiscard]] int wait_of(int longest) const {
    MHD_UNSIGNED_LONG_LONG of_daemon = 0;
    if (MHD_get_timeout(daemon_, &of_daemon) == MHD_YES && of_daemon == 0) return 0;
    const TimeNs now = o_.now();
    TimeNs due = now + static_cast<TimeNs>(longest) * kMillisecond;
    if (o_.listener && accept_at_ > now) due = std::min(due, accept_at_);
    if (own_.counts.streams != 0) due = std::min(due, asked_at_ + o_.limits.stream_pace);
    for (const Visitor& visitor : visitors_)
      due = std::min(due, visitor.due(o_.limits, newest_ ? newest_->number : 0));
    if (own_.counts.kept_bytes > o_.limits.kept) due = std::min(due, now + kMillisecond);
    return due <= now ? 0 : static_cast<int>((due - now + kMillisecond - 1) / kMillisecond);
  }

  Options o_;
  Own own_;
  EventHistory history_;
  UniqueFd spare_;
  MHD_Daemon* daemon_ = nullptr;
  int epoll_ = -1;
  std::uint64_t free_ = 0;  // of small answers, which nobody counts
  std::list<Visitor> visitors_{};
  std::shared_ptr<const Published> newest_{};
  std::array<Ready, kPathCount> newest_answers_{};
  ResponsePtr failed_{};
  Frame box_frame_{};  // of newest_; empty: not made yet
  Frame comment_ = std::make_shared<const std::string>(": still here\n\n");
  TimeNs now_ = 0;
  TimeNs asked_at_ = 0;  // for the streams
  TimeNs accept_at_ = 0;
  bool ending_ = false;
};

Result<std::unique_ptr<Shell>> Shell::make(Options options) {
  auto body = std::make_unique<Body>(std::move(options));
  if (auto begun = body->begin(); !begun) return tl::unexpected<Error>(std::move(begun.error()));
  return std::unique_ptr<Shell>(new Shell(std::move(body)));
}

Shell::Shell(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Shell::~Shell() = default;
void Shell::adopt(UniqueFd connection) { body_->adopt(std::move(connection)); }
void Shell::turn(int longest) { body_->turn(longest); }
void Shell::begin_to_end() { body_->begin_to_end(); }
const HttpCounts& Shell::counts() const noexcept { return body_->counts(); }

}  // namespace tally::http
