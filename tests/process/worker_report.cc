#include "worker_report.h"

#include <array>
#include <chrono>
#include <cstdio>

namespace tally::test {
namespace {

constexpr std::array<std::string_view, 10> kCodes{"invalid_argument", "quantise", "aborted", "refused",
                                                  "unreachable",      "timeout",  "corrupt", "fell_behind",
                                                  "closed",           "system"};

thread_local std::uint16_t speaker = 0;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

Line::Line(std::string_view event) {
  add("event", event).add("rank", std::uint64_t{speaker});
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  add("ms", static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

Line::~Line() {
  text_ += "}\n";
  std::fwrite(text_.data(), 1, text_.size(), stdout);
  std::fflush(stdout);
}

void speak_for(std::uint16_t rank) { speaker = rank; }

void Line::key(std::string_view name) {
  text_ += text_.empty() ? "{" : ", ";
  text_ += quoted(name) + ": ";
}

Line& Line::add(std::string_view name, std::uint64_t value) {
  key(name);
  text_ += std::to_string(value);
  return *this;
}

Line& Line::add(std::string_view name, std::string_view text) {
  key(name);
  text_ += quoted(text);
  return *this;
}

Line& Line::add(std::string_view name, const std::vector<std::uint32_t>& values) {
  key(name);
  std::string list;
  for (const std::uint32_t value : values) list += (list.empty() ? "" : ", ") + std::to_string(value);
  text_ += "[" + list + "]";
  return *this;
}

void say_error(std::string_view at, const Error& error) {
  Line("error")
      .add("at", at)
      .add("code", kCodes.at(static_cast<std::size_t>(error.code)))
      .add("text", error.text());
}

void say_joined(const WorkerMembership& m) {
  Line("joined")
      .add("world", m.world)
      .add("elements", m.elements)
      .add("window", m.window)
      .add("shards", m.shards)
      .add("generation", m.generation)
      .add("epoch", m.epoch)
      .add("lease", static_cast<std::uint64_t>(m.lease.count()))
      .add("multicast", std::uint64_t{m.multicast});
}

void say_statistics(const EngineStatistics& s) {
  Line("statistics")
      .add("contributions", s.contributions)
      .add("retransmissions", s.retransmissions)
      .add("queries", s.queries)
      .add("answers", s.answers)
      .add("results", s.results)
      .add("joins", s.joins)
      .add("epochs", s.epochs)
      .add("generations", s.generations)
      .add("refused", s.refused_total());
}

}  // namespace tally::test
