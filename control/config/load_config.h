#pragma once
// File -> Config, or every reason why not. Needs neither root nor DPDK; throws nothing.

#include <string>
#include <tl/expected.hpp>

#include "config.h"
#include "diagnostic.h"

namespace tally {

struct LoadedConfig {
  Config config{};
  Diagnostics warnings{};
};

// On failure: at least one error, and the warnings too.
using ConfigResult = tl::expected<LoadedConfig, Diagnostics>;

[[nodiscard]] ConfigResult load_config(const std::string& path);
// name: what messages call the text. directory: what relative paths in it are relative to.
[[nodiscard]] ConfigResult load_config_text(std::string text, const std::string& name,
                                            const std::string& directory = ".");

// Canonical YAML with every key, defaults too; loading it gives the same Config. Tokens are not in it, only
// the paths of their files.
[[nodiscard]] std::string dump_config(const Config& config);

// All keys with type, default and meaning, in Markdown: docs/configuration.md.
[[nodiscard]] std::string reference_markdown();

}  // namespace tally
