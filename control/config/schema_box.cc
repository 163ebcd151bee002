#include "schemas.h"

namespace tally {
namespace {

constexpr std::array<Choice<BoxSection::Mode>, 2> kMode{
    {{"inline", BoxSection::Mode::kInline}, {"one-arm", BoxSection::Mode::kOneArm}}};

template <class T>
ValueType<T> address(std::string form, Parsed<T> (*parse)(const std::string&)) {
  return scalar_type<T>(std::move(form), parse, [](const T& value) { return to_text(value); });
}

}  // namespace

const Schema<BoxSection>& box_schema() {
  static const Schema<BoxSection> schema{
      value_key(
          "ipv4", &BoxSection::ipv4,
          or_word("none", address<Cidr4>("an address such as 10.0.0.1/24", parse_cidr4)),
          "The box's own address, to which workers send, and its network. At least one of ipv4 and ipv6 "
          "is needed."),
      value_key("ipv6", &BoxSection::ipv6,
                or_word("none", address<Cidr6>("an address such as fd00::1/64", parse_cidr6)),
                "The same for IPv6."),
      value_key("mac", &BoxSection::mac,
                or_word("auto", address<Mac>("a MAC such as 02:00:00:00:00:01", parse_mac)),
                "The box's MAC on all its ports. auto: 02 and 40 bits made of the instance name."),
      value_key(
          "mode", &BoxSection::mode, one_of(kMode),
          "inline: the workers hang on the box's ports, and the box is their switch. one-arm: the box hangs "
          "on a switch, answers for its own address and forwards nothing."),
  };
  return schema;
}

}  // namespace tally
