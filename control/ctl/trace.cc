#include "ctl/trace.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "ctl/cells.h"
#include "ctl/pcapng.h"
#include "text/text.h"

namespace tally::ctl {
namespace {

constexpr std::chrono::milliseconds kPause{50};

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Up to what is no hexadecimal number of two digits.
std::vector<std::byte> bytes_of(const Json& frame) {
  std::vector<std::byte> bytes;
  const auto found = frame.find("bytes");
  if (found == frame.end() || !found->is_string()) return bytes;
  const auto& text = found->get_ref<const std::string&>();
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) break;
    bytes.push_back(static_cast<std::byte>(16 * high + low));
  }
  return bytes;
}

std::uint64_t whole(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

class Writer {
 public:
  Writer(const TraceFile& file, const Json& ports) : file_(file) {
    for (const Json& port : list_of(ports, "ports")) ports_.push_back(cell(port, "name"));
    put(pcapng_head("tallyctl " TALLY_VERSION, ports_));
  }

  void add(const Json& frame) {
    if (!frame.is_object()) return;
    const auto port = std::find(ports_.begin(), ports_.end(), cell(frame, "port"));
    if (port == ports_.end()) return;  // ports are those of the daemon's start
    const std::vector<std::byte> bytes = bytes_of(frame);
    const std::string comment = cell(frame, "comment");
    put(pcapng_frame({.unix_ns = whole(frame, "unix_ns"),
                      .port = static_cast<std::uint32_t>(port - ports_.begin()),
                      .out = cell(frame, "way") == "out",
                      .length = static_cast<std::uint32_t>(whole(frame, "length")),
                      .bytes = bytes,
                      .comment = comment}));
    ++frames_;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t frames() const noexcept { return frames_; }

 private:
  void put(const std::string& text) {
    file_.write(text);
    bytes_ += text.size();
  }

  const TraceFile& file_;
  std::vector<std::string> ports_{};
  std::size_t bytes_ = 0;
  std::size_t frames_ = 0;
};

// Until it has ended and all was read.
tl::expected<std::string, client::Trouble> follow(const TraceFile& file, Writer& writer,
                                                  std::size_t most_bytes) {
  bool stopping = false;
  for (;;) {
    const auto batch = file.ask("trace.read", Json::object());
    if (!batch) return tl::unexpected<client::Trouble>(batch.error());
    const Json& frames = list_of(*batch, "frames");
    for (const Json& frame : frames) {
      if (writer.bytes() < most_bytes) writer.add(frame);
    }
    const bool full = writer.bytes() >= most_bytes;
    if (full || (frames.empty() && cell(*batch, "running") != "yes"))
      return text::counted(writer.frames(), "frame") + ", " + cell(*batch, "lost") +
             " lost: " + (full ? "the file is as large as it may be" : cell(*batch, "ended"));
    if (!stopping && file.told_to_end()) {
      stopping = true;
      if (const auto stopped = file.ask("trace.stop", Json::object()); !stopped)
        return tl::unexpected<client::Trouble>(stopped.error());
    }
    if (frames.empty()) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

tl::expected<std::string, client::Trouble> write_trace(const TraceFile& file, const Json& wish,
                                                       std::size_t most_bytes) {
  const auto ports = file.ask("port.list", Json::object());
  if (!ports) return tl::unexpected<client::Trouble>(ports.error());
  if (const auto begun = file.ask("trace.start", wish); !begun)
    return tl::unexpected<client::Trouble>(begun.error());
  try {
    Writer writer(file, *ports);
    auto said = follow(file, writer, most_bytes);
    (void)file.ask("trace.stop", Json::object());
    return said;
  } catch (...) {
    (void)file.ask("trace.stop", Json::object());
    throw;
  }
}

}  // namespace tally::ctl
