#include "kv/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tally/be.h"

namespace tally::kv {
namespace {

constexpr std::uint8_t kPush = 1;
constexpr std::uint8_t kPull = 2;
constexpr std::uint8_t kFailed = 4;

struct WireHeader {
  Be<std::uint32_t> magic;
  std::uint8_t type;
  std::uint8_t flags;
  std::uint8_t kind;
  std::uint8_t zero;
  Be<std::int32_t> app, customer, timestamp, cmd, priority;
  Be<std::uint32_t> keys, lens, text;
  Be<std::uint64_t> vals;
  Be<std::int64_t> index;
  Be<std::uint64_t> reserved;
};
static_assert(sizeof(WireHeader) == kFrameHeaderBytes);

bool known_kind(ValueKind kind) noexcept {
  const std::size_t bytes = bytes_of(kind);
  const int family = static_cast<int>(kind) & ~31;
  return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && family >= 32 && family <= 96;
}

}  // namespace

FrameSizes sizes_of(const Frame& frame) noexcept {
  return {frame.data.keys.size(), frame.data.vals.size(), frame.data.lens.size(), frame.text.size()};
}

FrameHeader header_of(const Frame& frame) noexcept {
  const FrameSizes sizes = sizes_of(frame);
  WireHeader wire{};
  wire.magic = Be<std::uint32_t>(kFrameMagic);
  wire.type = static_cast<std::uint8_t>(frame.type);
  wire.flags = static_cast<std::uint8_t>((frame.push ? kPush : 0) | (frame.pull ? kPull : 0) |
                                         (frame.failed ? kFailed : 0));
  wire.kind = static_cast<std::uint8_t>(frame.kind);
  wire.app = Be<std::int32_t>(frame.app);
  wire.customer = Be<std::int32_t>(frame.customer);
  wire.timestamp = Be<std::int32_t>(frame.timestamp);
  wire.cmd = Be<std::int32_t>(frame.cmd);
  wire.priority = Be<std::int32_t>(frame.priority);
  wire.keys = Be<std::uint32_t>(static_cast<std::uint32_t>(sizes.keys));
  wire.lens = Be<std::uint32_t>(static_cast<std::uint32_t>(sizes.lens));
  wire.text = Be<std::uint32_t>(static_cast<std::uint32_t>(sizes.text));
  wire.vals = Be<std::uint64_t>(sizes.vals);
  wire.index = Be<std::int64_t>(frame.index);
  FrameHeader bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<ParsedHeader> parse_header(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                         std::size_t most) noexcept {
  const auto wire = wire_at<WireHeader>(bytes.data());
  if (wire.magic.host() != kFrameMagic || wire.type < static_cast<std::uint8_t>(FrameType::kHello) ||
      wire.type > static_cast<std::uint8_t>(kLastFrameType) || wire.flags > (kPush | kPull | kFailed))
    return std::nullopt;
  ParsedHeader parsed;
  parsed.sizes = {wire.keys.host(), 0, wire.lens.host(), wire.text.host()};
  if (wire.vals.host() > most) return std::nullopt;  // before anything is added to it
  parsed.sizes.vals = wire.vals.host();
  if (parsed.sizes.total() > most) return std::nullopt;
  Frame& frame = parsed.frame;
  frame.type = static_cast<FrameType>(wire.type);
  frame.push = (wire.flags & kPush) != 0;
  frame.pull = (wire.flags & kPull) != 0;
  frame.failed = (wire.flags & kFailed) != 0;
  frame.kind = static_cast<ValueKind>(wire.kind);
  frame.app = wire.app.host();
  frame.customer = wire.customer.host();
  frame.timestamp = wire.timestamp.host();
  frame.cmd = wire.cmd.host();
  frame.priority = wire.priority.host();
  frame.index = wire.index.host();
  return parsed;
}

Frame with_body(ParsedHeader parsed, const std::shared_ptr<std::byte>& body) {
  const FrameSizes& sizes = parsed.sizes;
  std::byte* at = body.get();
  Frame frame = std::move(parsed.frame);
  frame.data.keys = SArray<Key>(body, reinterpret_cast<Key*>(at), sizes.keys);
  at += 8 * sizes.keys;
  frame.data.vals = SArray<std::byte>(body, at, sizes.vals);
  at += sizes.vals + sizes.padding();
  frame.data.lens = SArray<int>(body, reinterpret_cast<int*>(at), sizes.lens);
  at += 4 * sizes.lens;
  if (sizes.text != 0) frame.text.assign(reinterpret_cast<const char*>(at), sizes.text);
  return frame;
}

std::optional<Objection> objection_to_request(const Frame& frame) {
  if (!frame.push && !frame.pull) return Objection{"a request that neither pushes nor pulls"};
  if (!known_kind(frame.kind) || frame.data.vals.size() % bytes_of(frame.kind) != 0)
    return Objection{"the values are of no type that there is"};
  if (!frame.push && !frame.data.vals.empty()) return Objection{"values in a request that pushes none"};
  const std::span<const Key> keys(frame.data.keys.data(), frame.data.keys.size());
  const std::span<const int> lens(frame.data.lens.data(), frame.data.lens.size());
  if (auto wrong = objection_to_keys(keys)) return wrong;
  return objection_to_lens(
      keys.size(), lens,
      frame.push ? std::optional(frame.data.vals.size() / bytes_of(frame.kind)) : std::nullopt);
}

std::optional<Objection> objection_to_reply(const Frame& frame, std::size_t keys, bool pull) {
  if (!pull) return std::nullopt;
  if (!known_kind(frame.kind) || frame.data.vals.size() % bytes_of(frame.kind) != 0)
    return Objection{"the values of the answer are of no type that there is"};
  const std::size_t answered = frame.data.keys.size();
  if (answered != keys)
    return Objection{"the answer has " + std::to_string(answered) + " keys for a pull of " +
                     std::to_string(keys)};
  return objection_to_lens(keys, std::span<const int>(frame.data.lens.data(), frame.data.lens.size()),
                           frame.data.vals.size() / bytes_of(frame.kind));
}

}  // namespace tally::kv
