#pragma once
// What can fail returns Result<T>. An Error says what, where, the value seen and, when a system call
// failed, its errno. It is logged once, at the top.

#include <cstdint>
#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace tally {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // the caller's value is out of range
  kQuantise,         // NaN, Inf or a magnitude above 2^126 in a float32 block
  kAborted,          // the job was aborted; the text names rank and reason
  kRefused,          // the box refused the join; final
  kUnreachable,      // no answer from the box for a lease
  kTimeout,          // the operation's own timeout; the text names the missing ranks
  kCorrupt,          // three results of one chunk failed their end-to-end sums
  kFellBehind,       // a chunk older than every peer's history
  kClosed,           // the worker left, failed or was aborted before
  kSystem,           // a system call failed
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string what;     // a sentence for a person: what is wrong and what to do
  std::string where{};  // file:line:col, key, job or rank; empty if nowhere in particular
  int sys_errno = 0;    // 0 = no system call was involved

  [[nodiscard]] std::string text() const { return where.empty() ? what : where + ": " + what; }
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string what, std::string where = {}) {
  return tl::unexpected<Error>(Error{code, std::move(what), std::move(where)});
}

// An error of a system call. error: errno.
[[nodiscard]] inline tl::unexpected<Error> system_failure(const std::string& what, int error,
                                                          std::string where = {}) {
  return tl::unexpected<Error>(Error{ErrorCode::kSystem, what + ": " + std::generic_category().message(error),
                                     std::move(where), error});
}

}  // namespace tally
