// WorkerOptions::from_environment: texts are gathered (file, launcher, TALLY_ variables; the later wins),
// turned into values, and checked.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "check_options.h"
#include "in_quotes.h"
#include "near_key.h"
#include "option_texts.h"
#include "tally/wire_join.h"

namespace tally {
namespace {

tl::unexpected<Error> refuse(const OptionText& text, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, in_quotes(text.value) + " " + what, text.where);
}

// A variable that is nearly one of ours would otherwise do nothing and say nothing. It is let pass when the
// one it resembles is set too: then it is somebody else's.
Result<void> refuse_misspelt() {
  constexpr std::string_view kPrefix = "TALLY_";
  std::array<std::string_view, kSettings.size() + 1> names{};
  *std::copy(kSettings.begin(), kSettings.end(), names.begin()) = "config";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view near = near_key(setting_of(name), names);  // without what they have in common
    if (near.empty() || variable_of(near) == name) continue;
    if (const std::string meant = variable_of(near); environment_value(meant).empty())
      return fail(ErrorCode::kInvalidArgument, "is not a variable of Tally; did you mean " + meant + "?",
                  name);
  }
  return {};
}

OptionTexts read_variables() {
  OptionTexts texts;
  for (const std::string_view setting : kSettings) {
    const std::string name = variable_of(setting);
    if (std::string value = environment_value(name); !value.empty())
      texts[std::string(setting)] = {std::move(value), name};
  }
  return texts;
}

Result<void> refuse_two_tokens(const OptionTexts& texts) {
  const auto token = texts.find("token");
  const auto file = texts.find("token_file");
  if (token == texts.end() || file == texts.end()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the token is also given by " + file->second.where + "; remove one", token->second.where);
}

void override_with(OptionTexts& texts, const OptionTexts& later) {
  if (later.contains("token") || later.contains("token_file")) {
    texts.erase("token");
    texts.erase("token_file");
  }
  for (const auto& [setting, text] : later) texts[setting] = text;
}

Result<OptionTexts> gather() {
  OptionTexts texts;
  if (const std::string path = environment_value("TALLY_CONFIG"); !path.empty()) {
    auto file = read_option_file(path);
    if (!file) return file;
    texts = std::move(*file);
    if (auto one = refuse_two_tokens(texts); !one) return tl::unexpected(std::move(one.error()));
  }
  override_with(texts, read_launcher());
  const OptionTexts variables = read_variables();
  if (auto one = refuse_two_tokens(variables); !one) return tl::unexpected(std::move(one.error()));
  override_with(texts, variables);
  return texts;
}

// Every rank would take itself for rank 0, or nobody knows how many there are.
Result<void> refuse_half(const OptionTexts& texts) {
  const auto rank = texts.find("rank");
  const auto world = texts.find("world");
  if (rank != texts.end() && world == texts.end())
    return refuse(rank->second, "is a rank, but nothing says how many there are; set TALLY_WORLD");
  if (world != texts.end() && rank == texts.end() && world->second.value != "1")
    return refuse(world->second, "workers, but nothing says which rank this one is; set TALLY_RANK");
  return {};
}

Result<std::uint32_t> whole_number(const OptionText& text, std::uint32_t low, std::uint32_t high) {
  std::uint32_t number = 0;
  const char* const end = text.value.data() + text.value.size();
  const auto read = std::from_chars(text.value.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end || number < low || number > high)
    return refuse(text, "is not a whole number in " + std::to_string(low) + ".." + std::to_string(high));
  return number;
}

Result<std::string> read_token(const OptionText& path) {
  std::ifstream file(path.value, std::ios::binary);
  if (!file) {
    const int why = errno;
    return tl::unexpected(Error{ErrorCode::kSystem,
                                "cannot read " + in_quotes(path.value) + ": " + std::strerror(why),
                                path.where, why});
  }
  constexpr std::size_t kEnough = 4096;
  std::string token(kEnough, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  if (file.bad()) return refuse(path, "cannot be read as a file");
  token.resize(static_cast<std::size_t>(file.gcount()));
  if (token.ends_with('\n')) token.pop_back();
  if (token.ends_with('\r')) token.pop_back();
  if (token.empty()) return refuse(path, "is empty; put the job's token in it");
  if (const auto why = objection_to_text(token, kMaxTokenBytes); !why.empty())
    return refuse(path, "is no token file: its text" + why);
  return token;
}

Result<void> apply_numbers(const OptionTexts& texts, WorkerOptions& options) {
  struct Number {
    std::string_view setting;
    std::uint32_t low, high;
    std::uint16_t* to;
  };
  for (const Number& each :
       {Number{"world", 1, kMaxRanks, &options.world}, Number{"rank", 0, kMaxRanks - 1, &options.rank},
        Number{"elements", 0, 2224, &options.elements}, Number{"mtu", kLeastMtu, kGreatestMtu, &options.mtu},
        Number{"priority", 0, kGreatestPriority, &options.priority}}) {
    const auto text = texts.find(each.setting);
    if (text == texts.end()) continue;
    const auto number = whole_number(text->second, each.low, each.high);
    if (!number) return tl::unexpected(number.error());
    *each.to = static_cast<std::uint16_t>(*number);
  }
  if (const auto text = texts.find("join_timeout"); text != texts.end()) {
    const auto seconds = whole_number(text->second, 1, 86'400);
    if (!seconds) return tl::unexpected(seconds.error());
    options.join_timeout = std::chrono::seconds(*seconds);
  }
  return {};
}

Result<void> apply_texts(const OptionTexts& texts, WorkerOptions& options) {
  struct Text {
    std::string_view setting;
    std::string* to;
  };
  for (const Text& each : {Text{"job", &options.job}, Text{"token", &options.token},
                           Text{"switch", &options.box}, Text{"transport", &options.transport},
                           Text{"address", &options.address}, Text{"debug", &options.debug}}) {
    if (const auto text = texts.find(each.setting); text != texts.end()) *each.to = text->second.value;
  }
  if (const auto path = texts.find("token_file"); path != texts.end()) {
    auto token = read_token(path->second);
    if (!token) return tl::unexpected(std::move(token.error()));
    options.token = std::move(*token);
  }
  if (const auto idle = texts.find("idle"); idle != texts.end()) {
    if (idle->second.value != "poll" && idle->second.value != "adaptive")
      return refuse(idle->second, "is not poll or adaptive");
    options.poll = idle->second.value == "poll";
  }
  return {};
}

}  // namespace

Result<WorkerOptions> WorkerOptions::from_environment() {
  if (auto spelt = refuse_misspelt(); !spelt) return tl::unexpected(std::move(spelt.error()));
  const auto texts = gather();
  if (!texts) return tl::unexpected(texts.error());
  WorkerOptions options;
  if (auto both = refuse_half(*texts); !both) return tl::unexpected(std::move(both.error()));
  if (auto numbers = apply_numbers(*texts, options); !numbers)
    return tl::unexpected(std::move(numbers.error()));
  if (auto words = apply_texts(*texts, options); !words) return tl::unexpected(std::move(words.error()));
  if (auto sound = check_options(options, *texts, false); !sound)
    return tl::unexpected(std::move(sound.error()));
  return options;
}

}  // namespace tally
