#pragma once
// One message about the configuration, as a compiler would give it: file:line:col, the line, a caret, what to
// do. Programs take the fields, people read to_text().

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tally::config {

// Both from 1; a column counts characters, not bytes. line 0: the file as a whole.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  constexpr auto operator<=>(const Position&) const noexcept = default;
};

enum class Severity : std::uint8_t { kWarning, kError };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;         // as the caller named it
  Position at{};            // where the fault is
  std::string path{};       // the key, such as jobs[0].window; empty: none in particular
  std::string message{};    // what is wrong
  std::string help{};       // what to do
  std::string excerpt{};    // the line, or the part of a long line around the fault, fit for a terminal
  std::uint32_t caret = 0;  // characters in front of the caret
};

using Diagnostics = std::vector<Diagnostic>;  // in the order of the file

[[nodiscard]] std::string to_text(const Diagnostic& diagnostic);
// For a log: file:line:col: message; what to do
[[nodiscard]] std::string one_line(const Diagnostic& diagnostic);
// All of them, and a last line that counts.
[[nodiscard]] std::string to_text(const Diagnostics& diagnostics);

// What is wrong with one value, before anyone knows where the value stands.

struct Complaint {
  std::string message;       // what is wrong, with the value seen
  std::string help{};        // what to do; empty: whoever reports it knows better
  std::uint32_t offset = 0;  // bytes from the start of the value to what is wrong
};

template <class T>
using Parsed = tl::expected<T, Complaint>;

[[nodiscard]] inline tl::unexpected<Complaint> complain(std::string message, std::string help = {}) {
  return tl::unexpected<Complaint>(Complaint{std::move(message), std::move(help)});
}

// The value in quotes, safe to print on a terminal: see text::printable(); at most 60 characters.
[[nodiscard]] std::string shown(std::string_view text);

// The text of a configuration file, by lines, and the piece of it that a message shows.

struct Excerpt {
  std::string text;
  std::uint32_t caret = 0;  // characters in front of the caret
};

class YamlSource {
 public:
  // name: what messages call the file. A UTF-8 byte order mark is dropped. Lines end in LF or CR LF.
  YamlSource(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::uint32_t lines() const noexcept { return static_cast<std::uint32_t>(starts_.size()); }

  // number: from 1; an empty line beyond the end. Without the line break.
  [[nodiscard]] std::string_view line(std::uint32_t number) const noexcept;
  // The position of a byte of a line, as messages count (from 1, in characters).
  [[nodiscard]] Position position(std::uint32_t line_number, std::size_t byte) const noexcept;
  [[nodiscard]] std::size_t byte_of(Position at) const noexcept;
  // at.line >= 1. A long line is cut around the position.
  [[nodiscard]] Excerpt excerpt(Position at) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> starts_;  // byte offset of each line
};

// Where in the file each value stands, by its path (jobs[0].window), and which values are unfit for further
// checks because something is wrong with them already.

class Places {
 public:
  // otherwise: where everything stands of which nothing better is known; line 0: in no file.
  explicit Places(Position otherwise = {1, 1}) : otherwise_(otherwise) {}

  void put(const std::string& path, Position at) { at_[path] = at; }
  void mark_broken(const std::string& path) { broken_.insert(path); }

  // The value stands in the file (else it is a default).
  [[nodiscard]] bool written(const std::string& path) const { return at_.contains(path); }
  // Of the value, or of the innermost section around it that is in the file, or otherwise.
  [[nodiscard]] Position of(std::string path) const;
  // Neither the value nor a section around it is broken.
  [[nodiscard]] bool sound(std::string path) const;
  // Nor is anything in it.
  [[nodiscard]] bool sound_inside(const std::string& path) const;

 private:
  Position otherwise_;
  std::unordered_map<std::string, Position> at_;
  std::unordered_set<std::string> broken_;
};

// Collects the messages about one file.

class Report {
 public:
  // The source outlives the report.
  explicit Report(const YamlSource& source) : source_(source) {}

  // at.line 0: about the file as a whole. path: the key, or empty.
  void error(Position at, std::string path, Complaint complaint);
  void warning(Position at, std::string path, Complaint complaint);

  [[nodiscard]] const YamlSource& source() const noexcept { return source_; }
  [[nodiscard]] bool has_errors() const noexcept { return has_errors_; }
  // No more messages are kept; they are only counted.
  [[nodiscard]] bool is_full() const noexcept { return found_.size() >= kMostMessages; }
  // In the order of the file; of two at one place the one reported first.
  [[nodiscard]] Diagnostics take();

 private:
  void add(Severity severity, Position at, std::string path, Complaint complaint);

  // Somebody gave us another program's file; nobody reads more.
  static constexpr std::size_t kMostMessages = 200;

  const YamlSource& source_;
  Diagnostics found_;
  std::size_t not_kept_ = 0;
  bool has_errors_ = false;
};

// Did you mean ...?

// The candidate fewest typing errors away from `word` (one letter wrong, missing, too many, or two swapped;
// case, '-' and '_' do not count; its beginning is near too); empty if none is near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tally::config
