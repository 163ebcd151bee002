// Runs every file of a corpus through a fuzz target without libFuzzer. Each file gets a process of its own,
// so that whatever ends it (a broken invariant, a sanitizer, a hang) is told with the file's name and the
// others still run.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr unsigned kSecondsPerFile = 60;

void run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

bool passes(const std::filesystem::path& file) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsPerFile);
    run(file);
    _exit(0);
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return true;
  std::fprintf(stderr, "failed: %s (wait status 0x%x)\n", file.c_str(), static_cast<unsigned>(status));
  return false;
}

}  // namespace

// Arguments: files, or directories of files.
int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto failed = std::count_if(files.begin(), files.end(), [](const auto& f) { return !passes(f); });
  std::printf("%zu inputs, %td failed\n", files.size(), failed);
  return files.empty() || failed != 0 ? 1 : 0;
}
