// Damaged files: whatever becomes of a good configuration, the answer is a Config or an error with a
// position.

#include <array>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "config/load_config.h"

namespace tally {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t end) { return end == 0 ? 0 : random() % end; }

// Pieces that mean something to YAML, or something else than they seem to.
constexpr std::array kPieces{"\n",          "  ",     "\t",
                             ": ",          ":",      "- ",
                             "-",           "{",      "}",
                             "[",           "]",      ",",
                             "\"",          "'",      "#",
                             " # x",        "&a ",    "*a",
                             "!!int ",      "| ",     ">\n",
                             "---\n",       "...\n",  "? ",
                             "<<: *a",      "~",      "null",
                             "\r\n",        "\r",     "%",
                             "@",           "`",      "\\",
                             "\xC2\xA0",    "\xFF",   "\xC3",
                             "\x1B",        "0x10",   "010",
                             "-1",          "on",     "1e9",
                             "%0",          "true",   "99999999999999999999",
                             "jobs:",       "name: ", "ports:\n  - ",
                             "\xEF\xBB\xBF"};

std::string damaged(std::string text, Random& random) {
  const std::size_t blows = 1 + below(random, 4);
  for (std::size_t i = 0; i < blows; ++i) {
    const std::size_t at = below(random, text.size() + 1);
    const std::size_t length = below(random, std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(random, 7)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(random, text.size() + 1), text.substr(at, length));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 4:
        text.insert(at, 1 + below(random, 3), static_cast<char>(random()));
        break;
      default:
        text.insert(at, kPieces.at(below(random, kPieces.size())));
    }
  }
  return text;
}

void check(const std::string& text) {
  const auto result = config::load_config_text(text, "f");
  if (result) {
    const auto again = config::load_config_text(config::dump_config(result->config), "dump");
    ASSERT_TRUE(again) << text << "\n"
                       << config::dump_config(result->config) << config::to_text(again.error());
    ASSERT_EQ(result->config, again->config) << text;
    return;
  }
  bool has_error = false;
  for (const auto& d : result.error()) {
    ASSERT_TRUE(d.at.line > 0 && d.at.column > 0) << config::to_text(d) << text;
    ASSERT_FALSE(d.message.empty() || d.help.empty()) << config::to_text(d) << text;
    has_error = has_error || d.severity == config::Severity::kError;
  }
  ASSERT_TRUE(has_error) << text;
}

std::string good_text() {
  std::ostringstream out;
  out << std::ifstream(TALLY_CONF_DIRECTORY "/demo.yaml").rdbuf();
  out << "log: {level: 'info'}\n";
  return out.str();
}

std::string without_comments(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.find('#') == std::string::npos) out += line + "\n";
  }
  return out;
}

TEST(ConfigRandom, EveryTruncation) {
  const std::string text = without_comments(good_text());
  ASSERT_TRUE(config::load_config_text(text, "f"));
  for (std::size_t length = 0; length < text.size(); ++length) {
    ASSERT_NO_FATAL_FAILURE(check(text.substr(0, length))) << length;
  }
}

TEST(ConfigRandom, MutationsAlwaysGiveAnAnswer) {
  const std::string text = without_comments(good_text());
  Random random(20'240'607);
  for (int i = 0; i < 1'500; ++i) ASSERT_NO_FATAL_FAILURE(check(damaged(text, random))) << i;
}

TEST(ConfigRandom, GarbageAlwaysGivesAnAnswer) {
  Random random(4);
  for (int i = 0; i < 2'000; ++i) {
    std::string text;
    for (std::size_t n = below(random, 60); n > 0; --n) text += kPieces.at(below(random, kPieces.size()));
    ASSERT_NO_FATAL_FAILURE(check(text)) << i;
  }
}

TEST(ConfigRandom, DeepNestingEnds) {
  for (const char* piece : {"[", "{", "- ", "{a: ", "[[", "? "}) {
    std::string text = "jobs: ";
    for (int i = 0; i < 5'000; ++i) text += piece;
    ASSERT_NO_FATAL_FAILURE(check(text)) << piece;
  }
}

}  // namespace
}  // namespace tally
