#include "tokens.h"

#include <algorithm>
#include <filesystem>

#include <sys/stat.h>

#include "read_file.h"
#include "tally/wire_join.h"

namespace tally {
namespace {

// Without the line end that an editor adds.
std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Parsed<std::string> token_in(const std::string& text, const std::string& path) {
  std::string token = without_line_end(text);
  if (token.empty())
    return complain(shown(path) + " is empty", "put the token in it, or write none for an open job");
  if (token.size() > kMaxTokenBytes) {
    return complain(
        "the token in " + shown(path) + " is longer than " + std::to_string(kMaxTokenBytes) + " bytes",
        "32 hexadecimal digits are plenty: openssl rand -hex 16");
  }
  const bool control =
      std::any_of(token.begin(), token.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; });
  if (control) {
    return complain("the token in " + shown(path) + " contains a line break or a control character",
                    "the file must hold the token alone, in one line");
  }
  return token;
}

void read_token(JobSection& job, const std::string& path, const std::string& directory, Checking& c) {
  const Position at = c.places.of(path);
  const std::string written = job.token_file;
  const auto resolved =
      std::filesystem::absolute(std::filesystem::path(directory) / written).lexically_normal();
  job.token_file = resolved.string();
  auto file = read_file(job.token_file, 4096, FileKind::kRegular);
  if (!file) {
    c.report.error(at, path, std::move(file.error()));
    return;
  }
  auto token = token_in(file->text, written);
  if (!token) {
    c.report.error(at, path, std::move(token.error()));
    return;
  }
  job.token = std::move(*token);
  if ((file->mode & S_IROTH) != 0) {
    c.report.warning(
        at, path,
        {shown(written) + " can be read by every user of this host", "chmod o-r " + job.token_file});
  }
}

}  // namespace

void read_tokens(Checking& c, const std::string& directory) {
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    JobSection& job = c.config.jobs[i];
    const std::string path = "jobs[" + std::to_string(i) + "].token_file";
    if (!c.places.sound(path) || is_session(job) || !c.places.sound(path_of("jobs", i, "dialect"))) continue;
    if (!job.token_file.empty()) {
      read_token(job, path, directory, c);
    } else if (!c.places.written(path)) {
      c.report.warning(c.places.of(path), "jobs[" + std::to_string(i) + "]",
                       {"the job has no token: whoever reaches the box may join it",
                        "name a token_file, or write token_file: none if that is meant"});
    }
  }
}

}  // namespace tally
