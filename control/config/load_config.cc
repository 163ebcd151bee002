#include "config/load_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/config_schema.h"
#include "config/value_types.h"
#include "config/yaml.h"
#include "tally/unique_fd.h"
#include "tally/wire.h"

namespace tally::config {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20U;  // some 2,000 jobs

// Reads and checks; what it finds is in the report.
Config read_config(const YamlSource& source, const std::string& directory, TokenFiles token_files,
                   const MoreChecks& more, Report& report) {
  Config config;
  check_text(source, report);
  if (report.has_errors()) return config;
  const auto root = parse_yaml(source, report);
  if (!root) return config;
  Places places;
  Reading reading{report, places};
  YamlNode top = *root;
  if (top.at.line == 0) top.at = {1, 1};
  read_section({top, "", reading}, config_schema(), config);
  if (top.kind == YamlNode::Kind::kMap) {
    Checking checking{config, places, report};
    complete_defaults(checking);
    check_config(checking);
    read_tokens(checking, directory, token_files);
    if (more && !report.has_errors()) more(checking);
  }
  return config;
}

}  // namespace

Diagnostics about_the_file(const std::string& name, Complaint complaint) {
  Diagnostic d{Severity::kError, name};
  d.message = std::move(complaint.message);
  d.help = std::move(complaint.help);
  return {std::move(d)};
}

ConfigResult load_config_text(std::string text, const std::string& name, const std::string& directory,
                              TokenFiles token_files, const MoreChecks& more) {
  try {
    const YamlSource source(name, std::move(text));
    Report report(source);
    Config config = read_config(source, directory, token_files, more, report);
    if (report.has_errors()) return tl::unexpected<Diagnostics>(report.take());
    return LoadedConfig{std::move(config), report.take()};
  } catch (const std::exception& e) {
    return tl::unexpected<Diagnostics>(about_the_file(
        name, {std::string("reading it failed: ") + e.what(), "this is a defect of tallyd; report it"}));
  }
}

ConfigResult load_config(const std::string& path, const MoreChecks& more) {
  auto file = read_file(path, kMaxConfigBytes);
  if (!file) return tl::unexpected<Diagnostics>(about_the_file(path, std::move(file.error())));
  return load_config_text(std::move(file->text), path, std::filesystem::path(path).parent_path().string(),
                          TokenFiles::kRead, more);
}

namespace {

tl::unexpected<Complaint> cannot_read(const std::string& path, int error) {
  std::string help = "check that it is a readable file";
  if (error == ENOENT) help = "check the path";
  if (error == EACCES) help = "let the user that runs tallyd read it (chown, chmod)";
  if (error == EISDIR) help = "name a file in it";
  return complain("cannot read " + shown(path) + ": " + std::generic_category().message(error), help);
}

}  // namespace

Parsed<FileText> read_file(const std::string& path, std::size_t longest, FileKind kind) {
  // A pipe that nobody writes to must not hang us where only a regular file is meant.
  const int flags = O_RDONLY | O_CLOEXEC | (kind == FileKind::kRegular ? O_NONBLOCK : 0);
  const UniqueFd file(::open(path.c_str(), flags));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
  if (S_ISDIR(status.st_mode)) return cannot_read(path, EISDIR);
  if (kind == FileKind::kRegular && !S_ISREG(status.st_mode)) {
    return complain(shown(path) + " is not a regular file", "name a file");
  }
  FileText out{{}, status.st_mode};
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, errno);
    if (got == 0) return out;
    out.text.append(buffer.data(), static_cast<std::size_t>(got));
    if (out.text.size() > longest) {
      return complain(shown(path) + " has more than " + std::to_string(longest) + " bytes",
                      "is it the right file?");
    }
  }
}

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

void read_token(NativeConfig& job, const std::string& path, const std::string& directory, Checking& c) {
  const std::string written = job.token_file;
  const auto resolved =
      std::filesystem::absolute(std::filesystem::path(directory) / written).lexically_normal();
  job.token_file = resolved.string();
  auto file = read_file(job.token_file, 4096, FileKind::kRegular);
  if (!file) {
    std::error_code ignored;
    if (std::filesystem::status(resolved, ignored).type() == std::filesystem::file_type::not_found)
      file.error().help +=
          ", or make a token: (umask 077; head -c 24 /dev/urandom | base64 > " + job.token_file + ")";
    return c.error(path, file.error().message, file.error().help);
  }
  auto token = token_in(file->text, written);
  if (!token) return c.error(path, token.error().message, token.error().help);
  job.token = std::move(*token);
  if ((file->mode & S_IROTH) != 0) {
    c.warning(path, shown(written) + " can be read by every user of this host",
              "chmod o-r " + job.token_file);
  }
}

}  // namespace

void read_tokens(Checking& c, const std::string& directory, TokenFiles token_files) {
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    const std::string path = path_of("jobs", i, "token_file");
    if (i < c.first || !c.sound({path, path_of("jobs", i, "dialect")})) continue;
    if (!job->token_file.empty()) {
      if (token_files == TokenFiles::kRead) read_token(*job, path, directory, c);
    } else if (!c.places.written(path)) {
      c.report.warning(c.places.of(path), "jobs[" + std::to_string(i) + "]",
                       {"the job has no token: whoever reaches the box may join it",
                        "name a token_file, or write token_file: none if that is meant"});
    }
  }
}

std::string dump_config(const Config& config) {
  std::string out;
  dump_section(config_schema(), config, "", out);
  return out;
}

namespace {

std::string section_of(const std::string& path) {
  const auto end = path.rfind('.');
  return end == std::string::npos ? std::string() : path.substr(0, end);
}

// What would end a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text.empty() ? "-" : text;
}

std::string row_text(const ReferenceRow& row) {
  const std::string section = section_of(row.path);
  const std::string key = row.path.substr(section.empty() ? 0 : section.size() + 1);
  const bool is_value = !row.fallback.empty() && row.fallback[0] != '(';
  return "| `" + key + "` | " + cell(row.form) + " | " +
         (is_value ? "`" + row.fallback + "`" : cell(row.fallback)) + " | " + applies_text(row.applies) +
         " | " + cell(row.doc) + " |\n";
}

}  // namespace

std::string reference_markdown() {
  const auto rows = reference_rows();
  // Sections in the order of their first key; a section's keys need not be side by side.
  std::vector<std::string> sections;
  for (const auto& row : rows) {
    const std::string section = section_of(row.path);
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
  }
  std::string out =
      "# Configuration\n\n"
      "Every key of the YAML file that `tallyd --config` reads, what it may be and what it is when left "
      "out.\n"
      "The tables are those that tallyd reads the file by; `tallyd --check` says what is wrong with a file.\n"
      "Begin with [first_steps.md](first_steps.md).\n\n"
      "`applies`: when another value takes effect, once the file was read again (`tallyctl config reload`, "
      "SIGHUP) or `tallyctl job set` has\n"
      "said it. At once: also for a job that runs, which goes on in a new epoch with what it has begun; a "
      "session begins anew. Next\n"
      "generation: when nobody is in the job any more, or at once if nobody is. Restart: `tallyctl restart`, "
      "which ends no job.\n"
      "`tallyctl config diff` says it of each key that differs from what runs.\n";
  for (const auto& section : sections) {
    out += section.empty() ? "\n## Top level\n\n" : "\n## `" + section + "`\n\n";
    out += "| key | value | default | applies | meaning |\n|---|---|---|---|---|\n";
    for (const auto& row : rows) {
      if (section_of(row.path) == section) out += row_text(row);
    }
  }
  return out;
}

}  // namespace tally::config
