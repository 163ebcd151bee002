#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "tally/wire.h"

namespace tally::bench {

// For options that take numbers of values in a packet.
inline CLI::Validator elements_of_a_packet() {
  return {[](const std::string& text) {
            std::uint32_t n = 0;
            const bool number = CLI::detail::lexical_cast(text, n);
            return number && n != 0 && valid_elements(n)
                       ? std::string()
                       : text + ": must be a multiple of 16 from 16 to 2224";
          },
          "N"};
}

}  // namespace tally::bench
