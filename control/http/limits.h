#pragma once
// What clients of HTTP may hold: shell.h says what becomes of those who hold more.

#include <cstddef>

#include "tally/time.h"

namespace tally::http {

struct Limits {
  std::size_t connections = 512;
  std::size_t streams = 64;
  std::size_t request_bytes = 8 << 10U;
  std::size_t unsent = 1 << 20U;  // of one stream, beside its last box
  std::size_t kept = 64 << 20U;
  int send_buffer = 128 << 10U;  // of a connection, in the kernel
  TimeNs idle = 10 * kSecond;
  TimeNs answer = 30 * kSecond;
  TimeNs patience = 2 * kSecond;    // with the control thread
  TimeNs stream_pace = kSecond;     // between two snapshots of a stream
  TimeNs keep_open = 15 * kSecond;  // between two comments in a stream
};

}  // namespace tally::http
