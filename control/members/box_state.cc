#include "members/box_state.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/kernels.h"
#include "members/texts.h"

namespace tally::members {
namespace {

// A challenge is good for one to two of these: longer than a JOIN waits to be repeated, shorter than anything
// that makes an old JOIN worth playing again.
constexpr TimeNs kChallengePeriod = 4 * kSecond;

// Numbers of periods stay below 2^32 for 500 years of the box's clock.
constexpr std::uint64_t mark_of(Epoch in) noexcept { return std::uint64_t{raw(in)} << 32U; }

}  // namespace

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

void Outbox::send(Header header, std::span<const std::byte> body, const auth::Key* key,
                  const jobs::Binding& to) {
  header.rank = Be<std::uint16_t>(raw(kSwitchRank));
  post(header, body, key, to);
}

void Outbox::post(Header header, std::span<const std::byte> body, const auth::Key* key,
                  const jobs::Binding& to, bool everywhere) {
  const auto& crc32c = kernels::best_kernels().crc32c;
  std::vector<std::byte> bytes(kHeaderBytes + body.size());
  std::ranges::copy(body, bytes.begin() + kHeaderBytes);
  if (key != nullptr) {
    const Tag tag = auth::tag_of(*key, header, body);
    std::ranges::copy(std::as_bytes(std::span(tag)), std::back_inserter(bytes));
  }
  const std::size_t payload = bytes.size() - kHeaderBytes;
  header.sum1 = Be<std::uint32_t>(payload == 0 ? 0 : crc32c(bytes.data() + kHeaderBytes, payload));
  header.check = Be<std::uint32_t>(crc32c(std::as_bytes(std::span(&header, 1)).data(), kCheckedBytes));
  wire_put(bytes.data(), header);
  queue_.push_back({to, std::move(bytes), everywhere});
}

void Outbox::send_joined(Header header, JoinedPayload fixed, std::string_view text, const auth::Key* key,
                         const jobs::Binding& to) {
  const std::string_view cut = bounded(text);
  header.type = PacketType::kJoined;
  fixed.text_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(cut.size()));
  // Version 1 knew no tag.
  const bool open = key == nullptr && header.version == kWireVersion;
  std::vector<std::byte> body(sizeof fixed + cut.size() + (open ? kTagBytes : 0));
  wire_put(body.data(), fixed);
  std::ranges::copy(std::as_bytes(std::span(cut)), body.begin() + sizeof fixed);
  send(header, body, key, to);
}

void Outbox::say(Header header, const Term& term, std::string_view text, const auth::Key& session,
                 const jobs::Binding& to) {
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  std::vector<std::byte> body(sizeof(CountedPayload) + text.size());
  wire_put(body.data(), CountedPayload{Be{++counter_}});
  std::ranges::copy(std::as_bytes(std::span(text)), body.begin() + sizeof(CountedPayload));
  send(header, body, &session, to);
}

void Outbox::send_abort(JobId job, const Term& term, std::string_view text, const auth::Key& session,
                        const jobs::Binding& to) {
  Header header;
  header.type = PacketType::kAbort;
  header.job = Be<std::uint16_t>(raw(job));
  say(header, term, bounded(text), session, to);
}

void Outbox::send_echo(const Header& received, const Term& term, std::uint64_t live, const auth::Key& session,
                       const jobs::Binding& to) {
  Header header;
  header.type = received.type;
  header.job = received.job;
  header.chunk = received.chunk;
  header.contributors = Be<std::uint64_t>(live);
  say(header, term, {}, session, to);
}

void Outbox::send_reject(JobId job, const Term& term, const auth::Key& session, const jobs::Binding& to) {
  Header header;
  header.type = PacketType::kReject;
  header.job = Be<std::uint16_t>(raw(job));
  header.slot = Be<std::uint32_t>(static_cast<std::uint32_t>(RejectReason::kEpoch));
  say(header, term, {}, session, to);
}

std::optional<Outgoing> Outbox::next(std::span<std::byte> out) {
  while (!queue_.empty()) {
    const Datagram datagram = std::move(queue_.front());
    queue_.pop_front();
    if (datagram.bytes.size() > out.size()) continue;
    std::memcpy(out.data(), datagram.bytes.data(), datagram.bytes.size());
    return Outgoing{datagram.bytes.size(), datagram.to, datagram.everywhere};
  }
  return std::nullopt;
}

