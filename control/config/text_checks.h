#pragma once
// What can be wrong with the text of a file before it is read as YAML.

#include "report.h"

namespace tally {

// Encoding, control characters, tabs in the indentation, directives. Nothing is read of a text with errors.
void check_text(const YamlSource& source, Report& report);

}  // namespace tally
