#include "api/request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "config/diagnostic.h"
#include "text/text.h"

namespace tally::api {
namespace {

// Looks at every token before a tree is made of them: the parser alone would nest without end, keep the last
// of two members of one name, and make a float of 2^64.
class Examiner : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (keys_.back().size() >= kMaxMembers)
      return refuse(Code::kRequest, "an object has more than " + std::to_string(kMaxMembers) + " members",
                    "no parameter needs that");
    if (keys_.back().insert(name).second) return true;
    return refuse(Code::kRequest, "the member " + config::shown(name) + " stands twice in one object",
                  "remove one of them");
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(Code::kParse, "this is no JSON, from byte " + std::to_string(position) + " on",
                  "one JSON object in one line, UTF-8");
  }

  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return failure_; }

 private:
  bool value() { return true; }
  bool open() {
    if (keys_.size() >= kMaxDepth)
      return refuse(Code::kRequest,
                    "objects and lists are nested more than " + std::to_string(kMaxDepth) + " deep",
                    "no parameter needs that");
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool refuse(Code code, std::string message, const std::string& want) {
    failure_ = Failure{code, std::move(message), Json{{"want", want}}};
    return false;
  }

  std::vector<std::set<std::string>> keys_{};  // of each object, or empty of a list, that is open
  std::optional<Failure> failure_{};
};

Failure refused(std::string message, const std::string& want) {
  return {Code::kRequest, std::move(message), Json{{"want", want}}};
}

// A whole number that fits 64 bits, a short text or null. False: it is something else.
bool read_id(const Json& id, RequestId& out) {
  const bool text = id.is_string() && id.get_ref<const std::string&>().size() <= kMaxIdBytes;
  if (!text && !id.is_number_integer() && !id.is_null()) return false;
  out.text = dumped(id);
  return true;
}

std::optional<Failure> objection_to(const Json& root) {
  constexpr std::array<std::string_view, 4> kNames{"jsonrpc", "id", "method", "params"};
  for (const auto& [name, value] : root.items()) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      return refused("a request has no member " + config::shown(name), "jsonrpc, id, method, params");
  }
  const auto version = root.find("jsonrpc");
  if (version == root.end() || *version != "2.0")
    return refused("jsonrpc is missing or not \"2.0\"", "\"jsonrpc\": \"2.0\"");
  const auto method = root.find("method");
  if (method == root.end() || !method->is_string())
    return refused("method is missing or no text", "\"method\": \"job.list\", for example");
  const auto parameters = root.find("params");
  if (parameters != root.end() && !parameters->is_structured())
    return refused("params is no object", "an object such as {\"name\": \"resnet\"}");
  return std::nullopt;
}

}  // namespace

tl::expected<Json, Failure> read_json(std::string_view text) {
  // The library takes a zero byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    return tl::unexpected<Failure>(Failure{Code::kParse,
                                           "this is no JSON, from byte " + std::to_string(zero + 1) + " on",
                                           Json{{"want", "one JSON object in one line, UTF-8"}}});
  Examiner examiner;
  if (!Json::sax_parse(text.begin(), text.end(), &examiner))
    return tl::unexpected<Failure>(*examiner.failure());
  return Json::parse(text.begin(), text.end());
}

tl::expected<Request, BadRequest> read_request(std::string_view line) {
  const auto bad = [](RequestId id, Failure failure) {
    return tl::unexpected<BadRequest>(BadRequest{std::move(id), std::move(failure)});
  };
  if (line.size() > kMaxRequestBytes)
    return bad({}, refused("the request is longer than " + std::to_string(kMaxRequestBytes) + " bytes",
                           "a shorter one; tallyd --check reads long configurations"));
  auto read = read_json(line);
  if (!read) return bad({}, std::move(read.error()));
  Json& root = *read;
  if (root.is_array()) return bad({}, refused("batches are not served", "one request in each line"));
  if (!root.is_object())
    return bad({}, refused("a request is a JSON object",
                           "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"job.list\"}"));
  Request request;
  if (const auto id = root.find("id"); id != root.end()) {
    if (!read_id(*id, request.id))
      return bad({}, refused("id is neither a whole number of 64 bits, nor a text of at most " +
                                 std::to_string(kMaxIdBytes) + " bytes, nor null",
                             "\"id\": 1"));
    request.id.given = true;
  }
  if (auto no = objection_to(root)) return bad(request.id, std::move(*no));
  request.method = root["method"].get<std::string>();
  if (const auto parameters = root.find("params"); parameters != root.end())
    request.parameters = std::move(*parameters);
  return request;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string result_beginning(const RequestId& id) {
  return R"({"jsonrpc":"2.0","id":)" + id.text + R"(,"result":)";
}

std::string result_line(const RequestId& id, const Json& result) {
  return result_beginning(id) + dumped(result) + "}\n";
}

std::string failure_line(const RequestId& id, const Failure& failure) {
  std::string line = R"({"jsonrpc":"2.0","id":)" + id.text + R"(,"error":{"code":)" +
                     std::to_string(static_cast<int>(failure.code)) + R"(,"message":)" +
                     dumped(Json(failure.message));
  if (!failure.data.is_null()) line += R"(,"data":)" + dumped(failure.data);
  return line + "}}\n";
}

}  // namespace tally::api
