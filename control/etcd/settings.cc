#include "etcd/settings.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>

#include "text/text.h"

namespace tally::etcd {
namespace {

struct FreeTls {
  void operator()(SSL_CTX* tls) const noexcept {
    ::SSL_CTX_free(tls);
    ::ERR_clear_error();  // else what was refused here would be told of the thread's next failure
  }
};
using Tls = std::unique_ptr<SSL_CTX, FreeTls>;

// A key with a password has none to offer here, instead of asking whoever sits at the terminal.
Tls make_tls() {
  Tls tls(::SSL_CTX_new(::TLS_client_method()));
  if (tls) ::SSL_CTX_set_default_passwd_cb(tls.get(), [](char*, int, int, void*) { return -1; });
  return tls;
}

bool takes_certificate(const Tls& tls, const std::string& path) {
  return tls && ::SSL_CTX_use_certificate_file(tls.get(), path.c_str(), SSL_FILETYPE_PEM) == 1;
}

}  // namespace

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

std::string objection_to_ca(const std::string& path) {
  const Tls tls = make_tls();
  if (tls && ::SSL_CTX_load_verify_locations(tls.get(), path.c_str(), nullptr) == 1) return {};
  return text::in_quotes(path) + " holds no certificates in PEM";
}

std::string objection_to_certificate(const std::string& path) {
  if (takes_certificate(make_tls(), path)) return {};
  return text::in_quotes(path) + " holds no certificate in PEM";
}

std::string objection_to_key(const std::string& path, const std::string& certificate) {
  const Tls tls = make_tls();
  if (!takes_certificate(tls, certificate)) return {};
  if (::SSL_CTX_use_PrivateKey_file(tls.get(), path.c_str(), SSL_FILETYPE_PEM) == 1) return {};
  const bool is_another = ERR_GET_REASON(::ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
  return text::in_quotes(path) + (is_another ? " is not the key of " + text::in_quotes(certificate)
                                             : " holds no key in PEM that has no password");
}

}  // namespace tally::etcd
