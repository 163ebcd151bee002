#pragma once
// The socket of a tallyd: found, connected, asked.

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "tally/unique_fd.h"

namespace tally::client {

using Json = nlohmann::ordered_json;

enum class Fault : std::uint8_t {
  kRefused,  // by the daemon, or it could not
  kUsage,
  kErrors,       // a configuration or a job has errors
  kUnreachable,  // no daemon
  kNotPermitted,
};

struct Trouble {
  Fault fault = Fault::kRefused;
  std::string text{};   // a sentence, and what to do
  Json data = nullptr;  // of the daemon's error
  int code = 0;         // likewise; 0: no daemon said it
};

// Where the daemon is: the path that is given, or the one of the instance, or of the only daemon here.
[[nodiscard]] tl::expected<std::string, Trouble> find_socket(const std::string& socket,
                                                             const std::string& instance);

class Connection {
 public:
  [[nodiscard]] static tl::expected<Connection, Trouble> open(const std::string& path,
                                                              std::chrono::milliseconds timeout);
  // The result, or why there is none. After kUnreachable the connection is of no use.
  [[nodiscard]] tl::expected<Json, Trouble> call(const std::string& method, const Json& parameters);
  // The parameters of the next notification, however long it takes. After an error it is of no use.
  [[nodiscard]] tl::expected<Json, Trouble> next_event();

 private:
  Connection(UniqueFd socket, std::string path, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), path_(std::move(path)), timeout_(timeout) {}

  [[nodiscard]] tl::expected<void, Trouble> send(std::string_view line);
  [[nodiscard]] tl::expected<std::string, Trouble> receive(std::chrono::milliseconds patience);
  [[nodiscard]] tl::unexpected<Trouble> silent(const std::string& how) const;

  UniqueFd socket_;
  std::string path_;
  std::chrono::milliseconds timeout_;
  std::string in_{};
  std::uint64_t id_ = 0;
};

// What a line of the daemon says to request `id`.
[[nodiscard]] tl::expected<Json, Trouble> read_answer(std::string_view line, std::uint64_t id);

}  // namespace tally::client
