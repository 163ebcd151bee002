#pragma once
// Sessions of the dialect switchml for tests that do not go through control, and the frames of their clients.

#include <cstdint>
#include <vector>

#include "frames.h"
#include "jobs/job_table.h"
#include "pipeline/pipeline.h"
#include "tally/switchml.h"

namespace tally {

struct SessionSpec {
  std::uint16_t id = 1;
  std::uint32_t epoch = 0x1000'0001;
  std::uint8_t world = 2;
  std::uint16_t payload = 128;
  std::uint32_t slots = 8;
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::uint8_t home = 0;
  std::uint32_t first_line = 0;
};

// Members as test_binding() has them, but that all are sent to switchml::kBasePort.
[[nodiscard]] jobs::SessionJob make_session(const SessionSpec& spec);

struct SessionSent {
  std::uint32_t rank = 0;
  std::uint32_t slot = 0;
  std::uint32_t set = 0;
  std::uint8_t job_number = 0;
  std::uint32_t tsi = 0;
  std::int32_t value = 1;  // element i is value + i, modulo 2^32
  std::int8_t exponent0 = 0;
  std::int8_t exponent1 = 0;
  std::uint16_t udp_source = 4000;
  std::uint8_t flags = 0;  // beside message type 1 and the session's size
};

// A whole frame of that member. As from a stock client: the IPv4 checksum is 0, UDP's is one of the addresses
// alone.
[[nodiscard]] Bytes session_frame(const jobs::SessionJob& job, const SessionSent& sent, const jobs::Box& box);
// The frame that must come back for `sent` with these exponents and values, to this member.
[[nodiscard]] Bytes session_reply(const jobs::SessionJob& job, const SessionSent& sent, const jobs::Box& box,
                                  std::uint32_t to, std::uint16_t udp_destination, std::int8_t exponent0,
                                  std::int8_t exponent1, const std::vector<std::int32_t>& values);
// The frame that io makes of a pipeline's outcome for this member (io_headers_test.cc compares).
[[nodiscard]] Bytes outcome_frame(const pipeline::Outcome& out, std::size_t rank,
                                  const pipeline::ReturnPath& path, const jobs::Box& box);

}  // namespace tally
