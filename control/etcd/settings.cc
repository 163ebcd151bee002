#include "etcd/settings.h"

#include <cerrno>
#include <cstddef>
#include <fstream>

#include "text/text.h"

namespace tally::etcd {
Result<std::string> read_password(const std::string& path) {
  constexpr std::size_t kLongest = 1024;
  std::ifstream file(path, std::ios::binary);
  const int why = errno;
  if (!file) return system_failure("cannot read " + text::in_quotes(path), why);
  std::string password(kLongest + 3, '\0');
  file.read(password.data(), static_cast<std::streamsize>(password.size()));
  if (file.bad())
    return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " cannot be read as a file");
  password.resize(static_cast<std::size_t>(file.gcount()));
  if (password.ends_with('\n')) password.pop_back();
  if (password.ends_with('\r')) password.pop_back();
  if (password.empty())
    return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " is empty; put etcd's password in it");
  if (const auto no = text::objection_to(password, kLongest); !no.empty())
    return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " is no password's file: its text" + no);
  return password;
}

}  // namespace tally::etcd
