#include "kv/connection.h"

#include <netinet/tcp.h>

#include <utility>

namespace tally::kv {
namespace {

constexpr int kQuietSeconds = 5;  // until the kernel asks whether the other end is there
constexpr int kProbeSeconds = 2;
constexpr int kProbes = 5;
constexpr int kUnheardMs = 15'000;  // of data that nobody acknowledged
constexpr std::array<std::byte, 8> kPadding{};

void set_option(int socket, int option, int value) {
  (void)setsockopt(socket, IPPROTO_TCP, option, &value, sizeof value);
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Handshake handshake, Handlers handlers,
                       std::size_t bytes, ConnectionCounters& counters)
    : socket_(std::move(socket)),
      greeting_(socket_.get_executor()),
      handshake_(handshake),
      handlers_(std::move(handlers)),
      most_(bytes),
      counters_(counters),
      queue_(bytes) {
  asio::error_code ignored;
  remote_ = socket_.remote_endpoint(ignored).address().to_string();
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  set_option(socket_.native_handle(), TCP_KEEPIDLE, kQuietSeconds);
  set_option(socket_.native_handle(), TCP_KEEPINTVL, kProbeSeconds);
  set_option(socket_.native_handle(), TCP_KEEPCNT, kProbes);
  ++counters_.connections;
}

Connection::~Connection() {
  if (!closed_) --counters_.connections;
}

void Connection::watch_closely() { set_option(socket_.native_handle(), TCP_USER_TIMEOUT, kUnheardMs); }

void Connection::open(bool caller) {
  greeting_.expires_after(kGreetingPatience);
  greeting_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error) self->close("it did not prove who it is in time");
  });
  if (caller) (void)send(*handshake_.begin().say);
  read_header();
}

void Connection::close(const std::string& why) {
  if (std::exchange(closed_, true)) return;
  --counters_.connections;
  if (!handshake_.done()) ++counters_.strangers;
  greeting_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  handlers_.closed(shared_from_this(), why);
}

void Connection::finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  if (std::exchange(writing_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->write(); });
}

void Connection::resume() {
  if (std::exchange(held_, false) && !closed_) read_header();
}

bool Connection::send(Frame frame) {
  const std::lock_guard lock(mutex_);
  if (finishing_) return true;  // nobody reads it any more
  if (!queue_.push(std::move(frame))) return false;
  if (std::exchange(writing_, true)) return true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->write(); });
  return true;
}

std::size_t Connection::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return queue_.bytes();
}

void Connection::read_header() {
  asio::async_read(
      socket_, asio::buffer(header_),
      [self = shared_from_this()](const asio::error_code& error, std::size_t) {
        if (self->closed_) return;
        if (error)
          return self->close(error == asio::error::eof ? "it closed the connection" : error.message());
        const auto parsed =
            parse_header(self->header_, self->handshake_.done() ? self->most_ : kGreetingBytes);
        if (parsed) return self->read_body(*parsed);
        ++self->counters_.malformed;
        self->close("it sent what is no message");
      });
}

void Connection::read_body(ParsedHeader parsed) {
  const std::size_t bytes = parsed.sizes.total();
  counters_.bytes_received += kFrameHeaderBytes + bytes;
  ++counters_.frames_received;
  if (bytes == 0) return deliver(with_body(std::move(parsed), nullptr));
  const std::shared_ptr<std::byte> body(new (std::align_val_t{16}) std::byte[bytes],
                                        [](std::byte* own) { operator delete[](own, std::align_val_t{16}); });
  asio::async_read(
      socket_, asio::buffer(body.get(), bytes),
      [self = shared_from_this(), parsed = std::move(parsed), body](const asio::error_code& error,
                                                                    std::size_t) {
        if (self->closed_) return;
        if (error)
          return self->close(error == asio::error::eof ? "it closed the connection" : error.message());
        self->deliver(with_body(parsed, body));
      });
}

void Connection::deliver(Frame frame) {
  if (!handshake_.done()) {
    shake(frame);
  } else {
    const Taken taken = handlers_.received(shared_from_this(), std::move(frame));
    if (taken == Taken::kMalformed) {
      ++counters_.malformed;
      return close("it sent a message that cannot be");
    }
    held_ = taken == Taken::kHold;
  }
  if (!closed_ && !held_ && refused_.empty()) read_header();
}

void Connection::shake(const Frame& frame) {
  Handshake::Step step = handshake_.take(frame);
  if (step.say) (void)send(std::move(*step.say));
  if (!step.refused.empty()) {
    refused_ = step.refused;
    return finish();
  }
  if (!handshake_.done()) return;
  greeting_.cancel();
  handlers_.opened(shared_from_this());
}

void Connection::write() {
  if (closed_) return;
  std::vector<asio::const_buffer> buffers;
  {
    const std::lock_guard lock(mutex_);
    for (const Frame& frame : batch_) queue_.sent(frame);
    batch_.clear();
    headers_.clear();
    while (batch_.size() < kBatch) {
      auto frame = queue_.pop();
      if (!frame) break;
      batch_.push_back(std::move(*frame));
    }
    writing_ = !batch_.empty();
  }
  if (batch_.empty()) {
    bool finished = false;
    {
      const std::lock_guard lock(mutex_);
      finished = finishing_;
    }
    if (finished) close(refused_.empty() ? "it ended" : refused_);
    return;
  }
  headers_.reserve(batch_.size());
  std::size_t bytes = 0;
  for (const Frame& frame : batch_) {
    headers_.push_back(header_of(frame));
    const FrameSizes sizes = sizes_of(frame);
    bytes += kFrameHeaderBytes + sizes.total();
    buffers.emplace_back(headers_.back().data(), kFrameHeaderBytes);
    const auto add = [&buffers](const void* data, std::size_t size) {
      if (size != 0) buffers.emplace_back(data, size);
    };
    add(frame.data.keys.data(), 8 * sizes.keys);
    add(frame.data.vals.data(), sizes.vals);
    add(kPadding.data(), sizes.padding());
    add(frame.data.lens.data(), 4 * sizes.lens);
    add(frame.text.data(), sizes.text);
  }
  asio::async_write(
      socket_, buffers,
      [self = shared_from_this(), bytes, frames = batch_.size()](const asio::error_code& error, std::size_t) {
        if (self->closed_) return;
        if (error) return self->close(error.message());
        self->counters_.bytes_sent += bytes;
        self->counters_.frames_sent += frames;
        self->write();
      });
}

}  // namespace tally::kv
