#pragma once
// Datagrams of the protocol as tests of the worker engine take them apart and make them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tally/wire.h"

namespace tally::testbed {

using Bytes = std::vector<std::byte>;

Header header_of(const Bytes& datagram);
Bytes payload_of(const Bytes& datagram);
std::vector<std::int32_t> values_of(const Bytes& datagram);

// Header and payload with right check and, for control types, right payload CRC.
Bytes sealed(Header header, const Bytes& payload = {});
Bytes sealed(Header header, const std::vector<std::int32_t>& values);
// Of a datagram with values the sparse form, if that is shorter.
Bytes without_zero_rows(const Bytes& datagram);
// As given, but the check made right again.
Bytes resealed(Bytes datagram);
Bytes text_bytes(const std::string& text);

// As docs/protocol.md says them, without the product's functions and without keys.
std::uint32_t plain_sum1(const std::vector<std::int32_t>& values);
std::uint32_t plain_sum2(const std::vector<std::int32_t>& values);

}  // namespace tally::testbed
