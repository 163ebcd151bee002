#include "members/box_state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "members/texts.h"
#include "tally/mix64.h"

namespace tally::members {

// The random words are the caller's: a generator stuck at one value must not become an endless loop here.
std::uint64_t EpochSource::nonzero() {
  const std::uint64_t word = random_();
  return word != 0 ? word : 1;
}

Epoch EpochSource::epoch(const std::function<bool(Epoch)>& taken) {
  auto candidate = static_cast<std::uint32_t>(random_());
  while (candidate == 0 || taken(Epoch{candidate})) ++candidate;
  return Epoch{candidate};
}

void Outbox::send(Header header, std::span<const std::byte> payload, const jobs::Binding& to) {
  const auto& crc32c = kernels::best_kernels().crc32c;
  header.version = kWireVersion;
  header.rank = Be<std::uint16_t>(raw(kSwitchRank));
  header.sum1 = Be<std::uint32_t>(payload.empty() ? 0 : crc32c(payload.data(), payload.size()));
  header.check = Be<std::uint32_t>(crc32c(std::as_bytes(std::span(&header, 1)).data(), kCheckedBytes));
  std::vector<std::byte> bytes(kHeaderBytes + payload.size());
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  if (!payload.empty()) std::memcpy(bytes.data() + kHeaderBytes, payload.data(), payload.size());
  queue_.push_back({to, std::move(bytes)});
}

void Outbox::send_joined(Header header, JoinedPayload fixed, std::string_view text, const jobs::Binding& to) {
  const std::string_view cut = bounded(text);
  header.type = PacketType::kJoined;
  fixed.text_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(cut.size()));
  std::vector<std::byte> payload(sizeof fixed + cut.size());
  std::memcpy(payload.data(), &fixed, sizeof fixed);
  if (!cut.empty()) std::memcpy(payload.data() + sizeof fixed, cut.data(), cut.size());
  send(header, payload, to);
}

void Outbox::send_abort(JobId job, const Term& term, std::string_view text, const jobs::Binding& to) {
  Header header;
  header.type = PacketType::kAbort;
  header.job = Be<std::uint16_t>(raw(job));
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  send(header, std::as_bytes(std::span(bounded(text))), to);
}

void Outbox::send_echo(const Header& received, const Term& term, std::uint64_t live,
                       const jobs::Binding& to) {
  Header header;
  header.type = received.type;
  header.job = received.job;
  header.epoch = received.epoch;
  header.chunk = received.chunk;
  header.contributors = Be<std::uint64_t>(live);
  header.cookie = Be<std::uint64_t>(raw(term.result));
  send(header, {}, to);
}

void Outbox::send_reject(const Header& received, RejectReason reason, const jobs::Binding& to) {
  Header header;
  header.type = PacketType::kReject;
  header.job = received.job;
  header.epoch = received.epoch;
  header.chunk = received.chunk;
  header.slot = Be<std::uint32_t>(static_cast<std::uint32_t>(reason));
  send(header, {}, to);
}

std::optional<Outgoing> Outbox::next(std::span<std::byte> out) {
  while (!queue_.empty()) {
    const Datagram datagram = std::move(queue_.front());
    queue_.pop_front();
    if (datagram.bytes.size() > out.size()) continue;
    std::memcpy(out.data(), datagram.bytes.data(), datagram.bytes.size());
    return Outgoing{datagram.bytes.size(), datagram.to};
  }
  return std::nullopt;
}

void Publisher::set(JobId id, std::shared_ptr<const jobs::Job> row) {
  changed_[id] = std::move(row);
  dirty_ = true;
}

void Publisher::clear(JobId id) {
  if (table_->row(id) == nullptr && !changed_.contains(id)) return;
  changed_[id] = nullptr;
  dirty_ = true;
}

void Publisher::freed(const jobs::FreedLines& lines) {
  freed_.push_back(lines);
  dirty_ = true;
}

std::optional<jobs::Publication> Publisher::take() {
  if (!dirty_) return std::nullopt;
  dirty_ = false;
  if (!changed_.empty()) table_ = table_->with(std::exchange(changed_, {}));
  return jobs::Publication{++version_, table_, std::exchange(freed_, {})};
}

