#pragma once
// A line of the control interface, read strictly: one JSON object, JSON-RPC 2.0. What is not exactly right is
// refused with a sentence that says what would be. Pure.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace tally::api {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMaxRequestBytes = 64 * 1024;  // of a line, without its end
inline constexpr std::size_t kMaxDepth = 16;                // of objects and lists in each other
inline constexpr std::size_t kMaxMembers = 64;  // of an object: each is compared with those before it
inline constexpr std::size_t kMaxIdBytes = 128;

// Of JSON-RPC 2.0, and of our own (-32000 and below).
enum class Code : int {
  kParse = -32700,       // no JSON
  kRequest = -32600,     // no request: not an object, members that are missing or unknown, too long, too deep
  kMethod = -32601,      // no such method; data.nearest
  kParameters = -32602,  // data: path, got, want
  kInternal = -32603,    // a defect of tallyd
  kNotPermitted = -32001,   // for those who may change things, and the caller may only read
  kBusy = -32002,           // the daemon has as many clients as it serves
  kNoSuchJob = -32010,      // data.nearest, data.jobs
  kExists = -32011,         // a job of this name
  kConfiguration = -32012,  // the file has errors, nothing was changed; data.diagnostics
  kNotNow = -32013,         // the job, or the box, cannot do this, or not at the moment
  kNotKept = -32015,        // it could not be written to disk: nothing was changed
  kRevision = -32016,       // the box is not as the caller has seen it: data.revision
};

// Why a request is not answered by a result.
struct Failure {
  Code code = Code::kInternal;
  std::string message{};  // a sentence
  Json data{};            // an object that says what would be right; null: none
};

// The number of a request as the caller gave it, as JSON; "null" if there was none that could be read.
struct RequestId {
  std::string text = "null";
  bool given = false;  // else it is a notification, which is not answered
};

struct Request {
  RequestId id{};
  std::string method{};
  Json parameters = Json::object();  // or a list, which JSON-RPC allows and no method here takes
};

// It is answered, with or without an id: who does not know how to ask is told.
struct BadRequest {
  RequestId id{};
  Failure failure{};
};

// Any text as JSON, within the limits above but that of its length.
[[nodiscard]] tl::expected<Json, Failure> read_json(std::string_view text);
// line: without its end. Anything may be in it.
[[nodiscard]] tl::expected<Request, BadRequest> read_request(std::string_view line);

// Lines of answers, with their ends. No text that came in is in them but the id.

// Up to the result, of which "}" and the end of the line are to follow.
[[nodiscard]] std::string result_beginning(const RequestId& id);
[[nodiscard]] std::string result_line(const RequestId& id, const Json& result);
[[nodiscard]] std::string failure_line(const RequestId& id, const Failure& failure);
// JSON in one line; bytes that are no UTF-8 (of names from elsewhere) are replaced.
[[nodiscard]] std::string dumped(const Json& json);

}  // namespace tally::api
