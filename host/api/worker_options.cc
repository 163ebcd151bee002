#include "api/worker_options.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/mtu.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally {
namespace {

// Settings as people write them: TALLY_RANK in the environment is `rank` in the file. Texts first, then
// values, so that every error can say where the text stands.

constexpr std::array<std::string_view, 14> kSettings{
    "job",   "token",    "token_file", "switch", "transport",    "address",  "rank",
    "world", "elements", "mtu",        "idle",   "join_timeout", "priority", "debug"};

struct OptionText {
  std::string value{};
  std::string where{};  // TALLY_RANK, RANK, or file:line
};

// By setting.
using OptionTexts = std::map<std::string, OptionText, std::less<>>;

// The value of a variable of the environment; empty if it is not set.
std::string environment_value(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// 'rank' -> 'TALLY_RANK'.
std::string variable_of(std::string_view setting) {
  std::string name = "TALLY_";
  for (const char c : setting) name.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return name;
}

// 'TALLY_RANK' -> 'rank'; other words only become lower case.
std::string setting_of(std::string_view name) {
  std::string lower;
  for (const char c : name) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return lower.starts_with("tally_") ? lower.substr(6) : lower;
}

constexpr std::chrono::milliseconds kGreatestJoinTimeout = std::chrono::hours(24);

// An IP address, alone or with the length of its network.
bool is_address(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto ip = text::ip_address(text.substr(0, slash));
  if (!ip || slash == std::string_view::npos) return ip.has_value();
  return text::whole_number(text.substr(slash + 1), 0, is_mapped_ipv4(*ip) ? 32 : 128).has_value();
}

class Checker {
 public:
  Checker(const WorkerOptions& options, const OptionTexts& texts) : o_(options), texts_(texts) {}

  [[nodiscard]] Result<void> missing() const {
    if (o_.job.empty()) return refuse("job", "no job is named: the name of a job in tallyd's configuration");
    if (o_.box.empty()) return refuse("switch", "no box is named: its IP address, for example 10.0.0.1");
    return {};
  }

  [[nodiscard]] Result<void> texts() const {
    if (const auto why = text::objection_to(o_.job, kMaxNameBytes); !why.empty())
      return refuse("job", text::in_quotes(o_.job) + why);
    if (const auto why = text::objection_to(o_.token, kMaxTokenBytes); !why.empty())
      return refuse("token", "the token" + why);  // a secret: not shown
    const auto boxes = boxes_named(o_.box);
    const auto wrong =
        std::find_if(boxes.begin(), boxes.end(), [](std::string_view box) { return !text::ip_address(box); });
    if (!o_.box.empty() && wrong != boxes.end())
      return refuse("switch", text::in_quotes(*wrong) +
                                  " is not an IP address; names are not looked up: write "
                                  "10.0.0.1 or fd00::1");
    const std::size_t colon = o_.transport.find(':');
    if (colon == 0 || (colon == std::string::npos && !o_.transport.empty() && o_.transport != "udp"))
      return refuse("transport", text::in_quotes(o_.transport) +
                                     " is neither udp nor SCHEME:DEVICE, for example "
                                     "dpdk:net_memif0,role=client,id=0,socket=PATH");
    if (!o_.address.empty() && !is_address(o_.address))
      return refuse("address", text::in_quotes(o_.address) +
                                   " is not an IP address, alone or with a prefix length, for example "
                                   "10.0.0.11/24");
    if (!o_.debug.empty() && o_.debug != "INFO" && o_.debug != "TRACE")
      return refuse("debug", text::in_quotes(o_.debug) + " is not INFO or TRACE");
    return {};
  }

  [[nodiscard]] Result<void> numbers() const {
    if (o_.world < 1 || o_.world > kMaxWorld)
      return refuse("world", std::to_string(o_.world) + " is not in 1..4096");
    if (o_.rank >= o_.world) return refuse("rank", rank_beyond_world());
    if (!valid_elements(o_.elements))
      return refuse("elements", std::to_string(o_.elements) +
                                    " is not a multiple of 16 in 16..2224, nor 0 (what the MTU carries)");
    if (o_.mtu < kLeastMtu || o_.mtu > kGreatestMtu)
      return refuse("mtu", std::to_string(o_.mtu) + " is not in " + std::to_string(kLeastMtu) + ".." +
                               std::to_string(kGreatestMtu));
    if (o_.priority > kGreatestPriority)
      return refuse("priority", std::to_string(o_.priority) + " is not in 0..254");
    if (o_.join_timeout.count() < 1 || o_.join_timeout > kGreatestJoinTimeout)
      return refuse("join_timeout", std::to_string(o_.join_timeout.count()) + " ms is not in 1 ms..24 h");
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view setting, std::string what) const {
    const auto text = texts_.find(setting);
    return fail(ErrorCode::kInvalidArgument, std::move(what),
                text != texts_.end() ? text->second.where : variable_of(setting));
  }
  [[nodiscard]] std::string rank_beyond_world() const {
    const auto world = texts_.find("world");
    const std::string said =
        world != texts_.end() ? world->second.where + " says" : std::string("the options say (TALLY_WORLD)");
    return "rank " + std::to_string(o_.rank) + " is not below the world of " + std::to_string(o_.world) +
           " that " + said + "; ranks count from 0";
  }

  const WorkerOptions& o_;
  const OptionTexts& texts_;
};

// The first rule broken, as a sentence with the value and what would be right. `texts`: where the settings
// come from; what is not there came from the program. `complete`: job and box must be set.
Result<void> check(const WorkerOptions& options, const OptionTexts& texts, bool complete) {
  const Checker checker(options, texts);
  if (complete) {
    if (auto all = checker.missing(); !all) return all;
  }
  if (auto fine = checker.texts(); !fine) return fine;
  return checker.numbers();
}

// What somebody who mistyped a setting may have meant: the candidate fewest typing errors away from `word`
// (one letter wrong, missing, too many, or two swapped); empty if none is within a third of its length.
std::string_view near_key(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 64;
  word = word.substr(0, kLongestWord);
  std::string_view best;
  std::size_t fewest = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t errors = text::typing_errors(word, candidate);
    if (errors > std::max<std::size_t>(1, candidate.size() / 3) || errors >= word.size()) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at == 0 || kBlank.find(line[at - 1]) != std::string_view::npos) return line.substr(0, at);
  }
  return line;
}

