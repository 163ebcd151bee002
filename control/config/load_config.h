#pragma once
// File -> Config, or every reason why not. Needs neither root nor DPDK; throws nothing.

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "config/checks.h"
#include "config/config.h"
#include "config/diagnostic.h"

namespace tally::config {

struct LoadedConfig {
  Config config{};
  Diagnostics warnings{};
};

// On failure: at least one error, and the warnings too.
using ConfigResult = tl::expected<LoadedConfig, Diagnostics>;

// more: looks for what else is wrong with a configuration whose text is good.
using MoreChecks = std::function<void(Checking&)>;
[[nodiscard]] ConfigResult load_config(const std::string& path, const MoreChecks& more = {});
// name: what messages call the text. directory: what relative paths in it are relative to.
// token_files: kLeave for a text of somebody else, who must not learn through us what files there are; the
// tokens stay empty.
enum class TokenFiles : std::uint8_t { kRead, kLeave };
[[nodiscard]] ConfigResult load_config_text(std::string text, const std::string& name,
                                            const std::string& directory = ".",
                                            TokenFiles token_files = TokenFiles::kRead,
                                            const MoreChecks& more = {});

// Of the control interface; empty: there is to be none.
[[nodiscard]] std::string control_socket_path(const Config& config);
// control.http as it is written, but for none.
[[nodiscard]] Parsed<HttpAddress> parse_http_address(const std::string& text);
// Where HTTP is served; empty: nowhere.
[[nodiscard]] std::optional<HttpAddress> http_address(const Config& config);

// Canonical YAML with every key, defaults too; loading it gives the same Config. Tokens are not in it, only
// the paths of their files.
[[nodiscard]] std::string dump_config(const Config& config);

// What is wrong with a file as a whole.
[[nodiscard]] Diagnostics about_the_file(const std::string& name, Complaint complaint);

// All keys with type, default and meaning, in Markdown: docs/configuration.md.
[[nodiscard]] std::string reference_markdown();

// A whole small file.

struct FileText {
  std::string text;
  mode_t mode = 0;  // type and permissions, as stat gives them
};

enum class FileKind : std::uint8_t { kReadable, kRegular };  // kReadable: pipes and devices too

// Fails also for a directory, and for more than `longest` bytes.
[[nodiscard]] Parsed<FileText> read_file(const std::string& path, std::size_t longest,
                                         FileKind kind = FileKind::kReadable);

// The secrets of the jobs, read from their files.

// Fills in token, and makes token_file absolute. directory: what relative paths are relative to.
void read_tokens(Checking& checking, const std::string& directory, TokenFiles token_files);

}  // namespace tally::config