bool RateLimit::take(const Ipv6& source, TimeNs now) noexcept {
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), source.data(), sizeof words);
  const std::uint64_t hash = mix64(mix64(words[0] ^ key_) ^ std::rotl(words[1], 32) ^ key_);
  TimeNs& due = due_[hash % kBuckets];
  const TimeNs start = std::max(due, now);
  if (start - now > burst_) return false;
  due = start + interval_;
  return true;
}

namespace {

constexpr std::uint32_t lower_24_bits(Epoch epoch) noexcept { return raw(epoch) & 0xFF'FFFFU; }

}  // namespace

bool BoxState::in_use(Epoch epoch) const noexcept {
  const bool native = std::any_of(jobs.begin(), jobs.end(), [epoch](const auto& job) {
    return job != nullptr &&
           (job->term.epoch == epoch || job->offer.epoch == epoch || job->gone.term.epoch == epoch);
  });
  return native || std::any_of(sessions.begin(), sessions.end(), [epoch](const auto& session) {
           return session != nullptr && session->epoch == epoch;
         });
}

Epoch BoxState::draw_epoch() {
  return source.epoch([this](Epoch candidate) { return in_use(candidate); });
}

Epoch BoxState::draw_session_epoch() {
  return source.epoch([this](Epoch candidate) {
    const std::uint32_t bits = lower_24_bits(candidate);
    return bits == 0 || in_use(candidate) ||
           std::any_of(sessions.begin(), sessions.end(), [bits](const auto& session) {
             return session != nullptr && lower_24_bits(session->epoch) == bits;
           });
  });
}

const JobMembership* BoxState::awaits_slots() const noexcept {
  const auto first =
      std::find_if(jobs.begin(), jobs.end(), [](const auto& job) { return job != nullptr && job->waits(); });
  return first == jobs.end() ? nullptr : first->get();
}

namespace {

JoinedPayload common_part(const BoxState& box, std::uint64_t nonce, JoinStatus status) {
  JoinedPayload p;
  p.nonce = Be<std::uint64_t>(nonce);
  p.box_mac = box.options.box_mac;
  p.status = status;
  p.discipline = Discipline::kPool;
  p.results = ResultsMode::kUnicast;
  p.shards = box.options.shards;
  return p;
}

void fill_job_part(JoinedPayload& p, const JobMembership& job) {
  p.world = Be<std::uint16_t>(job.config.workers);
  p.lease_ms = Be<std::uint32_t>(static_cast<std::uint32_t>(job.config.lease / kMillisecond));
}

}  // namespace

void answer_running(const JobMembership& job, BoxState& box, Rank rank) {
  const MemberState& m = job.member(rank);
  const Term& term = job.term;
  JoinedPayload p = common_part(box, m.nonce, JoinStatus::kRunning);
  fill_job_part(p, job);
  p.cookie = Be<std::uint64_t>(raw(term.contribution.at(place_of(rank))));
  p.salt = Be<std::uint64_t>(term.salt);
  p.record = term.record;
  p.window = Be<std::uint32_t>(term.window);
  p.most_advanced = Be<std::uint16_t>(raw(term.most_advanced));
  p.discipline = job.config.discipline;
  if (shares_slots(p.discipline)) p.shared_slots = Be<std::uint32_t>(box.shared_slots());
  p.results = term.results;
  if (term.results == ResultsMode::kMulticast) {
    p.group = term.group;
    p.group_port = Be<std::uint16_t>(kMulticastPort);
  }
  Header header;
  header.job = Be<std::uint16_t>(raw(job.id));
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  // Its workers order their packets below this maximum; clamped by the cores, all would be equal.
  if (shares_slots(p.discipline)) header.priority = job.config.priority;
  if (job.config.stragglers.timeout != 0) header.flags = kFlagIncomplete;
  box.outbox.send_joined(header, p, {}, m.binding);
}

void answer_forming(const JobMembership& job, BoxState& box, std::uint64_t nonce, std::uint64_t missing,
                    const jobs::Binding& to) {
  JoinedPayload p = common_part(box, nonce, JoinStatus::kForming);
  fill_job_part(p, job);
  p.missing = Be<std::uint64_t>(missing);
  box.outbox.send_joined(Header{}, p, {}, to);
}

void answer_refused(BoxState& box, std::uint64_t nonce, std::string_view text, const jobs::Binding& to) {
  box.outbox.send_joined(Header{}, common_part(box, nonce, JoinStatus::kRefused), text, to);
}

}  // namespace tally::members
