#include "worker_script.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>

namespace tally::test {
namespace {

constexpr const char* kUsage =
    "usage: tally_test_worker [--sizes 352,704+16] [--dtype float32|int32] [--seed N] [--iterations N] "
    "[--lives N]\n"
    "  [--pause K,K...] [--until-told yes|no] [--gap MS] [--timeout MS] [--patience MS] [--ending "
    "leave|drop|vanish]\n"
    "  [--neighbour 'RANK TRANSPORT ADDRESS']... (in the same process)\n"
    "Commas part operations, + parts the spans of one. Who it is: TALLY_JOB, TALLY_RANK ... (worker.h)\n";

[[noreturn]] void refuse(std::string_view word) {
  std::fprintf(stderr, "tally_test_worker: '%.*s' is wrong\n%s", static_cast<int>(word.size()), word.data(),
               kUsage);
  std::exit(2);
}

template <class T>
T number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) refuse(text);
  return value;
}

template <class T>
std::vector<T> list(std::string_view text, char separator, const std::function<T(std::string_view)>& part) {
  std::vector<T> parts;
  while (true) {
    const std::size_t at = std::min(text.find(separator), text.size());
    parts.push_back(part(text.substr(0, at)));
    if (at == text.size()) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::size_t> spans(std::string_view text) {
  return list<std::size_t>(text, '+', number<std::size_t>);
}

std::chrono::milliseconds milliseconds(std::string_view text) {
  return std::chrono::milliseconds(number<std::int64_t>(text));
}

Ending ending(std::string_view text) {
  if (text == "leave") return Ending::kLeave;
  if (text == "drop") return Ending::kDrop;
  if (text != "vanish") refuse(text);
  return Ending::kVanish;
}

bool is_yes(std::string_view text) {
  if (text != "yes" && text != "no") refuse(text);
  return text == "yes";
}

bool is_int32(std::string_view text) {
  if (text != "int32" && text != "float32") refuse(text);
  return text == "int32";
}

Neighbour neighbour(std::string_view text) {
  const auto words = list<std::string>(text, ' ', [](auto word) { return std::string(word); });
  if (words.size() != 3) refuse(text);
  return {.rank = number<std::uint16_t>(words[0]), .transport = words[1], .address = words[2]};
}

}  // namespace

Script parse_script(int argc, const char* const* argv) {
  Script s;
  using Take = std::function<void(std::string_view)>;
  const std::map<std::string_view, Take> words{
      {"--sizes", [&](auto v) { s.operations = list<std::vector<std::size_t>>(v, ',', spans); }},
      {"--dtype", [&](auto v) { s.int32 = is_int32(v); }},
      {"--seed", [&](auto v) { s.seed = number<std::uint64_t>(v); }},
      {"--iterations", [&](auto v) { s.iterations = number<std::uint32_t>(v); }},
      {"--lives", [&](auto v) { s.lives = number<std::uint32_t>(v); }},
      {"--pause", [&](auto v) { s.pauses = list<std::uint32_t>(v, ',', number<std::uint32_t>); }},
      {"--until-told", [&](auto v) { s.until_told = is_yes(v); }},
      {"--gap", [&](auto v) { s.gap = milliseconds(v); }},
      {"--timeout", [&](auto v) { s.timeout = milliseconds(v); }},
      {"--patience", [&](auto v) { s.patience = milliseconds(v); }},
      {"--ending", [&](auto v) { s.ending = ending(v); }},
      {"--neighbour", [&](auto v) { s.neighbours.push_back(neighbour(v)); }},
  };
  for (int i = 1; i < argc; i += 2) {
    const auto word = words.find(argv[i]);
    if (word == words.end() || i + 1 == argc) refuse(argv[i]);
    word->second(argv[i + 1]);
  }
  return s;
}

}  // namespace tally::test
