#pragma once
// yaml-cpp names the rule of its scanner that failed; a person wants to know what to type.

#include <string_view>

#include "complaint.h"
#include "yaml_source.h"

namespace tally {

// at: where yaml-cpp stopped. May be moved to the line that is to blame.
[[nodiscard]] Complaint explain_syntax(std::string_view yaml_message, const YamlSource& source, Position& at);

}  // namespace tally
