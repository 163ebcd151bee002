#include "ps_token.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tally/wire_join.h"

namespace tally {

Result<std::string> read_token_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::kInvalidArgument, "'" + path + "' " + why, "--token-file");
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int why = errno;
    return tl::unexpected(
        Error{ErrorCode::kSystem, "cannot read '" + path + "': " + std::strerror(why), "--token-file", why});
  }
  constexpr std::size_t kEnough = 4096;
  std::string token(kEnough, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  if (file.bad()) return refuse("cannot be read as a file");
  token.resize(static_cast<std::size_t>(file.gcount()));
  if (token.ends_with('\n')) token.pop_back();
  if (token.ends_with('\r')) token.pop_back();
  if (token.empty()) return refuse("is empty; put the job's token in it");
  if (token.size() > kMaxTokenBytes)
    return refuse("is no token file: a token has at most " + std::to_string(kMaxTokenBytes) + " bytes");
  if (std::any_of(token.begin(), token.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return refuse("is no token file: it holds control characters");
  return token;
}

}  // namespace tally
