#include "cluster/addresses.h"

#include <algorithm>
#include <utility>

#include "cluster/names.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::cluster {
namespace {

using config::complain;
using config::Complaint;
using config::Parsed;
using config::shown;
using config::Written;

constexpr const char* kNetworkForm =
    "a network such as 10.0.1.0/24, or a range of them such as 10.0.[1-16].0/24";
constexpr const char* kAddressForm = "an address such as 10.0.1.1, or a range of them such as 10.0.[1-16].1";
constexpr std::uint8_t kMappedBits = 96;

// The same without the bits behind the prefix.
Ipv6 first_of(Ipv6 address, std::uint8_t prefix) noexcept {
  for (std::size_t bit = prefix; bit < 128; ++bit)
    address[bit / 8] = static_cast<std::uint8_t>(address[bit / 8] & ~(0x80U >> (bit % 8)));
  return address;
}

Parsed<Ipv6> parse_address(const std::string& text) {
  const auto address = text::ip_address(text);
  if (!address && text.find('/') != std::string::npos)
    return complain(shown(text) + " has a network length, and an address has none",
                    "write " + text.substr(0, text.find('/')));
  if (!address) return complain(shown(text) + " is no address", std::string("write ") + kAddressForm);
  return *address;
}

Parsed<IpNetwork> parse_network(const std::string& text) {
  const std::string help = std::string("write ") + kNetworkForm;
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    return complain(shown(text) + " has no network length", "write it behind the address, such as /24");
  const auto address = text::ip_address(text.substr(0, slash));
  if (!address) return complain(shown(text.substr(0, slash)) + " is no address", help);
  const bool is4 = is_mapped_ipv4(*address);
  const std::uint64_t longest = is4 ? 32 : 128;
  const auto length = text::whole_number(text.substr(slash + 1), 1, longest);
  if (!length)
    return complain(shown(text) + ": the network length must be 1 to " + std::to_string(longest), help);
  const auto prefix = static_cast<std::uint8_t>(*length + (is4 ? kMappedBits : 0));
  const IpNetwork network{first_of(*address, prefix), prefix};
  if (network.address != *address)
    return complain(shown(text) + " is an address in a network",
                    "write the network: " + network_text(network));
  return network;
}

// All texts that a range stands for, each read by `parse`.
template <class T>
Parsed<std::vector<T>> parse_range(const std::string& text, Parsed<T> (*parse)(const std::string&)) {
  auto all = expanded(text);
  if (!all) return tl::unexpected<Complaint>(std::move(all.error()));
  std::vector<T> out;
  out.reserve(all->size());
  for (const std::string& one : *all) {
    auto value = parse(one);
    if (!value) return tl::unexpected<Complaint>(std::move(value.error()));
    out.push_back(std::move(*value));
  }
  return out;
}

template <class T>
config::ValueType<std::vector<T>> range_type(const std::string& form,
                                             Parsed<std::vector<T>> (*parse)(const std::string&),
                                             std::string (*print)(const T&)) {
  return {form + ", or a list of such",
          [=](const Written& w) -> std::optional<std::vector<T>> {
            std::vector<T> all;
            const bool good = read_scalars<std::vector<T>>(
                w, parse, form, [&](const Written& /*at*/, const std::vector<T>& values) {
                  all.insert(all.end(), values.begin(), values.end());
                  return true;
                });
            return good ? std::optional(std::move(all)) : std::nullopt;
          },
          [=](const std::vector<T>& all) { return "[" + text::listed(all, ", ", print) + "]"; }};
}

std::string printed(const Ipv6& address) { return members::address_text(address); }

}  // namespace

bool IpNetwork::contains(const Ipv6& other) const noexcept {
  const std::size_t whole = prefix / 8;
  const unsigned rest = prefix % 8;
  return std::equal(address.begin(), address.begin() + whole, other.begin()) &&
         (rest == 0 || (address[whole] ^ other[whole]) >> (8 - rest) == 0);
}

std::string network_text(const IpNetwork& network) {
  const unsigned bits = network.prefix - (is_mapped_ipv4(network.address) ? kMappedBits : 0U);
  return members::address_text(network.address) + "/" + std::to_string(bits);
}

Parsed<std::vector<IpNetwork>> parse_networks(const std::string& text) {
  return parse_range(text, parse_network);
}

Parsed<std::vector<Ipv6>> parse_addresses(const std::string& text) {
  return parse_range(text, parse_address);
}

config::ValueType<std::vector<IpNetwork>> networks_type() {
  return range_type<IpNetwork>(kNetworkForm, parse_networks, network_text);
}

config::ValueType<std::vector<Ipv6>> addresses_type() {
  return range_type<Ipv6>(kAddressForm, parse_addresses, printed);
}

}  // namespace tally::cluster