void Publisher::set(JobId id, jobs::Row row) {
  changed_[id] = std::move(row);
  dirty_ = true;
}

void Publisher::clear(JobId id) {
  if (jobs::job_of(table_->row(id)) == nullptr && !changed_.contains(id)) return;
  changed_[id] = {};
  dirty_ = true;
}

void Publisher::freed(const jobs::FreedLines& lines) {
  freed_.push_back(lines);
  dirty_ = true;
}

void Publisher::parents(std::vector<Ipv6> addresses) {
  parents_ = std::move(addresses);
  dirty_ = true;
}

std::optional<jobs::Publication> Publisher::take() {
  if (!dirty_) return std::nullopt;
  dirty_ = false;
  if (parents_) table_ = table_->with_parents(*std::exchange(parents_, std::nullopt));
  if (!changed_.empty()) table_ = table_->with(std::exchange(changed_, {}));
  return jobs::Publication{++version_, table_, std::exchange(freed_, {})};
}

bool BoxState::in_use(Epoch epoch) const noexcept {
  return std::ranges::any_of(
             epochs_, [epoch](const EpochsInUse& of) { return std::ranges::find(of, epoch) != of.end(); }) ||
         std::ranges::find(drawn_, epoch) != drawn_.end();
}

bool BoxState::in_use_beside(JobId id, Epoch epoch) const noexcept {
  for (std::size_t other = 0; other < epochs_.size(); ++other) {
    const bool has =
        std::ranges::find(epochs_[other], epoch) != epochs_[other].end() || drawn_[other] == epoch;
    if (has && other != raw(id)) return true;
  }
  return false;
}

Epoch BoxState::drawn(JobId id, Epoch epoch) noexcept {
  touch(id);
  return drawn_[raw(id)] = epoch;
}

Epoch BoxState::draw_epoch(JobId id) {
  return drawn(id, source.epoch([this](Epoch candidate) { return in_use(candidate); }));
}

Epoch BoxState::draw_session_epoch(JobId id) {
  return drawn(id, source.epoch([this](Epoch candidate) {
    if (lower_24_bits(candidate) == 0 || in_use(candidate)) return true;
    for (const SessionLife& session : all<SessionLife>()) {
      if (session.resembles(candidate)) return true;
    }
    return false;
  }));
}

void BoxState::enter(JobId id, LifePhase& phase, JobPhase to, bool shares) {
  phase.transition(to);
  touch(id);
  groups.moved(id);
  const auto file = [id](std::set<JobId>& ids, bool in) { in ? (void)ids.insert(id) : (void)ids.erase(id); };
  file(forming, to == JobPhase::kForming);
  file(running, to == JobPhase::kRunning);
  file(sharing, shares && (to == JobPhase::kRunning || to == JobPhase::kDraining));
}

std::uint64_t BoxState::await(JobId id) {
  awaiting.insert(id);
  return publisher.next_version();
}

// The cores listen to the parents of all jobs that have one.
void BoxState::note_parent(JobId id) {
  const NativeLife* const job = find_native(id);
  const auto known = parents.find(id);
  if (job == nullptr || !job->config().has_parent()) {
    if (known == parents.end()) return;
    parents.erase(known);
  } else {
    const Ipv6& parent = job->config().racks->parent;
    if (known != parents.end() && known->second == parent) return;
    parents.insert_or_assign(id, parent);
  }
  std::set<Ipv6> addresses;
  for (const auto& [job_id, address] : parents) addresses.insert(address);
  publisher.parents({addresses.begin(), addresses.end()});
}

void BoxState::settle() {
  for (const JobId id : std::exchange(touched, {})) {
    changed.insert(id);
    note_parent(id);
    drawn_[raw(id)] = {};
    const Life* const life = find(id);
    agenda.set(id,
               life == nullptr ? kNever : jobs::with_dialect(*life, [](auto& l) { return l.deadline(); }));
    epochs_[raw(id)] =
        life == nullptr ? EpochsInUse{} : jobs::with_dialect(*life, [](auto& l) { return l.epochs(); });
  }
}

void BoxState::forget(JobId id) {
  touch(id);
  for (std::set<JobId>* of : {&forming, &running, &sharing, &shrunk, &unadmitted, &awaiting}) of->erase(id);
  groups.remove(id);
  lives.at(raw(id)).reset();
}

