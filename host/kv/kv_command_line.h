#pragma once
// What tally-kv was asked to do. What says who a node is may stand in the environment, as every process of a key-value
// system has it (DMLC_*), or in options.

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kv/row_server.h"
#include "tally/error.h"

namespace tally::kv {

struct KvSettings {
  std::vector<std::pair<std::string, std::string>> variables{};  // of the environment, that options replace
  RowServerOptions rows{};
  std::chrono::seconds statistics{10};  // 0: only at the end
  bool json = false;
};
// To be printed, and that is all.
struct KvText {
  std::string text;
};

[[nodiscard]] Result<std::variant<KvSettings, KvText>> parse_kv_command_line(int argc,
                                                                             const char* const* argv);

}  // namespace tally::kv
