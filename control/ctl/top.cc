#include "ctl/top.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ctl/cells.h"
#include "text/text.h"

namespace tally::ctl {
namespace {

constexpr const char* kRed = "\x1b[31m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";
constexpr double kBitsPerByte = 8;

// 0, 950, 12.3k, 4.56M: at most 5 characters.
std::string short_number(double n) {
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (n >= 999.5 && unit + 1 < kUnits.size()) {
    n /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
  return text::fixed(n, digits) + kUnits.at(unit);
}

// The element of a list that has the same name (and job, of drops).
const Json* same_in(const Json& list, const Json& one, const std::vector<const char*>& keys) {
  for (const Json& other : list) {
    const bool same = std::all_of(keys.begin(), keys.end(),
                                  [&](const char* key) { return cell(other, key) == cell(one, key); });
    if (same) return &other;
  }
  return nullptr;
}

class Frame {
 public:
  Frame(const Json& before, const Json& now, const FrameStyle& style)
      : before_(before), now_(now), style_(style) {
    const double passed = (number_of(now, "now_ns") - number_of(before, "now_ns")) / 1e9;
    if (before.is_object() && passed > 0) seconds_ = passed;
  }

  std::string text() {
    head();
    jobs();
    late();
    ports();
    cores();
    drops();
    return out_;
  }

 private:
  // Per second; "-" while there is nothing to compare with. What began anew counts from 0.
  std::string rate(const Json& one, const Json* was, const char* key, double factor = 1) const {
    if (seconds_ == 0) return "-";
    const double grown = number_of(one, key) - (was == nullptr ? 0 : number_of(*was, key));
    return short_number(std::max(grown, 0.0) * factor / seconds_);
  }

  void line(const std::string& text, const char* colour = nullptr) {
    std::string cut;
    std::size_t columns = 0;
    for (std::size_t at = 0; at < text.size() && columns < style_.width; ++columns) {
      const std::size_t length = text::character_length(text, at);
      cut.append(text, at, length);
      at += length;
    }
    ++lines_;
    if (style_.colour && colour != nullptr) cut = colour + cut + kPlain;
    out_ += cut + "\n";
  }

  void table(const text::ColumnTable& table) {
    std::string all = table.text();
    bool header = true;
    for (std::size_t at = 0; at < all.size(); header = false) {
      const std::size_t end = all.find('\n', at);
      line(all.substr(at, end - at), header ? kBold : nullptr);
      at = end + 1;
    }
  }

  // How many of so many rows there is room for, when so many lines follow; one at least, so that no table
  // is empty.
  std::size_t room(std::size_t rows, std::size_t following) const {
    if (style_.height == 0) return rows;
    const std::size_t used = lines_ + following + 2;
    return std::min(rows, used < style_.height ? style_.height - used : std::size_t{1});
  }

  void left_out(std::size_t rows, std::size_t shown, const char* what) {
    if (rows > shown) line("  and " + std::to_string(rows - shown) + " more " + what);
  }

  void head() {
    const Json& health = now_.contains("health") ? now_["health"] : now_;
    const std::string state = cell(health, "state");
    line("tally " + cell(now_, "instance") + "   up " + text::fixed(number_of(now_, "uptime_ns") / 1e9, 0) +
             " s   " + state + "   " + text::counted(list_of(now_, "jobs").size(), "job") + ", " +
             text::counted(list_of(now_, "ports").size(), "port") + "   buffers " +
             cell(now_, "mbufs_in_use"),
         state == "good" ? kBold : kRed);
    line("");
  }

  void jobs() {
    const Json& jobs = list_of(now_, "jobs");
    text::ColumnTable rows(
        {"JOB", "PHASE", "ALIVE", "RESULTS", "RES/S", "CONTR/S", "REPEAT/S", "FILLING", "LATE"}, 2);
    const std::size_t shown = room(jobs.size(), 11);
    for (std::size_t i = 0; i < shown; ++i) {
      const Json& job = jobs[i];
      const Json* const was = same_in(list_of(before_, "jobs"), job, {"name", "phase"});
      std::string name = cell(job, "name");
      if (name.size() > kLongestName) name = name.substr(0, kLongestName - 1) + "~";
      const std::size_t late = list_of(job, "late").size();
      rows.add({name, cell(job, "phase"), cell(job, "alive") + "/" + cell(job, "workers"),
                short_number(number_of(job, "results")), rate(job, was, "results"),
                rate(job, was, "contributions"), rate(job, was, "repeats"), cell(job, "filling"),
                late == 0 ? "-" : std::to_string(late)});
    }
    table(rows);
    left_out(jobs.size(), shown, "jobs");
    line("");
  }

  // The daily question, in words.
  void late() {
    std::vector<std::string> lines;
    for (const Json& job : list_of(now_, "jobs")) {
      const std::string text = cell(job, "late_text");
      if (text != "-") lines.push_back("late in " + cell(job, "name") + ": " + text);
    }
    if (lines.empty()) return;
    const std::size_t shown = room(lines.size(), 7);
    for (std::size_t i = 0; i < shown; ++i) line(lines[i], kRed);
    left_out(lines.size(), shown, "jobs with late ranks");
    line("");
  }

  void ports() {
    const Json& ports = list_of(now_, "ports");
    text::ColumnTable rows({"PORT", "LINK", "RX PKT/S", "RX BIT/S", "TX PKT/S", "TX BIT/S", "LOST"}, 2);
    const std::size_t shown = room(ports.size(), 4);
    for (std::size_t i = 0; i < shown; ++i) {
      const Json& port = ports[i];
      const Json* const was = same_in(list_of(before_, "ports"), port, {"name"});
      const double lost = number_of(port, "rx_missed") + number_of(port, "rx_errors") +
                          number_of(port, "rx_no_mbuf") + number_of(port, "tx_errors");
      rows.add({cell(port, "name"), cell(port, "link"), rate(port, was, "rx_packets"),
                rate(port, was, "rx_bytes", kBitsPerByte), rate(port, was, "tx_packets"),
                rate(port, was, "tx_bytes", kBitsPerByte), short_number(lost)});
    }
    table(rows);
    left_out(ports.size(), shown, "ports");
    line("");
  }

  void cores() {
    std::string text = "cores:";
    for (const Json& core : list_of(now_, "cores")) {
      const Json* const was = same_in(list_of(before_, "cores"), core, {"core"});
      const double cycles = number_of(core, "cycles") - (was == nullptr ? 0 : number_of(*was, "cycles"));
      const double busy =
          number_of(core, "busy_cycles") - (was == nullptr ? 0 : number_of(*was, "busy_cycles"));
      text += "  " + cell(core, "core") + " " +
              (cycles > 0 ? text::fixed(100 * std::clamp(busy / cycles, 0.0, 1.0), 0) : "-") + "% busy";
    }
    line(text);
  }

  void drops() {
    const Json& drops = list_of(now_, "drops");
    std::vector<std::pair<double, const Json*>> fresh;
    for (const Json& drop : drops) {
      const Json* const was = same_in(list_of(before_, "drops"), drop, {"name", "where", "job"});
      const double grown = number_of(drop, "count") - (was == nullptr ? 0 : number_of(*was, "count"));
      fresh.emplace_back(seconds_ == 0 ? 0 : grown / seconds_, &drop);
    }
    std::stable_sort(fresh.begin(), fresh.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::size_t shown = 0;
    for (const auto& [rate, drop] : fresh) {
      const std::vector<std::string> words =
          text::wrapped(cell(*drop, "sentence") + " " + cell(*drop, "advice"), style_.width - kIndent);
      if (style_.height != 0 && lines_ + 1 + words.size() + 1 > style_.height) break;
      ++shown;
      const std::string job = cell(*drop, "job");
      line("dropped " + cell(*drop, "name") +
               (job == "-" ? " (" + cell(*drop, "where") + ")" : " of " + job) + ": " + cell(*drop, "count") +
               ", " + short_number(rate) + "/s",
           rate > 0 ? kRed : nullptr);
      for (const std::string& part : words) line(std::string(kIndent, ' ') + part);
    }
    if (lines_ < style_.height || style_.height == 0) left_out(fresh.size(), shown, "reasons");
  }

  static constexpr std::size_t kIndent = 4;
  static constexpr std::size_t kLongestName = 14;

  const Json& before_;
  const Json& now_;
  FrameStyle style_;
  double seconds_ = 0;
  std::size_t lines_ = 0;
  std::string out_{};
};

}  // namespace

std::string top_frame(const Json& before, const Json& now, const FrameStyle& style) {
  return Frame(before, now, style).text();
}

}  // namespace tally::ctl
