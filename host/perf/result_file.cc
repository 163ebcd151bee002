#include "result_file.h"

#include <cstdio>
#include <fstream>

namespace tally {

bool write_result_file(const char* program, const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) std::fprintf(stderr, "%s: cannot write %s\n", program, path.c_str());
  return static_cast<bool>(out);
}

}  // namespace tally
