#pragma once
// Keys of a job that only one dialect has.

#include <array>
#include <string_view>

namespace tally::config {

struct DialectKey {
  std::string_view key;
  std::string_view why;  // it has no meaning in the other dialect
};

inline constexpr std::array<DialectKey, 12> kNativeKeys{{
    {"token_file", "SwitchML's clients know no token: a member is known by its addresses"},
    {"discipline", "a session has slots of its own"},
    {"decay", "a session has slots of its own"},
    {"elements", "payload says how large its packets are"},
    {"window", "its clients choose their window; slots says how many slots they find"},
    {"results", "each member gets a frame of its own"},
    {"priority", "a session neither takes slot memory from other jobs nor gives them any"},
    {"quota", "a session has slots of its own and none of the shared ones"},
    {"server", "every contribution of a session finds its slot"},
    {"servers", "every contribution of a session finds its slot"},
    {"lease", "SwitchML's clients send no heartbeats: a session runs while it is declared"},
    {"stragglers", "a sum of SwitchML is always of all members"},
}};

inline constexpr std::array<DialectKey, 5> kSessionKeys{{
    {"payload", "elements says how large a native job's packets are"},
    {"slots", "window says how many slots a native job gets"},
    {"tsi", "native packets have a chunk number"},
    {"run", "workers that are started again join anew"},
    {"members", "the workers of a native job join it"},
}};

}  // namespace tally::config
