#pragma once
// A run that went wrong yields no figure: the program ends at once.

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tally::experiment {

[[noreturn]] inline void broken(const std::string& what) {
  std::fprintf(stderr, "BROKEN, no figure: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace tally::experiment
