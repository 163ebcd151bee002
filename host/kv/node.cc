// The face of a Node, and what the environment says of it.

#include <cstdlib>
#include <utility>

#include "kv/node_impl.h"
#include "tally/kv_node.h"
#include "text/text.h"

namespace tally::kv {
namespace {

constexpr std::size_t kMostTokenBytes = 64;

const char* variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here changes it
  return value == nullptr || *value == 0 ? nullptr : value;
}

std::optional<std::uint64_t> number(const char* name, std::uint64_t low, std::uint64_t high) {
  const char* const value = variable(name);
  if (value == nullptr) return std::nullopt;
  const auto read = text::whole_number(value, low, high);
  if (!read)
    throw Failure(ErrorCode::kInvalidArgument, std::string(name) + ": '" + value + "' is not a number from " +
                                                   std::to_string(low) + " to " + std::to_string(high));
  return read;
}

[[noreturn]] void not_set(const char* name) {
  throw Failure(ErrorCode::kInvalidArgument,
                std::string(name) +
                    " is not set; every process of a key-value system needs "
                    "DMLC_ROLE, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI "
                    "and DMLC_PS_ROOT_PORT");
}

std::uint64_t needed(const char* name, std::uint64_t low, std::uint64_t high) {
  if (const auto value = number(name, low, high)) return *value;
  not_set(name);
}

Role role_of(const std::string& word) {
  if (word == "worker") return Role::kWorks;
  if (word == "server") return Role::kServes;
  if (word == "scheduler") return Role::kSchedules;
  throw Failure(ErrorCode::kInvalidArgument, "DMLC_ROLE: '" + word + "' is not worker, server or scheduler");
}

std::string token_of_environment() {
  if (const char* const path = variable("TALLY_KV_TOKEN_FILE")) {
    auto token = text::read_token(path, "TALLY_KV_TOKEN_FILE");
    if (!token) throw Failure(token.error().code, token.error().text());
    return *token;
  }
  const char* const token = variable("TALLY_KV_TOKEN");
  std::string word = token == nullptr ? "" : token;
  if (word.size() > kMostTokenBytes)
    throw Failure(ErrorCode::kInvalidArgument, "TALLY_KV_TOKEN has more than 64 bytes");
  return word;
}

}  // namespace

NodeOptions NodeOptions::from_environment() {
  NodeOptions options;
  const char* const role = variable("DMLC_ROLE");
  if (role != nullptr) options.role = role_of(role);
  options.workers = static_cast<int>(needed("DMLC_NUM_WORKER", 1, 4096));
  options.servers = static_cast<int>(needed("DMLC_NUM_SERVER", 0, 1024));
  options.port = static_cast<std::uint16_t>(needed("DMLC_PS_ROOT_PORT", 1, 65535));
  if (role == nullptr) not_set("DMLC_ROLE");
  const char* const root = variable("DMLC_PS_ROOT_URI");
  if (root == nullptr) not_set("DMLC_PS_ROOT_URI");
  options.root = root;
  if (const char* const host = variable("DMLC_NODE_HOST")) options.host = host;
  if (const auto rank = number("DMLC_RANK", 0, 4095)) options.rank = static_cast<int>(*rank);
  options.token = token_of_environment();
  if (const auto seconds = number("TALLY_JOIN_TIMEOUT", 1, 86'400))
    options.join_timeout = std::chrono::seconds(static_cast<std::int64_t>(*seconds));
  if (const auto bytes = number("TALLY_KV_QUEUE", 1 << 16, std::uint64_t{1} << 40))
    options.queue_bytes = *bytes;
  options.box =
      options.role == Role::kWorks && variable("TALLY_SWITCH") != nullptr && variable("TALLY_JOB") != nullptr;
  return options;
}

Node::Node(NodeOptions options) : impl_(std::make_shared<NodeImpl>(std::move(options))) {}
Node::~Node() = default;

Node& Node::process() {
  static Node node(NodeOptions::from_environment());
  return node;
}

void Node::start() { impl_->start(); }
void Node::finalize(bool barrier) { impl_->finalize(barrier); }
void Node::barrier(int customer_id, int groups) { impl_->barrier(customer_id, groups); }
void Node::on_exit(std::function<void()> function) { impl_->on_exit(std::move(function)); }
void Node::on_loss(std::function<void(const std::string&)> function) { impl_->on_loss(std::move(function)); }
const NodeOptions& Node::options() const noexcept { return impl_->options(); }
int Node::rank() const noexcept { return impl_->rank(); }
std::uint16_t Node::port() const noexcept { return impl_->port(); }
const std::vector<Range>& Node::ranges() const noexcept { return impl_->ranges(); }
NodeStatistics Node::statistics() const { return impl_->statistics(); }

}  // namespace tally::kv
