// Runs every input of a corpus (tools/fuzz-corpus describes the file) through a fuzz target without
// libFuzzer. Each input gets a process of its own, so that whatever ends it (a broken invariant, a sanitizer,
// a hang) is told with the input's name and the others still run.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr unsigned kSecondsPerInput = 60;
constexpr std::string_view kBytes = " bytes";

using Bytes = std::vector<std::uint8_t>;

struct Input {
  std::string name;
  Bytes bytes;
};

// The hexadecimal digits of a line, pairs with spaces between them; false if it holds anything else.
bool append(std::string_view line, Bytes& bytes) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ') continue;
    const char* pair = line.data() + i++;
    if (i == line.size() || std::isxdigit(static_cast<unsigned char>(*pair)) == 0 ||
        std::from_chars(pair, pair + 2, bytes.emplace_back(), 16).ptr != pair + 2) {
      return false;
    }
  }
  return true;
}

// 'NAME: 43 bytes'
bool begins_input(std::string_view line, std::string& name, std::size_t& size) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos || colon == 0 || !line.ends_with(kBytes)) return false;
  name = line.substr(0, colon);
  const std::string_view number = line.substr(colon + 2, line.size() - colon - 2 - kBytes.size());
  const char* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, size);
  return !number.empty() && read.ec == std::errc{} && read.ptr == end;
}

bool read_corpus(const std::filesystem::path& file, std::vector<Input>& inputs) {
  std::ifstream in(file);
  std::set<std::string> names;
  std::size_t size = 0;
  std::size_t number = 0;
  const auto wrong = [&](const char* what) {
    std::fprintf(stderr, "%s:%zu: %s\n", file.c_str(), number, what);
    return false;
  };
  const auto ends_short = [&] { return !names.empty() && inputs.back().bytes.size() != size; };
  constexpr const char* kShort = "the input that ends here has not as many bytes as its first line says";
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::string name;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == ' ') {
      if (names.empty() || !append(line, inputs.back().bytes)) return wrong("not bytes of an input");
      continue;
    }
    if (ends_short()) return wrong(kShort);
    if (!begins_input(line, name, size))
      return wrong("neither 'NAME: SIZE bytes' nor an indented line of bytes");
    if (!names.insert(name).second) return wrong("a second input of this name");
    inputs.push_back({.name = file.string() + ": " + name, .bytes = {}});
  }
  if (ends_short()) return wrong(kShort);
  return !names.empty() || wrong("no inputs");
}

Input read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {.name = file.string(),
          .bytes = {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}};
}

bool passes(const Input& input) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsPerInput);
    LLVMFuzzerTestOneInput(input.bytes.data(), input.bytes.size());
    _exit(0);
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return true;
  std::fprintf(stderr, "failed: %s (wait status 0x%x)\n", input.name.c_str(), static_cast<unsigned>(status));
  return false;
}

}  // namespace

// Arguments: corpora (FILE.hex); files that are one input each, as libFuzzer writes them; or directories of
// these.
int main(int argc, char** argv) {
  std::vector<Input> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path argument = argv[i];
    if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument))
        inputs.push_back(read_file(entry));
    } else if (argument.extension() != ".hex") {
      inputs.push_back(read_file(argument));
    } else if (!read_corpus(argument, inputs)) {
      return 1;
    }
  }
  const auto by_name = [](const Input& a, const Input& b) { return a.name < b.name; };
  std::sort(inputs.begin(), inputs.end(), by_name);
  const auto failed =
      std::count_if(inputs.begin(), inputs.end(), [](const Input& one) { return !passes(one); });
  std::printf("%zu inputs, %td failed\n", inputs.size(), failed);
  return inputs.empty() || failed != 0 ? 1 : 0;
}
