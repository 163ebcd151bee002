// tallyctl: asks a running tallyd and shows what it says.

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "client/connection.h"
#include "ctl/cells.h"
#include "ctl/command.h"
#include "ctl/pages.h"
#include "ctl/top.h"
#include "ctl/trace.h"
#include "doctor/doctor.h"
#include "text/text.h"

namespace tally::ctl {
namespace {

using client::Connection;
using client::Fault;
using client::Trouble;

volatile std::sig_atomic_t told_to_end = 0;

// Fails when stdout has no room for it: an answer that is cut is none.
void print(std::FILE* to, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
  if (!written && to == stdout)
    throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExitCode exit_code_of(Fault fault) {
  switch (fault) {
    case Fault::kRefused:
      return kExitFailed;
    case Fault::kUsage:
      return kExitUsage;
    case Fault::kErrors:
      return kExitNotMet;
    case Fault::kUnreachable:
      return kExitUnreachable;
    case Fault::kNotPermitted:
      break;
  }
  return kExitNotPermitted;
}

int failed(const Trouble& trouble) {
  print(stderr, "tallyctl: " + trouble.text + "\n");
  return exit_code_of(trouble.fault);
}

// What a configuration has to say beside its error.
int failed_with_diagnostics(const Trouble& trouble) {
  if (trouble.data.is_object() && trouble.data.contains("diagnostics"))
    print(stderr, diagnostics_text(trouble.data));
  return failed(trouble);
}

// Asks; connects first, and again after the daemon was away.
class Daemon {
 public:
  explicit Daemon(const Command& command) : command_(command) {}

  tl::expected<Json, Trouble> ask(const std::string& method, const Json& parameters) {
    if (!connection_) {
      auto opened =
          client::find_socket(command_.socket, command_.instance).and_then([&](const std::string& path) {
            return Connection::open(path, command_.timeout);
          });
      if (!opened) return tl::unexpected<Trouble>(std::move(opened.error()));
      connection_.emplace(std::move(*opened));
    }
    auto answer = connection_->call(method, parameters);
    if (!answer && answer.error().fault == Fault::kUnreachable) connection_.reset();
    return answer;
  }

  // After ask() of event.subscribe.
  tl::expected<Json, Trouble> next_event() { return connection_->next_event(); }

 private:
  const Command& command_;
  std::optional<Connection> connection_{};
};

bool coloured() { return std::getenv("NO_COLOR") == nullptr && isatty(STDOUT_FILENO) != 0; }

// The terminal as top needs it, and as it was before once this goes.
class Screen {
 public:
  Screen() {
    for (const int number : {SIGTERM, SIGHUP, SIGINT}) std::signal(number, [](int) { told_to_end = 1; });
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    print(stdout, "\x1b[?1049h\x1b[?25l");
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  [[nodiscard]] static FrameStyle style() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {.colour = coloured()};
    return {std::max<std::size_t>(size.ws_col, 40), std::max<std::size_t>(size.ws_row, 10), coloured()};
  }

  static void show(const std::string& frame) {
    std::string out = "\x1b[H";
    for (const char c : frame) out += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    print(stdout, out + "\x1b[J");
  }

  // Waits; true: the user has had enough.
  [[nodiscard]] static bool ended(std::chrono::milliseconds wait) {
    constexpr char kControlC = 3;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, static_cast<int>(wait.count())) <= 0) return told_to_end != 0;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == kControlC;
  }

 private:
  termios before_{};
};

// Both answers, or what is in the way.
int top_once(const Command& command, Daemon& daemon) {
  const auto before = daemon.ask(command.method, command.parameters);
  if (!before) return failed(before.error());
  std::this_thread::sleep_for(command.interval);
  const auto now = daemon.ask(command.method, command.parameters);
  if (!now) return failed(now.error());
  print(stdout, top_frame(*before, *now, {.height = 0}));
  return kExitOk;
}

int top(const Command& command, Daemon& daemon) {
  if (command.once) return top_once(command, daemon);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    print(stderr, "tallyctl: top needs a terminal; into a file or a pipe: tallyctl top --once\n");
    return kExitUsage;
  }
  auto now = daemon.ask(command.method, command.parameters);
  if (!now) return failed(now.error());  // while the message is still seen
  Json before;
  const Screen screen;
  for (;;) {
    if (now) {
      Screen::show(top_frame(before, *now, Screen::style()));
      before = std::move(*now);
    } else {
      Screen::show("tallyctl: " + now.error().text + "\nTrying again; q ends.\n");
      before = nullptr;
    }
    if (Screen::ended(command.interval)) return kExitOk;
    now = daemon.ask(command.method, command.parameters);
  }
}

// Until the user or the daemon ends it.
int follow(const Command& command, Daemon& daemon) {
  if (const auto begun = daemon.ask(command.method, command.parameters); !begun) return failed(begun.error());
  for (;;) {
    const auto event = daemon.next_event();
    if (!event) return failed(event.error());
    print(stdout, command.output == Output::kJson ? one_line(*event) : event_text(*event));
  }
}

// The daemon takes much less, and says how much.
constexpr std::size_t kLongestText = std::size_t{16} << 20U;

// False: it cannot be read; errno says why.
bool read_text(const std::string& path, std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      path == "-" ? ::fdopen(::dup(STDIN_FILENO), "r") : std::fopen(path.c_str(), "r"), &std::fclose);
  if (!file) return false;
  std::array<char, 65536> some{};
  for (std::size_t n = 1; n != 0;) {
    n = std::fread(some.data(), 1, some.size(), file.get());
    text.append(some.data(), n);
    if (text.size() > kLongestText) return errno = EFBIG, false;
  }
  return std::ferror(file.get()) == 0;
}