const NativeLife* BoxState::admits(std::string_view name) const {
  const NativeLife* const job = find_native(parent_name(name));
  return job != nullptr && job->config().admit ? job : nullptr;
}

const ResidentJob* BoxState::awaits_slots() const noexcept {
  for (const JobId id : forming) {
    const ResidentJob* const job = find_resident(id);
    if (job != nullptr && job->waits()) return job;
  }
  return nullptr;
}

JoinedPayload BoxState::joined_part(std::uint64_t nonce, JoinStatus status) const {
  JoinedPayload p;
  p.nonce = Be<std::uint64_t>(nonce);
  p.box_mac = options.box_mac;
  p.status = status;
  p.discipline = Discipline::kPool;
  p.results = ResultsMode::kUnicast;
  p.shards = options.shards;
  return p;
}

// Nonce and JOINED lie where they are in every version so far.
void BoxState::refuse_version(const ControlPacket& join, const jobs::Binding& from, TimeNs now) {
  count(MembershipDrop::kVersion);
  if (!refusals.take(jobs::host_of(from), now)) return;
  Be<std::uint64_t> nonce;
  std::memcpy(&nonce, join.payload.data() + offsetof(JoinPayload, nonce), sizeof nonce);
  Header header;
  header.version = join.header.version;
  outbox.send_joined(header, joined_part(nonce.host(), JoinStatus::kRefused),
                     "this box speaks version " + std::to_string(kWireVersion) +
                         " of the protocol, the worker " + std::to_string(header.version),
                     nullptr, from);
}

void BoxState::answer_refused(std::uint64_t nonce, std::string_view text, const auth::Key* key,
                              const jobs::Binding& to) {
  outbox.send_joined(Header{}, joined_part(nonce, JoinStatus::kRefused), text, key, to);
}

void BoxState::refuse(const Request& request, const jobs::Binding& from, TimeNs now, MembershipDrop why,
                      std::string_view text) {
  count(why);
  if (refusals.take(jobs::host_of(from), now)) answer_refused(request.nonce, text, request.key, from);
}

bool BoxState::fresh(const Request& request, const jobs::Binding& from, TimeNs now, Epoch in) const noexcept {
  const std::uint64_t period = now / kChallengePeriod;
  const auto given_in = [&](std::uint64_t then) {
    return auth::equal(request.challenge,
                       auth::challenge(secret, std::as_bytes(std::span(&from, 1)), request.instance, then));
  };
  return given_in(period ^ mark_of(in)) || given_in((period - 1) ^ mark_of(in));
}

void BoxState::send_challenge(const Request& request, const jobs::Binding& from, TimeNs now, Epoch in) {
  count(MembershipDrop::kChallenge);
  const ChallengePayload payload{Be<std::uint64_t>(request.nonce),
                                 auth::challenge(secret, std::as_bytes(std::span(&from, 1)), request.instance,
                                                 now / kChallengePeriod ^ mark_of(in))};
  Header header;
  header.type = PacketType::kChallenge;
  outbox.send(header, std::as_bytes(std::span(&payload, 1)), nullptr, from);
}

void BoxState::reject(const ControlPacket& packet, const jobs::Binding& from, TimeNs now,
                      MembershipDrop why) {
  const bool beats = packet.header.type == PacketType::kHeartbeat;
  const ResidentJob* const job = beats ? find_resident(packet.text) : nullptr;
  // The box may have forgotten a group, by a restart: its worker's next JOIN makes it again.
  const NativeLife* const parent = beats && job == nullptr ? admits(packet.text) : nullptr;
  std::optional<auth::Key> key;
  if (job != nullptr) key = job->key();
  if (parent != nullptr) key = auth::job_key(packet.text, parent->config().token);
  if (key && !auth::verify(*key, packet.header, packet.payload)) return count(MembershipDrop::kTag);
  count(why);
  if (!key || !refusals.take(jobs::host_of(from), now)) return;
  Header header;
  header.type = PacketType::kReject;
  header.job = packet.header.job;
  header.epoch = packet.header.epoch;
  header.slot = Be<std::uint32_t>(static_cast<std::uint32_t>(RejectReason::kJob));
  const CountedPayload answered{Be{packet.counter}};
  outbox.send(header, std::as_bytes(std::span(&answered, 1)), &*key, from);
}

}  // namespace tally::members
