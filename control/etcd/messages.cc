#include "etcd/messages.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/base64.h"
#include "text/text.h"

namespace tally::etcd {
namespace {

using Json = nlohmann::json;
using fleet::Fault;

// Codes of gRPC, as the gateway tells them.
constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kResourceExhausted = 8;
constexpr int kFailedPrecondition = 9;
constexpr int kOutOfRange = 11;
constexpr int kUnauthenticated = 16;

// What an answer has that is not as etcd writes it.
struct NotUnderstood {};

Json parsed(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) throw NotUnderstood{};
  return json;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json& member(const Json& object, const char* name) {
  static const Json nothing;
  if (!object.is_object()) throw NotUnderstood{};
  const auto at = object.find(name);
  return at == object.end() ? nothing : *at;
}

std::int64_t number(const Json& object, const char* name) {
  const Json& json = member(object, name);
  if (json.is_null()) return 0;
  if (!json.is_string()) throw NotUnderstood{};
  const auto& text = json.get_ref<const std::string&>();
  std::int64_t n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) throw NotUnderstood{};
  return n;
}

std::string bytes(const Json& object, const char* name) {
  const Json& json = member(object, name);
  if (json.is_null()) return {};
  if (!json.is_string()) throw NotUnderstood{};
  auto decoded = text::from_base64(json.get_ref<const std::string&>());
  if (!decoded) throw NotUnderstood{};
  return std::move(*decoded);
}

std::string words(const Json& object, const char* name) {
  const Json& json = member(object, name);
  return json.is_string() ? text::cleaned(json.get_ref<const std::string&>()) : std::string{};
}

bool flag(const Json& object, const char* name) {
  const Json& json = member(object, name);
  if (!json.is_null() && !json.is_boolean()) throw NotUnderstood{};
  return json.is_boolean() && json.get<bool>();
}

const Json& list(const Json& object, const char* name) {
  static const Json nothing = Json::array();
  const Json& json = member(object, name);
  if (json.is_null()) return nothing;
  if (!json.is_array()) throw NotUnderstood{};
  return json;
}

// The first key behind all that begin with `prefix`.
std::string end_of(std::string prefix) {
  while (!prefix.empty() && static_cast<std::uint8_t>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return {'\0'};  // to the end of all keys
  prefix.back() = static_cast<char>(static_cast<std::uint8_t>(prefix.back()) + 1);
  return prefix;
}

void add_range(Json& json, const fleet::KeyRange& what) {
  json["key"] = text::base64(what.key);
  if (what.prefix) json["range_end"] = text::base64(end_of(what.key));
}

Json body_of(const fleet::Read& read) {
  Json json = Json::object();
  add_range(json, read.what);
  if (read.newest) {
    json["limit"] = "1";
    json["keys_only"] = true;
    json["sort_order"] = "DESCEND";
    json["sort_target"] = "MOD";
  }
  return json;
}

Json body_of(const fleet::Put& put) {
  Json json{{"key", text::base64(put.key)}, {"value", text::base64(put.value)}};
  if (put.lease != 0) json["lease"] = std::to_string(put.lease);
  return json;
}

Json body_of(const fleet::Erase& erase) {
  Json json = Json::object();
  add_range(json, erase.what);
  return json;
}

Json body_of(const fleet::EraseUpTo& erase) {
  return {{"key", text::base64(erase.key)}, {"range_end", text::base64(erase.end)}};
}

Json body_of(const std::vector<fleet::Step>& steps) {
  Json all = Json::array();
  for (const fleet::Step& step : steps) {
    const char* const name = std::holds_alternative<fleet::Read>(step)  ? "request_range"
                             : std::holds_alternative<fleet::Put>(step) ? "request_put"
                                                                        : "request_delete_range";
    all.push_back(Json{{name, std::visit([](const auto& one) { return body_of(one); }, step)}});
  }
  return all;
}

Json body_of(const fleet::Compare& compare) {
  Json json{{"key", text::base64(compare.key)}, {"result", "EQUAL"}};
  switch (compare.of) {
    case fleet::Compare::Of::kCreated:
      json["target"] = "CREATE";
      json["create_revision"] = std::to_string(compare.revision);
      break;
    case fleet::Compare::Of::kModified:
      json["target"] = "MOD";
      json["mod_revision"] = std::to_string(compare.revision);
      break;
    case fleet::Compare::Of::kValue:
      json["target"] = "VALUE";
      json["value"] = text::base64(compare.value);
      break;
  }
  return json;
}

Json body_of(const fleet::Transaction& transaction) {
  Json compare = Json::array();
  for (const fleet::Compare& one : transaction.compare) compare.push_back(body_of(one));
  return {{"compare", std::move(compare)},
          {"success", body_of(transaction.then)},
          {"failure", body_of(transaction.otherwise)}};
}

Json body_of(const fleet::Grant& grant) { return {{"TTL", std::to_string(grant.ttl / kSecond)}}; }
Json body_of(const fleet::KeepAlive& beat) { return {{"ID", std::to_string(beat.lease)}}; }
Json body_of(const fleet::Revoke& revoke) { return {{"ID", std::to_string(revoke.lease)}}; }

const char* path_of(const fleet::Request& request) {
  struct Path {
    const char* operator()(const fleet::Read&) const noexcept { return "/v3/kv/range"; }
    const char* operator()(const fleet::Put&) const noexcept { return "/v3/kv/put"; }
    const char* operator()(const fleet::Erase&) const noexcept { return "/v3/kv/deleterange"; }
    const char* operator()(const fleet::Transaction&) const noexcept { return "/v3/kv/txn"; }
    const char* operator()(const fleet::Grant&) const noexcept { return "/v3/lease/grant"; }
    const char* operator()(const fleet::KeepAlive&) const noexcept { return "/v3/lease/keepalive"; }
    const char* operator()(const fleet::Revoke&) const noexcept { return "/v3/lease/revoke"; }
  };
  return std::visit(Path{}, request);
}

fleet::Pair pair_in(const Json& json) {
  return {bytes(json, "key"), bytes(json, "value"), number(json, "create_revision"),
          number(json, "mod_revision"), number(json, "lease")};
}

std::vector<fleet::Pair> pairs_in(const Json& range) {
  std::vector<fleet::Pair> pairs;
  for (const Json& one : list(range, "kvs")) pairs.push_back(pair_in(one));
  return pairs;
}

TimeNs seconds(std::int64_t n) { return n <= 0 ? 0 : static_cast<TimeNs>(n) * kSecond; }

fleet::Reply reply_in(const fleet::Request& request, std::string_view body) {
  Json json = parsed(body);
  // A keep-alive is a stream to etcd; the gateway wraps what comes of one.
  if (std::holds_alternative<fleet::KeepAlive>(request)) json = Json(member(json, "result"));
  fleet::Reply reply;
  reply.revision = number(member(json, "header"), "revision");
  if (std::holds_alternative<fleet::Read>(request)) {
    reply.pairs = pairs_in(json);
    reply.count = static_cast<std::uint64_t>(number(json, "count"));
  } else if (std::holds_alternative<fleet::Transaction>(request)) {
    reply.held = flag(json, "succeeded");
    for (const Json& one : list(json, "responses")) {
      if (const Json& range = member(one, "response_range"); !range.is_null())
        reply.reads.push_back(pairs_in(range));
    }
  } else if (std::holds_alternative<fleet::Grant>(request)) {
    reply.lease = number(json, "ID");
    reply.ttl = seconds(number(json, "TTL"));
    if (reply.lease == 0) throw NotUnderstood{};
  } else if (std::holds_alternative<fleet::KeepAlive>(request)) {
    reply.ttl = seconds(number(json, "TTL"));
  }
  return reply;
}

// It asks for a token, or for a newer one: it knows this one no more, or what users may was changed since.
bool is_about_token(std::string_view message) {
  const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
  return says("auth token") || says("user name is empty") || says("revision of auth store is old");
}

Fault fault_of(int code, std::string_view message) {
  const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
  switch (code) {
    case kInvalidArgument:
      if (says("request is too large")) return Fault::kTooLarge;
      return says("authentication failed") || is_about_token(message) ? Fault::kRefused : Fault::kInvalid;
    case kNotFound:
      return says("lease not found") ? Fault::kNoLease : Fault::kInvalid;
    case kPermissionDenied:
    case kUnauthenticated:
    case kResourceExhausted:  // its quota of disk, most often: a person has to look
    case kFailedPrecondition:
      return Fault::kRefused;
    case kOutOfRange:
      return says("compacted") ? Fault::kCompacted : Fault::kInvalid;
    default:
      return Fault::kUnreachable;
  }
}

}  // namespace

Call call_of(const fleet::Request& request) {
  return {path_of(request), dumped(std::visit([](const auto& one) { return body_of(one); }, request))};
}

Call authentication(const std::string& user, const std::string& password) {
  return {"/v3/auth/authenticate", dumped(Json{{"name", user}, {"password", password}})};
}

Call watch_of(const std::string& prefix, fleet::Revision from) {
  Json create = Json::object();
  add_range(create, {prefix, true});
  create["start_revision"] = std::to_string(from);
  return {"/v3/watch", dumped(Json{{"create_request", std::move(create)}})};
}

bool is_repeatable(const fleet::Request& request) noexcept {
  return std::holds_alternative<fleet::Read>(request) || std::holds_alternative<fleet::KeepAlive>(request);
}

Refusal read_refusal(int status, std::string_view body) {
  const Json json = Json::parse(body.begin(), body.end(), nullptr, false);
  const bool etcd = json.is_object() && json.contains("code") && json["code"].is_number_integer() &&
                    json.contains("message") && json["message"].is_string();
  // Whatever is there, it is not etcd: it has done nothing.
  if (!etcd)
    return {.error = {Fault::kUnreachable,
                      "what answers there is no etcd: HTTP status " + std::to_string(status)}};
  const int code = json["code"].get<int>();
  const std::string message = text::cleaned(json["message"].get_ref<const std::string&>());
  Refusal refusal{.error = {fault_of(code, message), "etcd says: " + message}};
  refusal.error.perhaps = refusal.error.fault == Fault::kUnreachable;
  if (code == kUnauthenticated || (code == kInvalidArgument && is_about_token(message)))
    refusal.kind = Refusal::Kind::kNoToken;
  if (code == kFailedPrecondition && message.find("authentication is not enabled") != std::string::npos)
    refusal.kind = Refusal::Kind::kNoAuth;
  return refusal;
}

std::optional<fleet::Reply> read_reply(const fleet::Request& request, std::string_view body) {
  try {
    return reply_in(request, body);
  } catch (const NotUnderstood&) {
    return std::nullopt;
  }
}

std::optional<std::string> read_token(std::string_view body) {
  try {
    const Json json = parsed(body);
    const Json& token = member(json, "token");
    if (!token.is_string()) return std::nullopt;
    auto text = token.get<std::string>();
    // It becomes the field of a header.
    const bool sound = std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    return sound && !text.empty() ? std::optional<std::string>(std::move(text)) : std::nullopt;
  } catch (const NotUnderstood&) {
    return std::nullopt;
  }
}

std::optional<WatchLine> read_watch_line(std::string_view line) {
  try {
    const Json json = parsed(line);
    WatchLine out;
    if (const Json& error = member(json, "error"); !error.is_null()) {
      out.over = true;
      out.why = "etcd says: " + words(error, "message");
      out.no_token = is_about_token(out.why);
      return out;
    }
    const Json& result = member(json, "result");
    if (!result.is_object()) return std::nullopt;
    if (flag(result, "canceled")) {
      out.over = true;
      out.compacted = number(result, "compact_revision") != 0;
      const std::string reason = words(result, "cancel_reason");
      out.why = out.compacted ? "etcd has forgotten changes up to revision " +
                                    std::to_string(number(result, "compact_revision"))
                              : "etcd ends the watch" + (reason.empty() ? "" : ": " + reason);
      out.no_token = is_about_token(reason);
      return out;
    }
    for (const Json& event : list(result, "events")) {
      const Json& type = member(event, "type");
      const bool erased = type.is_string() && type.get_ref<const std::string&>() == "DELETE";
      fleet::Change change{erased, pair_in(member(event, "kv"))};
      // That of the header is the store's own, and more changes may follow below it.
      out.last = std::max(out.last, change.pair.modified);
      out.changes.push_back(std::move(change));
    }
    return out;
  } catch (const NotUnderstood&) {
    return std::nullopt;
  }
}

}  // namespace tally::etcd
