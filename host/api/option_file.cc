#include <cerrno>
#include <cstring>
#include <fstream>

#include "in_quotes.h"
#include "near_key.h"
#include "option_texts.h"

namespace tally {
namespace {

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
                in_quotes(content) + " is not of the form key = value, for example job = resnet", where);
  const std::string key(trimmed(content.substr(0, equals)));
  const std::string value(trimmed(content.substr(equals + 1)));
  if (!known(key)) {
    const std::string_view near = near_key(setting_of(key), kSettings);
    return fail(
        ErrorCode::kInvalidArgument,
        in_quotes(key) + " is not a key" +
            (near.empty() ? std::string("; keys are the TALLY_ variables in lower case without TALLY_")
                          : "; did you mean " + in_quotes(near) + "?"),
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

}  // namespace

Result<OptionTexts> read_option_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    const int why = errno;
    return tl::unexpected(Error{ErrorCode::kSystem,
                                "cannot read " + in_quotes(path) + ": " + std::strerror(why), "TALLY_CONFIG",
                                why});
  }
  OptionTexts texts;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (auto read = read_line(line, path + ":" + std::to_string(number), texts); !read)
      return tl::unexpected(std::move(read.error()));
  }
  if (file.bad() || !file.eof())
    return fail(ErrorCode::kSystem, "cannot read " + in_quotes(path) + ": it is no text file",
                "TALLY_CONFIG");
  return texts;
}

}  // namespace tally