bool known(std::string_view key) {
  for (const std::string_view setting : kSettings)
    if (setting == key) return true;
  return false;
}

Result<void> read_line(std::string_view line, const std::string& where, OptionTexts& texts) {
  const std::string_view content = trimmed(without_comment(line));
  if (content.empty()) return {};
  const std::size_t equals = content.find('=');
  if (equals == std::string_view::npos)
    return fail(ErrorCode::kInvalidArgument,
                text::in_quotes(content) + " is not of the form key = value, for example job = resnet",
                where);
  const std::string key(trimmed(content.substr(0, equals)));
  const std::string value(trimmed(content.substr(equals + 1)));
  if (!known(key)) {
    const std::string_view near = near_key(setting_of(key), kSettings);
    return fail(
        ErrorCode::kInvalidArgument,
        text::in_quotes(key) + " is not a key" +
            (near.empty() ? std::string("; keys are the TALLY_ variables in lower case without TALLY_")
                          : "; did you mean " + text::in_quotes(near) + "?"),
        where);
  }
  if (value.empty())
    return fail(ErrorCode::kInvalidArgument, key + " has no value; write one or remove the line", where);
  const auto [entry, added] = texts.emplace(key, OptionText{value, where});
  if (!added)
    return fail(ErrorCode::kInvalidArgument,
                key + " is set a second time, the first is " + entry->second.where, where);
  return {};
}

// A file of `key = value` lines. `#` at the beginning of a line or after white space begins a comment.
// Errors: kSystem (cannot be read), kInvalidArgument with file:line.
Result<OptionTexts> read_option_file(const std::string& path) {
  std::ifstream file(path);
  const int why = errno;
  if (!file) return system_failure("cannot read " + text::in_quotes(path), why, "TALLY_CONFIG");
  OptionTexts texts;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (auto read = read_line(line, path + ":" + std::to_string(number), texts); !read)
      return tl::unexpected(std::move(read.error()));
  }
  if (file.bad() || !file.eof())
    return fail(ErrorCode::kSystem, "cannot read " + text::in_quotes(path) + ": it is no text file",
                "TALLY_CONFIG");
  return texts;
}

