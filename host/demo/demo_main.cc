// tally-demo: one switch and three training jobs on this machine, every sum checked.

#include <cstdio>
#include <exception>

#include "demo_options.h"
#include "demo_run.h"
#include "demo_worker.h"

namespace tally {
namespace {

constexpr int kUsage = 2;

int run(int argc, char** argv) {
  const auto options = parse_demo_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "tally-demo: %s\nTry 'tally-demo --help'.\n", options.error().text().c_str());
    return kUsage;
  }
  switch (options->role) {
    case DemoOptions::Role::kHelp:
      std::fputs(options->help.c_str(), stdout);
      return 0;
    case DemoOptions::Role::kWorker:
      return run_demo_worker(*options);
    case DemoOptions::Role::kParent:
      break;
  }
  return DemoRun(*options).run();
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  try {
    return tally::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-demo: %s\n", e.what());
    return 1;
  }
}
