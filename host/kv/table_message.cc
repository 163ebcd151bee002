#include "kv/table_message.h"

#include <cstdio>
#include <cstring>
#include <type_traits>

#include "kv/slicing.h"

namespace tally::kv {
namespace {

struct TableHeader {
  std::uint8_t act;
  std::uint8_t rule;
  std::uint16_t table;
  std::uint32_t width;
  std::uint32_t most_hot;
  float rate;
  std::uint64_t every;
  std::uint64_t rounds;
  std::uint32_t set;
  std::uint32_t text;  // bytes
  std::uint64_t keys;  // with `width` values each, where the act carries rows
  std::uint64_t life;
  std::uint8_t hot;  // 0, 1
  std::uint8_t for_all;
  std::uint16_t least;
  std::uint32_t age;
};
static_assert(sizeof(TableHeader) == 64 && std::is_trivially_copyable_v<TableHeader>);

[[noreturn]] void object(const std::string& what, std::int64_t index = Failure::kNoIndex) {
  throw Failure(ErrorCode::kCorrupt, "a message of a table " + what, index);
}

// With all digits, so that those of two that differ do.
std::string name_of(float rate) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "rate %.9g", static_cast<double>(rate));
  return text;
}

std::string name_of(Rule rule) { return rule == Rule::kSum ? "rule sum" : "rule sgd"; }

}  // namespace

TableDifference difference_of(const TableTerms& one, const TableTerms& other) {
  const auto numbers = [](const char* name, auto a, auto b) {
    return TableDifference{name + std::to_string(a), name + std::to_string(b)};
  };
  if (one.width != other.width) return numbers("width ", one.width, other.width);
  if (one.rule != other.rule) return {name_of(one.rule), name_of(other.rule)};
  if (one.rate != other.rate) return {name_of(one.rate), name_of(other.rate)};
  if (one.age != other.age) return numbers("age ", one.age, other.age);  // most_hot may be of it
  if (one.most_hot != other.most_hot) return numbers("most_hot ", one.most_hot, other.most_hot);
  if (one.every != other.every) return numbers("every ", one.every, other.every);
  if (one.least != other.least) return numbers("least ", one.least, other.least);
  const auto way = [](bool hot) { return hot ? "a box for hot keys" : "no box for hot keys"; };
  return {way(one.hot), way(other.hot)};
}

SArray<std::byte> encode(const TableMessage& message) {
  const TableHeader header{static_cast<std::uint8_t>(message.act),
                           static_cast<std::uint8_t>(message.terms.rule),
                           static_cast<std::uint16_t>(message.table),
                           message.terms.width,
                           message.terms.most_hot,
                           message.terms.rate,
                           message.terms.every,
                           message.rounds,
                           message.set,
                           static_cast<std::uint32_t>(message.text.size()),
                           message.keys.size(),
                           message.life,
                           static_cast<std::uint8_t>(message.terms.hot ? 1 : 0),
                           static_cast<std::uint8_t>(message.for_all ? 1 : 0),
                           message.terms.least,
                           message.terms.age};
  const std::shared_ptr<std::byte[]> memory(new std::byte[sizeof header + message.keys.size_bytes() +
                                                          message.rows.size_bytes() + message.text.size()]);
  std::byte* at = memory.get();
  const auto put = [&at](const void* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  put(&header, sizeof header);
  put(message.keys.data(), message.keys.size_bytes());
  put(message.rows.data(), message.rows.size_bytes());
  put(message.text.data(), message.text.size());
  return {memory, memory.get(), static_cast<std::size_t>(at - memory.get())};
}

TableMessage decode_table_message(const SArray<std::byte>& bytes) {
  TableHeader header{};
  if (bytes.size() < sizeof header) object("is shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.act == 0 || header.act > static_cast<std::uint8_t>(kLastTableAct) || header.rule > 1 ||
      header.hot > 1 || header.for_all > 1 || header.life == 0)
    object("says nothing that is known");
  if (header.width == 0 || header.width > kMostTableWidth)
    object("is of a width of " + std::to_string(header.width));
  const std::size_t body = bytes.size() - sizeof header;
  const auto act = static_cast<TableAct>(header.act);
  const bool carries = act == TableAct::kPush || act == TableAct::kBring;
  if (header.keys > body / sizeof(Key)) object("is not as long as it says");
  const std::uint64_t rows = carries ? header.keys * header.width : 0;
  if (header.keys * sizeof(Key) + rows * sizeof(float) + header.text != body)
    object("is not as long as it says");
  TableMessage message;
  message.act = act;
  message.table = header.table;
  message.life = header.life;
  message.terms = {header.width, static_cast<Rule>(header.rule),
                   header.rate,  header.most_hot,
                   header.every, header.hot == 1,
                   header.least, header.age};
  message.rounds = header.rounds;
  message.set = header.set;
  message.for_all = header.for_all == 1;
  message.memory = bytes;
  const std::byte* at = bytes.data() + sizeof header;
  message.keys = {reinterpret_cast<const Key*>(at), header.keys};
  at += message.keys.size_bytes();
  message.rows = {reinterpret_cast<const float*>(at), rows};
  at += message.rows.size_bytes();
  message.text = {reinterpret_cast<const char*>(at), header.text};
  if (!message.keys.empty()) {
    if (const auto wrong = objection_to_keys(message.keys)) object("has keys: " + wrong->text, wrong->index);
  }
  return message;
}

}  // namespace tally::kv
