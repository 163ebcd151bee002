#include "etcd/settings.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string_view>

#include "text/text.h"

namespace tally::etcd {
namespace {

constexpr std::string_view kPlain = "http://";
constexpr std::string_view kEncrypted = "https://";

bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    const std::string_view address = host.substr(1, host.size() - 2);
    return address.find(':') != std::string_view::npos && text::ip_address(address).has_value();
  }
  return text::is_name(host) && host.size() <= 253;
}

}  // namespace

bool is_encrypted(const std::string& endpoint) noexcept { return endpoint.starts_with(kEncrypted); }

std::string objection_to_endpoint(const std::string& endpoint) {
  const std::string_view scheme = is_encrypted(endpoint) ? kEncrypted : kPlain;
  if (!endpoint.starts_with(scheme)) return "it begins with neither http:// nor https://";
  const std::string_view rest = std::string_view(endpoint).substr(scheme.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || (rest.ends_with(']'))) return "it has no port";
  if (!text::whole_number(rest.substr(colon + 1), 1, 65'535))
    return text::in_quotes(text::cleaned(rest.substr(colon + 1))) + " is no port";
  if (!is_host(rest.substr(0, colon)))
    return text::in_quotes(text::cleaned(rest.substr(0, colon))) + " is no host";
  return {};
}

Result<std::string> read_password(const std::string& path) {
  constexpr std::size_t kLongest = 1024;
  std::ifstream file(path, std::ios::binary);
  const int why = errno;
  if (!file) return system_failure("cannot read " + text::in_quotes(path), why);
  std::string password(kLongest + 3, '\0');
  file.read(password.data(), static_cast<std::streamsize>(password.size()));
  if (file.bad()) return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " cannot be read as a file");
  password.resize(static_cast<std::size_t>(file.gcount()));
  if (password.ends_with('\n')) password.pop_back();
  if (password.ends_with('\r')) password.pop_back();
  if (password.empty()) return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " is empty; put etcd's password in it");
  if (const auto no = text::objection_to(password, kLongest); !no.empty())
    return fail(ErrorCode::kInvalidArgument, text::in_quotes(path) + " is no password's file: its text" + no);
  return password;
}

}  // namespace tally::etcd
