#include "config/diagnostic.h"

#include <algorithm>
#include <cctype>

#include "text/text.h"

namespace tally::config {
std::string to_text(const Diagnostic& d) {
  std::string out = d.file;
  std::string gutter(4, ' ');
  if (d.at.line > 0) {
    out.append(":").append(std::to_string(d.at.line)).append(":").append(std::to_string(d.at.column));
  }
  out += d.severity == Severity::kError ? ": error: " : ": warning: ";
  if (!d.path.empty()) out += d.path + ": ";
  out += d.message + "\n";
  if (d.at.line > 0) {
    const std::string number = std::to_string(d.at.line);
    gutter.resize(std::max(gutter.size(), number.size()), ' ');
    out.append(gutter.size() - number.size(), ' ')
        .append(number)
        .append(" | ")
        .append(d.excerpt)
        .append("\n");
    out.append(gutter).append(" | ").append(d.caret, ' ').append("^\n");
  }
  if (!d.help.empty()) out += gutter + " = " + d.help + "\n";
  return out;
}

std::string one_line(const Diagnostic& d) {
  std::string line = d.file;
  if (d.at.line > 0) {
    line.append(":").append(std::to_string(d.at.line)).append(":").append(std::to_string(d.at.column));
  }
  if (!d.path.empty()) line.append(": ").append(d.path);
  line.append(": ").append(d.message);
  if (!d.help.empty()) line.append("; ").append(d.help);
  return line;
}

std::string to_text(const Diagnostics& diagnostics) {
  std::string out;
  for (const auto& d : diagnostics) out += to_text(d);
  const auto errors =
      static_cast<std::size_t>(std::ranges::count(diagnostics, Severity::kError, &Diagnostic::severity));
  const auto warnings = diagnostics.size() - errors;
  if (errors > 0) out += text::counted(errors, "error");
  if (errors > 0 && warnings > 0) out += ", ";
  if (warnings > 0) out += text::counted(warnings, "warning");
  if (!diagnostics.empty()) out += "\n";
  return out;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    if (count == kLongest) return out + "...'";
    const std::size_t length = text::character_length(text, at);
    out += text::printable(text.substr(at, length));
    at += length;
  }
  return out + "'";
}

YamlSource::YamlSource(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string_view YamlSource::line(std::uint32_t number) const noexcept {
  if (number == 0 || number > starts_.size()) return {};
  const std::size_t begin = starts_[number - 1];
  const std::size_t end = number < starts_.size() ? starts_[number] - 1 : text_.size();
  std::string_view out = std::string_view(text_).substr(begin, end - begin);
  if (out.ends_with('\r')) out.remove_suffix(1);
  return out;
}

Position YamlSource::position(std::uint32_t line_number, std::size_t byte) const noexcept {
  const std::string_view text = line(line_number);
  std::uint32_t column = 1;
  for (std::size_t at = 0; at < std::min(byte, text.size()); at += text::character_length(text, at)) ++column;
  return {line_number, column};
}

std::size_t YamlSource::byte_of(Position at) const noexcept {
  const std::string_view text = line(at.line);
  std::size_t byte = 0;
  for (std::uint32_t column = 1; column < at.column && byte < text.size(); ++column) {
    byte += text::character_length(text, byte);
  }
  return byte;
}

Excerpt YamlSource::excerpt(Position at) const {
  constexpr std::uint32_t kBefore = 60;  // characters of a long line in front of the caret ...
  constexpr std::uint32_t kAfter = 40;   // ... and behind it
  const std::string_view text = line(at.line);
  const bool all = text.size() <= kBefore + kAfter;
  const std::uint32_t first = !all && at.column > kBefore + 1 ? at.column - kBefore : 1;
  Excerpt out;
  if (first > 1) out.text = "...";
  std::size_t width = out.text.size();  // characters so far
  std::uint32_t column = 1;
  std::size_t byte = 0;
  for (; byte < text.size() && (all || column <= at.column + kAfter || text.size() - byte <= 3); ++column) {
    const std::size_t length = text::character_length(text, byte);
    if (column == at.column) out.caret = static_cast<std::uint32_t>(width);
    if (column >= first) {
      const std::string piece = text::printable(text.substr(byte, length));
      out.text += piece;
      width += piece.size() > 1 && piece[0] == '\\' ? piece.size() : 1;
    }
    byte += length;
  }
  if (byte < text.size()) out.text += "...";
  if (column <= at.column) out.caret = static_cast<std::uint32_t>(width);  // behind the end of the line
  return out;
}

namespace {

// jobs[0].window -> jobs[0] -> jobs -> ''.
void step_out(std::string& path) {
  const auto end = path.find_last_of(".[");
  path.resize(end == std::string::npos ? 0 : end);
}

}  // namespace

Position Places::of(std::string path) const {
  for (; !path.empty(); step_out(path)) {
    if (const auto found = at_.find(path); found != at_.end()) return found->second;
  }
  return otherwise_;
}

bool Places::sound(std::string path) const {
  for (; !path.empty(); step_out(path)) {
    if (broken_.contains(path)) return false;
  }
  return true;
}

bool Places::sound_inside(const std::string& path) const {
  const auto inside = [&](const std::string& broken) {
    return broken.starts_with(path) && (broken[path.size()] == '.' || broken[path.size()] == '[');
  };
  return sound(path) && std::none_of(broken_.begin(), broken_.end(), inside);
}

void Report::error(Position at, std::string path, Complaint complaint) {
  has_errors_ = true;
  add(Severity::kError, at, std::move(path), std::move(complaint));
}

void Report::warning(Position at, std::string path, Complaint complaint) {
  add(Severity::kWarning, at, std::move(path), std::move(complaint));
}

void Report::add(Severity severity, Position at, std::string path, Complaint complaint) {
  if (is_full()) {
    ++not_kept_;
    return;
  }
  Diagnostic d{
      severity, source_.name(), at, std::move(path), std::move(complaint.message), std::move(complaint.help)};
  if (at.line > 0) {
    Excerpt excerpt = source_.excerpt(at);
    d.excerpt = std::move(excerpt.text);
    d.caret = excerpt.caret;
  }
  found_.push_back(std::move(d));
}

Diagnostics Report::take() {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
  if (not_kept_ > 0) {
    Diagnostic rest{Severity::kError, source_.name(), found_.back().at};
    rest.message = "there are " + std::to_string(not_kept_) + " more messages";
    rest.help = "is this the right file?";
    found_.push_back(std::move(rest));
  }
  return std::move(found_);
}

namespace {

std::string folded(std::string_view word) {
  std::string out(word.substr(0, 64));
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = folded(word);
  std::string best;
  std::size_t fewest = 0;
  for (const auto& candidate : candidates) {
    const std::string folded_candidate = folded(candidate);
    const std::size_t allowed =
        std::max<std::size_t>(1, std::min(wanted.size(), folded_candidate.size()) / 3);
    const bool part = wanted.size() > 2 &&
                      (folded_candidate.starts_with(wanted) || wanted.starts_with(folded_candidate + "_"));
    const std::size_t errors = part ? 1 : text::typing_errors(wanted, folded_candidate);
    if (errors > allowed || errors >= wanted.size()) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

}  // namespace tally::config
