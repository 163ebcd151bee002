#include "udp/udp_transport.h"

#include <poll.h>
#include <algorithm>
#include <array>
#include <ctime>

#include "random/random.h"
#include "tally/mix64.h"
#include "tally/mtu.h"
#include "text/text.h"

namespace tally::udp {
namespace {

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "TALLY_TRANSPORT");
}

std::string said(std::string_view key, std::string_view value) {
  return std::string(key).append("=").append(value);
}

template <class T>
Result<void> number(std::string_view key, std::string_view value, std::uint32_t least, std::uint32_t most,
                    T& to) {
  const auto n = text::whole_number(value, least, most);
  if (!n)
    return bad(said(key, value) + ": must be a number from " + std::to_string(least) + " to " +
               std::to_string(most));
  to = static_cast<T>(*n);
  return {};
}

Result<void> take(std::string_view key, std::string_view value, UdpSettings& settings) {
  if (key == "gso") {
    if (value != "on" && value != "off" && value != "auto")
      return bad(said(key, value) + ": must be on, off or auto");
    settings.gso = value == "on" ? Gso::kOn : value == "off" ? Gso::kOff : Gso::kAuto;
    return {};
  }
  if (key == "buffer") {
    const auto bytes = text::parse_bytes(value);
    if (!bytes || *bytes < UdpSettings::kLeastBuffer || *bytes > UdpSettings::kMostBuffer)
      return bad(said(key, value) + ": must be a size from 64KiB to 1GiB, such as 4MiB");
    settings.buffer = *bytes;
    return {};
  }
  if (key == "backlog")
    return number(key, value, UdpSettings::kLeastBacklog, UdpSettings::kMostBacklog, settings.backlog);
  if (key == "port") return number(key, value, 1024, 65'535, settings.port);
  if (key == "busy-poll") return number(key, value, 1, 1000, settings.busy_poll_us);
  return bad(text::in_quotes(key) +
             " is no option of udp: there are port=, buffer=, backlog=, gso= and busy-poll=");
}

}  // namespace

Result<UdpSettings> parse_settings(std::string_view text) {
  UdpSettings settings;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(word.size() + (word.size() < text.size() ? 1 : 0));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return bad(text::in_quotes(word) + " is not KEY=VALUE: write udp, or for example udp:buffer=8MiB");
    if (auto taken = take(word.substr(0, equals), word.substr(equals + 1), settings); !taken)
      return tl::unexpected(taken.error());
  }
  return settings;
}

