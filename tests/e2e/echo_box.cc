// A daemon that a test can kill: echoes every datagram until SIGTERM, then closes its port in order.
// Arguments: the device, of role server; 'silent' to read and answer nothing.

#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "fake_box.h"

namespace {
volatile std::sig_atomic_t stop = 0;  // NOLINT: written by the handler below
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool silent = argc > 2 && std::strcmp(argv[2], "silent") == 0;
  std::signal(SIGTERM, [](int) { stop = 1; });
  tally::e2e::FakeBox box(argv[1]);
  while (stop == 0) {
    const std::size_t moved = silent ? 0 : box.echo();
    if (moved == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return 0;
}
