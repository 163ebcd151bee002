#pragma once
// Where etcd is, and how a client shows who it is.

#include <cstdint>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::etcd {

struct Settings {
  std::vector<std::string> endpoints{};  // one or more: http://10.0.0.1:2379, https://[fd00::1]:2379
  std::string user{};                    // empty: none
  std::string password_file{};           // read whenever a token is needed; with `user`
  std::string ca{};                      // files in PEM; empty: those that the system trusts
  std::string certificate{};             // of the client; with `key`
  std::string key{};
  std::vector<std::uint16_t> avoid{};  // CPUs on which no thread of the client runs
};

[[nodiscard]] inline bool is_encrypted(const std::string& endpoint) noexcept {
  return endpoint.starts_with("https://");
}

// The text of a file without the end of its line.
[[nodiscard]] Result<std::string> read_password(const std::string& path);

// Why TLS does not take a file that can be read: as `ca`, as `certificate`, as the `key` of that certificate. Empty: it
// takes it.
[[nodiscard]] std::string objection_to_ca(const std::string& path);
[[nodiscard]] std::string objection_to_certificate(const std::string& path);
[[nodiscard]] std::string objection_to_key(const std::string& path, const std::string& certificate);

}  // namespace tally::etcd