namespace {

constexpr std::uint16_t kFirstPort = 49'152;  // RFC 6335; above the box's own ports
constexpr unsigned kPortTries = 256;
constexpr TimeNs kLongestWait = 3600 * kSecond;
constexpr TimeNs kQueueRetry = kMillisecond;  // an interface's queue does not tell when it has room

// The port that was asked for, or the first free one of a sequence that `seed` makes: who comes again with
// the same seed gets the same port.
Result<void> bind_port(const UdpSocket& socket, UdpAddress to, std::uint16_t wanted, std::uint64_t seed) {
  int error = EADDRINUSE;
  for (unsigned i = 0; i < kPortTries && error == EADDRINUSE; ++i) {
    seed = mix64(seed + 1);
    to.set_port(wanted != 0 ? wanted : static_cast<std::uint16_t>(kFirstPort + seed % (65'536 - kFirstPort)));
    error = socket.bind(to);
    if (wanted != 0) break;
  }
  if (error == 0) return {};
  if (wanted != 0 && error == EADDRINUSE)
    return fail(
        ErrorCode::kSystem,
        "port=" + std::to_string(wanted) + ": another process has it; leave port= out, or see: ss -ulpn",
        "TALLY_TRANSPORT");
  return system_failure("cannot bind a UDP socket to " + to.text(), error, "TALLY_ADDRESS");
}

Result<void> set_busy_poll(const UdpSocket& socket, std::uint32_t us) {
  if (us == 0) return {};
  const int error = socket.set(SOL_SOCKET, SO_BUSY_POLL, static_cast<int>(us));
  if (error == EPERM)
    return fail(ErrorCode::kSystem,
                "busy-poll=" + std::to_string(us) +
                    " needs CAP_NET_ADMIN; or give it to all sockets: sysctl -w net.core.busy_read=" +
                    std::to_string(us),
                "TALLY_TRANSPORT");
  if (error != 0) return system_failure("busy-poll=" + std::to_string(us), error, "TALLY_TRANSPORT");
  // Without CAP_NET_ADMIN: interrupts may still do the card's work.
  static_cast<void>(socket.set(SOL_SOCKET, SO_PREFER_BUSY_POLL, 1));
  return {};
}

// An interface that takes messages uncut may be one end of a veth whose other end is a box's, which would see
// one giant frame and drop it.
bool wants_segments(Gso gso, bool uncut) noexcept { return gso == Gso::kOn || (gso == Gso::kAuto && !uncut); }

std::string kib(std::size_t bytes) { return std::to_string(bytes >> 10) + " KiB"; }

std::string buffer_text(const char* name, const char* limit, std::size_t granted, std::size_t wanted) {
  std::string text = std::string(", ") + name + " buffer " + kib(granted);
  if (granted < wanted)
    text += " of " + kib(wanted) + " wanted (sysctl -w net.core." + limit + "=" + std::to_string(wanted) +
            " allows it, or CAP_NET_ADMIN)";
  return text;
}

}  // namespace

Result<std::unique_ptr<UdpTransport>> UdpTransport::open(const TransportOptions& options) {
  Parts parts;
  auto settings = parse_settings(options.device);
  if (!settings) return tl::unexpected(settings.error());
  parts.settings = *settings;
  auto ends = parse_ends(options.box, options.address);
  if (!ends) return tl::unexpected(ends.error());
  parts.ends = *ends;
  auto route = find_route(ends->box, ends->own);
  if (!route) return tl::unexpected(route.error());
  parts.route = std::move(*route);
  if (options.mtu < kLeastMtu || parts.route.mtu < kLeastMtu)
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(std::min<std::uint32_t>(options.mtu, parts.route.mtu)) +
                    ": the path to the box must carry " + std::to_string(kLeastMtu) + " bytes or more",
                "TALLY_MTU");
  parts.mtu = static_cast<std::uint16_t>(
      std::min({std::uint32_t{options.mtu}, parts.route.mtu, std::uint32_t{kGreatestMtu}}));

  const std::uint64_t seed = options.identity != 0 ? options.identity : random::word();
  auto socket = UdpSocket::open(ends->box.family());
  if (!socket) return tl::unexpected(socket.error());
  parts.socket = std::move(*socket);
  parts.buffers = parts.socket.grow_buffers(settings->buffer);
  if (auto polls = set_busy_poll(parts.socket, settings->busy_poll_us); !polls)
    return tl::unexpected(polls.error());
  if (auto bound = bind_port(parts.socket, parts.route.source, settings->port, seed); !bound)
    return tl::unexpected(bound.error());
  std::unique_ptr<UdpTransport> made(new UdpTransport(std::move(parts)));
  if (const int error = made->event_.error(); error != 0) return system_failure("no eventfd", error);
  return made;
}

UdpTransport::UdpTransport(Parts parts)
    : ends_(parts.ends),
      settings_(parts.settings),
      route_(std::move(parts.route)),
      uncut_(takes_uncut_udp(route_.interface_name).value_or(true)),
      segmented_(wants_segments(settings_.gso, uncut_)),
      socket_(std::move(parts.socket)),
      buffers_(parts.buffers),
      send_wanted_(settings_.buffer),
      mtu_(parts.mtu),
      most_elements_(elements_that_fit(mtu_, ends_.box.ipv4())),
      boxes_{ends_.box},
      receiver_(ends_.box, most_bytes(), errors_),
      sender_(socket_.fd(), ends_.box, most_bytes(), segmented_, errors_) {}

std::size_t UdpTransport::most_bytes() const noexcept { return mtu_ - ip_udp_bytes(ends_.box.ipv4()); }

std::size_t UdpTransport::receive(const DatagramSink& sink) {
  static_cast<void>(sender_.flush());  // what waits has no other caller when the engine is done
  std::size_t handed = receiver_.receive(socket_.fd(), sink);
  if (group_.joined()) handed += receiver_.receive(group_.socket().fd(), sink);
  if (errors_.take_queued()) drain_errors(socket_.fd(), errors_);
  return handed;
}

std::span<Outbound> UdpTransport::lend(std::size_t wanted, std::size_t bytes) {
  if (reported_at_ != 0) {
    if (steady_now() < reported_at_) return {};
    reported_at_ = 0;
  }
  return sender_.lend(wanted, bytes);
}

Result<void> UdpTransport::set_boxes(std::span<const BoxAddress> boxes) {
  std::vector<UdpAddress> next;
  next.reserve(boxes.size());
  for (const BoxAddress& box : boxes)
    next.push_back(box.address == Ipv6{} ? ends_.box : UdpAddress(box.address, kBasePort));
  bool uncut = false;
  for (const UdpAddress& box : next) {
    if (is_known(box)) continue;
    if (box.family() != ends_.box.family())
      return fail(ErrorCode::kInvalidArgument,
                  box.ip_text() + ", another box of the job, and " + ends_.box.ip_text() +
                      " are not both IPv4 or both IPv6",
                  "TALLY_SWITCH");
    UdpAddress own = address();
    own.set_port(0);
    const auto route = find_route(box, own);
    if (!route) return tl::unexpected(route.error());
    if (route->mtu < mtu_)
      return fail(ErrorCode::kInvalidArgument,
                  std::to_string(mtu_) + ": the path to " + box.ip_text() +
                      ", another box of the job, carries " + std::to_string(route->mtu) + " bytes",
                  "TALLY_MTU");
    uncut = uncut || takes_uncut_udp(route->interface_name).value_or(true);
  }
  const bool same = std::equal(next.begin(), next.end(), boxes_.begin(), boxes_.end(),
                               [](const UdpAddress& a, const UdpAddress& b) { return a.same_ip(b); });
  if (same) return {};
  boxes_ = std::move(next);
  if (segmented_ && !wants_segments(settings_.gso, uncut)) sender_.stop_segmenting();
  receiver_.set_boxes(boxes_);
  sender_.set_boxes(boxes_);
  return {};
}

bool UdpTransport::is_known(const UdpAddress& box) const noexcept {
  return std::any_of(boxes_.begin(), boxes_.end(), [&box](const UdpAddress& b) { return b.same_ip(box); });
}

void UdpTransport::joined(const engine::Membership& membership) {
  backlog_.start(membership.window);
  limit_backlog(settings_.backlog != 0 ? settings_.backlog : backlog_.limit());
  group_trouble_.clear();
  if (membership.results != ResultsMode::kMulticast) {
    reported_at_ = 0;
    return group_.leave();
  }
  GroupAddress to{UdpAddress(membership.group, membership.group_port), route_.interface};
  // The way to the box may have changed since the last epoch.
  if (const auto route = find_route(ends_.box, ends_.own)) to.interface = route->interface;
  const auto joined = group_.join(to, settings_.buffer);
  if (!joined) {
    reported_at_ = 0;
    group_trouble_ = joined.error().what + ": results by multicast do not arrive, each is asked for";
  } else if (*joined) {
    reported_at_ = steady_now() + report_delay();
  }
}

void UdpTransport::limit_backlog(std::uint32_t datagrams) noexcept {
  const std::size_t wanted =
      datagrams == 0 ? settings_.buffer : std::min(settings_.buffer, send_buffer_of(datagrams, most_bytes()));
  if (wanted == send_wanted_) return;
  send_wanted_ = wanted;
  buffers_.send = socket_.send_buffer(wanted);
}

void UdpTransport::wait(TimeNs now, TimeNs until) {
  const UdpSender::Waits waits = sender_.waits();
  if (waits == UdpSender::Waits::kSocket && settings_.backlog == 0 &&
      backlog_.full(now, sender_.counters().sent))
    limit_backlog(backlog_.limit());
  if (until <= now) return;
  TimeNs longest = std::min(until - now, kLongestWait);
  if (waits == UdpSender::Waits::kQueue) longest = std::min(longest, kQueueRetry);
  const bool writable = waits == UdpSender::Waits::kSocket;
  std::array<pollfd, 3> all{{{socket_.fd(), static_cast<short>(writable ? POLLIN | POLLOUT : POLLIN), 0},
                             {event_.fd(), POLLIN, 0},
                             {group_.socket().fd(), POLLIN, 0}}};  // -1: passed over
  const timespec patience{static_cast<time_t>(longest / kSecond), static_cast<long>(longest % kSecond)};
  if (ppoll(all.data(), all.size(), &patience, nullptr) <= 0) return;
  if ((all[1].revents & POLLIN) != 0) event_.clear();
  if ((all[0].revents & POLLERR) != 0) drain_errors(socket_.fd(), errors_);
  if ((all[2].revents & POLLERR) != 0) drain_errors(group_.socket().fd(), errors_);
}

std::string UdpTransport::describe() const {
  std::string text = "UDP " + address().text();
  if (!route_.interface_name.empty()) text += " on " + route_.interface_name;
  text += ", MTU " + std::to_string(mtu_);
  if (route_.mtu > mtu_) text += " (the route carries " + std::to_string(route_.mtu) + ")";
  text += buffer_text("receive", "rmem_max", buffers_.receive, settings_.buffer) +
          buffer_text("send", "wmem_max", buffers_.send, send_wanted_);
  if (segmented_) text += sender_.segmentation_refused() ? ", GSO refused by the kernel, off" : ", GSO";
  if (sender_.segmented() && uncut_)
    text += " (" + (route_.interface_name.empty() ? std::string("the interface") : route_.interface_name) +
            " may pass bursts on uncut: a box at the other end of a veth would lose them)";
  if (settings_.busy_poll_us != 0) text += ", busy-poll " + std::to_string(settings_.busy_poll_us) + " us";
  if (group_.joined()) text += ", group " + group_.address().group.text();
  return text;
}

std::string UdpTransport::trouble() const {
  std::string text = errors_.text(ends_.box, route_.interface_name);
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (const std::uint64_t lost = socket_.overruns() + group_.socket().overruns(); lost != 0)
    add(std::to_string(lost) +
        " datagrams lost because the receive buffer was full, or damaged (buffer= is " +
        kib(settings_.buffer) + ", granted " + kib(buffers_.receive) + ", net.core.rmem_max limits it)");
  if (!group_trouble_.empty()) add(group_trouble_);
  return text;
}

}  // namespace tally::udp