// The files of diagnostics are called as the user called the file.
void name_file(Json& answer, const std::string& file) {
  for (Json& d : answer["diagnostics"]) d["file"] = file;
}

void show(const Command& command, const Json& answer) {
  switch (command.output) {
    case Output::kJson:
      return print(stdout, answer.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    case Output::kNames:
      return print(stdout, names_text(answer));
    case Output::kTable:
      return print(stdout, page_text(command.page, answer));
  }
}

// The file that is named becomes a parameter. Empty: done; else why not.
std::optional<Trouble> take_file(Command& command) {
  if (command.file.empty()) return std::nullopt;
  std::string text;
  if (!read_text(command.file, text))
    return Trouble{Fault::kRefused, "cannot read " + text::cleaned(command.file) + ": " +
                                        std::generic_category().message(errno)};
  if (command.page == Page::kCheck) {
    command.parameters["text"] = std::move(text);
    return std::nullopt;
  }
  Json job = Json::parse(text, nullptr, false);
  if (!job.is_object())
    return Trouble{Fault::kRefused, text::cleaned(command.file) +
                                        " is no JSON object: write {\"name\": \"resnet\", \"workers\": 4}"};
  command.parameters["job"] = std::move(job);
  return std::nullopt;
}

int ask(Command command, Daemon& daemon) {
  if (const auto no = take_file(command)) return failed(*no);
  auto answer = daemon.ask(command.method, command.parameters);
  if (!answer) return failed_with_diagnostics(answer.error());
  if (command.page == Page::kCheck && answer->contains("diagnostics")) name_file(*answer, command.file);
  show(command, *answer);
  if (command.page == Page::kHealth && cell(*answer, "state") != "good") return kExitNotMet;
  if (command.page == Page::kCheck && cell(*answer, "good") != "yes") return kExitNotMet;
  if (command.page == Page::kReload && !list_of(*answer, "failed").empty()) return kExitFailed;
  return kExitOk;
}

// What the daemon said of its restart; then waits for the one that follows, so that who asks next asks that one.
int restart(const Command& command, Daemon& daemon) {
  constexpr std::chrono::seconds kPatience{60};
  constexpr std::chrono::milliseconds kPause{20};
  const auto answer = daemon.ask(command.method, command.parameters);
  if (!answer) return failed_with_diagnostics(answer.error());
  show(command, *answer);
  const auto begun = std::chrono::steady_clock::now();
  const auto took = [&] { return std::chrono::steady_clock::now() - begun; };
  for (bool away = false; took() < kPatience; std::this_thread::sleep_for(kPause)) {
    const auto there = daemon.ask("health.get", Json::object());
    if (there && away) {
      if (command.output == Output::kTable)
        print(stdout, "it answers again after " +
                          text::fixed(std::chrono::duration<double>(took()).count(), 1) + " s\n");
      return kExitOk;
    }
    away = away || (!there && there.error().fault == Fault::kUnreachable);
  }
  return failed({Fault::kUnreachable, "nobody answered for " + std::to_string(kPatience.count()) +
                                          " s since then: the daemon's log says why"});
}

// By the daemon, whose rights and limits count; without one, of the machine as such.
int examine(const Command& command, Daemon& daemon) {
  auto answer = daemon.ask(command.method, command.parameters);
  if (!answer) {
    const Fault why = answer.error().fault;
    if (why != Fault::kUnreachable && why != Fault::kNotPermitted) return failed(answer.error());
    print(stderr, "tallyctl: " + answer.error().text + "\nWithout it, this is of the machine alone.\n");
    answer = Json{{"findings", doctor::to_json(doctor::examine(doctor::Machine::here(), {}))}};
  }
  show(command, *answer);
  return doctor::any_problem(*answer) ? kExitNotMet : kExitOk;
}

// Opened by the first bytes, so that a trace that is refused leaves the file that is there.
class LateFile {
 public:
  explicit LateFile(std::string path) : path_(std::move(path)) {}

  void write(const std::string& bytes) {
    if (!file_)
      file_.reset(path_ == "-" ? ::fdopen(::dup(STDOUT_FILENO), "w") : std::fopen(path_.c_str(), "w"));
    if (!file_ || std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
        std::fflush(file_.get()) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot write " + text::cleaned(path_));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_{};
};

int trace(const Command& command, Daemon& daemon) {
  LateFile file(command.file);
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) std::signal(number, [](int) { told_to_end = 1; });
  const auto said =
      write_trace({.ask = [&](const std::string& method,
                              const Json& parameters) { return daemon.ask(method, parameters); },
                   .write = [&](const std::string& bytes) { file.write(bytes); },
                   .told_to_end = [] { return told_to_end != 0; }},
                  command.parameters, command.most_bytes);
  if (!said) return failed(said.error());
  print(stderr, text::cleaned(command.file) + ": " + *said + "\n");
  return kExitOk;
}

int act(int argc, char** argv) {
  const auto command = parse_command(argc, argv);
  if (!command) {
    print(stderr, command.error());
    return kExitUsage;
  }
  if (command->page == Page::kHelp) {
    print(stdout, command->text);
    return kExitOk;
  }
  Daemon daemon(*command);
  if (command->page == Page::kTop) return top(*command, daemon);
  if (command->page == Page::kTrace) return trace(*command, daemon);
  if (command->page == Page::kDoctor) return examine(*command, daemon);
  if (command->page == Page::kRestart) return restart(*command, daemon);
  return command->page == Page::kEvents ? follow(*command, daemon) : ask(*command, daemon);
}

}  // namespace
}  // namespace tally::ctl

int main(int argc, char** argv) {
  try {
    return tally::ctl::act(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tallyctl: %s\n", e.what());
    return tally::ctl::kExitFailed;
  }
}