struct Launcher {
  const char* rank;
  const char* world;
};

// torchrun and its like, Open MPI, Slurm, PMI (MPICH, Intel MPI). The nearest to the process first: torchrun
// is itself started by Slurm at times.
constexpr std::array<Launcher, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"SLURM_PROCID", "SLURM_NTASKS"},
                                              {"PMI_RANK", "PMI_SIZE"}}};

OptionTexts told_by(const Launcher& launcher) {
  OptionTexts texts;
  if (std::string rank = environment_value(launcher.rank); !rank.empty())
    texts["rank"] = {std::move(rank), launcher.rank};
  if (std::string world = environment_value(launcher.world); !world.empty())
    texts["world"] = {std::move(world), launcher.world};
  return texts;
}

// Rank and world as the launcher of this process says. A launcher is believed as a whole: the first that
// tells both, or else the first that tells one of them. Variables that are set to nothing do not count.
OptionTexts read_launcher() {
  OptionTexts first;
  for (const Launcher& launcher : kLaunchers) {
    OptionTexts texts = told_by(launcher);
    if (texts.size() == 2) return texts;
    if (first.empty()) first = std::move(texts);
  }
  return first;
}

// WorkerOptions::from_environment: texts are gathered (file, launcher, TALLY_ variables; the later wins),
// turned into values, and checked.

tl::unexpected<Error> refuse(const OptionText& text, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, text::in_quotes(text.value) + " " + what, text.where);
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

Result<std::uint32_t> number_of(const OptionText& text, std::uint32_t low, std::uint32_t high) {
  if (const auto number = text::whole_number(text.value, low, high))
    return static_cast<std::uint32_t>(*number);
  return refuse(text, "is not a whole number in " + std::to_string(low) + ".." + std::to_string(high));
}

Result<void> apply_numbers(const OptionTexts& texts, WorkerOptions& options) {
  struct Number {
    std::string_view setting;
    std::uint32_t low, high;
    std::uint16_t* to;
  };
  for (const Number& each :
       {Number{"world", 1, kMaxWorld, &options.world}, Number{"rank", 0, kMaxWorld - 1, &options.rank},
        Number{"elements", 0, 2224, &options.elements}, Number{"mtu", kLeastMtu, kGreatestMtu, &options.mtu},
        Number{"priority", 0, kGreatestPriority, &options.priority}}) {
    const auto text = texts.find(each.setting);
    if (text == texts.end()) continue;
    const auto number = number_of(text->second, each.low, each.high);
    if (!number) return tl::unexpected(number.error());
    *each.to = static_cast<std::uint16_t>(*number);
  }
  if (const auto text = texts.find("join_timeout"); text != texts.end()) {
    const auto seconds = number_of(text->second, 1, 86'400);
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
    auto token = text::read_token(path->second.value, path->second.where);
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

std::vector<std::string_view> boxes_named(std::string_view text) {
  std::vector<std::string_view> boxes;
  for (;;) {
    const std::size_t comma = text.find(',');
    boxes.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return boxes;
    text.remove_prefix(comma + 1);
  }
}

Result<void> check_options(const WorkerOptions& options) { return check(options, {}, true); }

Result<WorkerOptions> WorkerOptions::from_environment() {
  if (auto spelt = refuse_misspelt(); !spelt) return tl::unexpected(std::move(spelt.error()));
  const auto texts = gather();
  if (!texts) return tl::unexpected(texts.error());
  WorkerOptions options;
  if (auto both = refuse_half(*texts); !both) return tl::unexpected(std::move(both.error()));
  if (auto numbers = apply_numbers(*texts, options); !numbers)
    return tl::unexpected(std::move(numbers.error()));
  if (auto words = apply_texts(*texts, options); !words) return tl::unexpected(std::move(words.error()));
  if (auto sound = check(options, *texts, false); !sound) return tl::unexpected(std::move(sound.error()));
  return options;
}

}  // namespace tally
