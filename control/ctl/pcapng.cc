#include "ctl/pcapng.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::ctl {
namespace {

enum BlockType : std::uint32_t { kSection = 0x0A0D0D0A, kInterface = 1, kEnhancedPacket = 6 };
enum OptionCode : std::uint16_t {
  kComment = 1,
  kInterfaceName = 2,
  kPacketFlags = 2,
  kUserApplication = 4,
  kTimeResolution = 9,
};
constexpr std::uint32_t kByteOrder = 0x1A2B3C4D;
constexpr std::uint16_t kEthernet = 1;
constexpr std::size_t kMostComment = 1'000;

// Little-endian, which the byte order of the section says.
class Block {
 public:
  explicit Block(BlockType type) { number<std::uint32_t>(type), number<std::uint32_t>(0); }

  template <class N>
  void number(N n) {
    for (std::size_t i = 0; i < sizeof n; ++i) out_ += static_cast<char>(n >> (8 * i) & 0xFF);
  }
  void bytes(std::span<const std::byte> some) {
    out_.append(reinterpret_cast<const char*>(some.data()), some.size());
    pad();
  }
  void option(OptionCode code, std::string_view value) {
    number<std::uint16_t>(code);
    number(static_cast<std::uint16_t>(value.size()));
    out_ += value;
    pad();
  }
  // Its length stands at both ends.
  std::string done() {
    number<std::uint32_t>(0);  // end of options
    const auto length = static_cast<std::uint32_t>(out_.size() + sizeof(std::uint32_t));
    number(length);
    for (std::size_t i = 0; i < sizeof length; ++i) out_[4 + i] = static_cast<char>(length >> (8 * i) & 0xFF);
    return std::move(out_);
  }

 private:
  void pad() { out_.resize((out_.size() + 3) / 4 * 4, '\0'); }

  std::string out_{};
};

}  // namespace

std::string pcapng_head(const std::string& program, const std::vector<std::string>& ports) {
  constexpr std::uint64_t kNotKnown = ~std::uint64_t{0};
  constexpr char kNanoseconds = 9;
  Block section(kSection);
  section.number(kByteOrder);
  section.number<std::uint16_t>(1);  // version 1.0
  section.number<std::uint16_t>(0);
  section.number(kNotKnown);  // its length
  section.option(kUserApplication, program);
  std::string out = section.done();
  for (const std::string& port : ports) {
    Block interface(kInterface);
    interface.number(kEthernet);
    interface.number<std::uint16_t>(0);
    interface.number<std::uint32_t>(0);  // no limit to what is captured
    interface.option(kInterfaceName, port);
    interface.option(kTimeResolution, {&kNanoseconds, 1});
    out += interface.done();
  }
  return out;
}

std::string pcapng_frame(const CapturedFrame& frame) {
  const auto captured = static_cast<std::uint32_t>(frame.bytes.size());
  Block block(kEnhancedPacket);
  block.number(frame.port);
  block.number(static_cast<std::uint32_t>(frame.unix_ns >> 32U));
  block.number(static_cast<std::uint32_t>(frame.unix_ns));
  block.number(captured);
  block.number(std::max(frame.length, captured));
  block.bytes(frame.bytes);
  const std::array<char, 4> direction{frame.out ? '\2' : '\1', 0, 0, 0};
  block.option(kPacketFlags, {direction.data(), direction.size()});
  if (!frame.comment.empty()) block.option(kComment, frame.comment.substr(0, kMostComment));
  return block.done();
}

}  // namespace tally::ctl
