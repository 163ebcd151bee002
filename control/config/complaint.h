#pragma once
// What is wrong with one value, before anyone knows where the value stands.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tally {

struct Complaint {
  std::string message;       // what is wrong, with the value seen
  std::string help{};        // what to do; empty: whoever reports it knows better
  std::uint32_t offset = 0;  // bytes from the start of the value to what is wrong
};

template <class T>
using Parsed = tl::expected<T, Complaint>;

[[nodiscard]] inline tl::unexpected<Complaint> complain(std::string message, std::string help = {}) {
  return tl::unexpected<Complaint>(Complaint{std::move(message), std::move(help)});
}

// The value in quotes, safe to print on a terminal: control characters and broken UTF-8 as \xNN, at most 60
// characters.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace tally
