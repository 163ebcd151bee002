#include "fleet/records.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <set>
#include <utility>

#include "fleet/store.h"
#include "text/base64.h"
#include "text/text.h"

namespace tally::fleet {
namespace {

constexpr std::uint64_t kFormat =
    1;  // of all records; one more when a record of this program cannot be read by it
constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kEpochDigits = 10;
constexpr std::size_t kTableBytes = 2 * kPlanGroups;

// Looks at every token before a tree is made of them: the parser alone would nest without end and keep the last of two
// members of one name.
class Strict : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    return open_.back().insert(name).second ||
           refuse("the member " + text::in_quotes(text::cleaned(name)) + " stands twice in it");
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("it is no JSON, from byte " + std::to_string(position) + " on");
  }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  bool open() {
    if (open_.size() >= kMostDepth)
      return refuse("it is nested more than " + std::to_string(kMostDepth) + " deep");
    open_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  std::vector<std::set<std::string>> open_{};
  std::string why_{};
};

// Takes the members of one object one after the other; the first mistake stays.
class Members {
 public:
  explicit Members(std::string_view value) {
    if (value.size() > kMostValueBytes) {
      why_ = "it has " + std::to_string(value.size()) + " bytes";
      return;
    }
    Strict strict;
    if (!Json::sax_parse(value.begin(), value.end(), &strict)) {
      why_ = strict.why().empty() ? "it is no JSON" : strict.why();
      return;
    }
    object_ = Json::parse(value.begin(), value.end(), nullptr, false);
    if (!object_.is_object()) {
      why_ = "it is no JSON object";
      return;
    }
    if (const auto format = number("format", 1, std::numeric_limits<std::uint64_t>::max()); format > kFormat)
      complain("it is of format " + std::to_string(format) + ", and this program reads format " +
               std::to_string(kFormat));
  }

  std::uint64_t number(const char* name, std::uint64_t low, std::uint64_t high) {
    const Json* const member = take(name);
    if (member == nullptr) return low;
    if (!member->is_number_unsigned() || member->get<std::uint64_t>() < low ||
        member->get<std::uint64_t>() > high) {
      complain(std::string(name) + " is no whole number from " + std::to_string(low) + " to " +
               std::to_string(high));
      return low;
    }
    return member->get<std::uint64_t>();
  }
  std::string text(const char* name, std::size_t longest) {
    const Json* const member = take(name);
    return member == nullptr ? std::string{} : text_in(*member, name, longest);
  }
  std::vector<std::string> texts(const char* name, std::size_t most, std::size_t longest) {
    std::vector<std::string> all;
    const Json* const member = take(name);
    if (member == nullptr) return all;
    if (!member->is_array() || member->size() > most) {
      complain(std::string(name) + " is no list of at most " + std::to_string(most));
      return all;
    }
    for (const Json& one : *member) all.push_back(text_in(one, name, longest));
    return all;
  }
  Json object(const char* name) {
    const Json* const member = take(name);
    if (member == nullptr) return Json::object();
    if (!member->is_object()) complain(std::string(name) + " is no object");
    return *member;
  }
  void complain(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  // After everything was taken: the first mistake, or a member that nobody took.
  std::string over() {
    if (!why_.empty()) return why_;
    for (const auto& [name, member] : object_.items())
      if (!taken_.contains(name)) return "it has an unknown member " + text::in_quotes(text::cleaned(name));
    return {};
  }

 private:
  const Json* take(const char* name) {
    if (!why_.empty()) return nullptr;
    const auto at = object_.find(name);
    if (at == object_.end()) {
      complain(std::string(name) + " is missing");
      return nullptr;
    }
    taken_.insert(name);
    return &*at;
  }
  std::string text_in(const Json& value, const char* name, std::size_t longest) {
    if (!value.is_string()) {
      complain(std::string(name) + " is no text");
      return {};
    }
    auto words = value.get<std::string>();
    if (words.empty()) complain(std::string(name) + " is empty");
    if (const std::string no = text::objection_to(words, longest); !no.empty())
      complain(std::string(name) + no);
    return words;
  }

  Json object_ = Json::object();
  std::set<std::string> taken_{};
  std::string why_{};
};

bool is_id(std::string_view text) { return text.size() <= kMostIdBytes && text::is_name(text); }

std::string id_in(Members& members, const char* name) {
  std::string id = members.text(name, kMostIdBytes);
  if (!is_id(id)) members.complain(std::string(name) + " is no name");
  return id;
}

// The life of a process is one of 64 bits, of which JSON readers of other languages keep 53.
std::string life_text(std::uint64_t life) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), life, 16);
  return {digits.data(), end.ptr};
}

std::uint64_t life_in(Members& members) {
  const std::string text = members.text("life", 16);
  std::uint64_t life = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), life, 16);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || life == 0 || life_text(life) != text)
    members.complain("life is no hexadecimal number");
  return life;
}

std::string table_text(const PlanTable& table) {
  std::string bytes;
  bytes.reserve(kTableBytes);
  for (const PlanEntry& entry : table) {
    bytes += static_cast<char>(entry.box);
    bytes += static_cast<char>(entry.server);
  }
  return text::base64(bytes);
}

// False: that is no table.
bool read_table(const std::string& text, PlanTable& table) {
  const auto bytes = text::from_base64(text);
  if (!bytes || bytes->size() != kTableBytes) return false;
  for (std::size_t i = 0; i < kPlanGroups; ++i)
    table[i] = {static_cast<std::uint8_t>((*bytes)[2 * i]), static_cast<std::uint8_t>((*bytes)[2 * i + 1])};
  return true;
}

std::string written(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::uint32_t> epoch_of(std::string_view text) {
  std::uint32_t epoch = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), epoch);
  if (text.size() != kEpochDigits || read.ec != std::errc{} || read.ptr != text.data() + text.size() ||
      epoch == 0)
    return std::nullopt;
  return epoch;
}

bool is_job(std::string_view text) { return text.size() <= kMaxNameBytes && text::is_name(text); }

}  // namespace

std::string Keys::plan(std::string_view job_name, std::uint32_t epoch) const {
  const std::string digits = std::to_string(epoch);
  return plans(job_name) + std::string(kEpochDigits - digits.size(), '0') + digits;
}

std::optional<Key> Keys::parse(std::string_view key) const {
  if (!key.starts_with(root_)) return std::nullopt;
  key.remove_prefix(root_.size());
  if (key == "planner") return PlannerKey{};
  const auto after = [&](std::string_view folder) {
    if (!key.starts_with(folder)) return false;
    key.remove_prefix(folder.size());
    return true;
  };
  if (after("box/")) return is_id(key) ? std::optional<Key>(BoxKey{std::string(key)}) : std::nullopt;
  const bool plan = key.starts_with("plan/");
  if (!after("plan/") && !after("job/")) return std::nullopt;
  const std::size_t slash = key.find('/');
  const std::string_view job = key.substr(0, slash);
  if (!is_job(job)) return std::nullopt;
  if (plan) {
    const auto epoch = slash == std::string_view::npos ? std::nullopt : epoch_of(key.substr(slash + 1));
    return epoch ? std::optional<Key>(PlanKey{std::string(job), *epoch}) : std::nullopt;
  }
  if (slash == std::string_view::npos) return JobKey{std::string(job)};
  if (key.substr(slash) != "/home") return std::nullopt;
  return HomeKey{std::string(job)};
}

std::string objection_to_prefix(std::string_view prefix) {
  constexpr std::size_t kLongest = 128;
  if (!prefix.starts_with('/')) return "it does not begin with '/'";
  if (prefix.size() > kLongest)
    return "it has " + std::to_string(prefix.size()) + " bytes, at most 128 are allowed";
  for (std::string_view rest = prefix; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (!text::is_name(part)) return "between its '/' stand names of letters (a-z), digits, '_', '-' and '.'";
    rest.remove_prefix(part.size());
  }
  return {};
}

std::string text_of(const BoxRecord& record) {
  return written(Json{{"format", kFormat},
                      {"name", record.name},
                      {"life", life_text(record.life)},
                      {"since", record.since},
                      {"addresses", record.addresses},
                      {"rate", record.rate},
                      {"cores", record.cores},
                      {"free_slots", record.free_slots},
                      {"free_bytes", record.free_bytes}});
}

Readout<BoxRecord> read_box(std::string_view value) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  Members members(value);
  BoxRecord record{.name = members.text("name", kMostIdBytes),
                   .life = life_in(members),
                   .since = members.number("since", 0, kAny),
                   .addresses = members.texts("addresses", kMostAddresses, kMostAddressBytes),
                   .rate = members.number("rate", 0, kAny),
                   .cores = static_cast<std::uint32_t>(members.number("cores", 0, 4096)),
                   .free_slots = members.number("free_slots", 0, kAny),
                   .free_bytes = members.number("free_bytes", 0, kAny)};
  if (std::string why = members.over(); !why.empty()) return tl::unexpected(std::move(why));
  return record;
}

std::string text_of(const JobRecord& record) {
  return written(Json{{"format", kFormat}, {"spec", record.spec}});
}

Readout<JobRecord> read_job(std::string_view name, std::string_view value) {
  if (value.size() > kMostSpecBytes)
    return tl::unexpected("it has " + std::to_string(value.size()) + " bytes");
  Members members(value);
  JobRecord record{.name = std::string(name), .spec = members.object("spec")};
  if (std::string why = members.over(); !why.empty()) return tl::unexpected(std::move(why));
  return record;
}

std::string text_of(const SeatRecord& record) {
  return written(Json{{"format", kFormat}, {"box", record.box}, {"life", life_text(record.life)}});
}

Readout<SeatRecord> read_seat(std::string_view value) {
  Members members(value);
  SeatRecord record{.box = id_in(members, "box"), .life = life_in(members)};
  if (std::string why = members.over(); !why.empty()) return tl::unexpected(std::move(why));
  return record;
}

std::string objection_to(const PlanRecord& plan) {
  if (!is_job(plan.job)) return "its job has no name";
  if (plan.epoch == 0) return "its epoch is 0";
  if (plan.boxes.empty() || plan.boxes.size() > kMostBoxes) return "it is not for 1 to 64 boxes";
  if (plan.racks.empty() || plan.racks.size() > kMostRacks) return "it is not for 1 to 64 racks";
  if (plan.servers > kMaxServers) return "it has " + std::to_string(plan.servers) + " servers";
  for (const std::string& id : plan.boxes)
    if (!is_id(id)) return text::in_quotes(text::cleaned(id)) + " is no box's name";
  if (std::set<std::string>(plan.boxes.begin(), plan.boxes.end()).size() != plan.boxes.size())
    return "a box stands twice in it";
  for (std::size_t rack = 0; rack < plan.racks.size(); ++rack) {
    for (std::size_t group = 0; group < kPlanGroups; ++group) {
      const PlanEntry& entry = plan.racks[rack][group];
      const bool somewhere = entry.box < plan.boxes.size() || (entry.box == kNoBox && plan.servers > 0);
      if (somewhere && entry.server < std::max<std::uint32_t>(plan.servers, 1)) continue;
      return "group " + std::to_string(group) + " of rack " + std::to_string(rack) + " is at box " +
             std::to_string(entry.box) + ", server " + std::to_string(entry.server) + ", and there are " +
             std::to_string(plan.boxes.size()) + " and " + std::to_string(plan.servers);
    }
  }
  return {};
}

std::string text_of(const PlanRecord& plan) {
  Json tables = Json::array();
  for (const PlanTable& table : plan.racks) tables.push_back(table_text(table));
  return written(Json{{"format", kFormat},
                      {"generation", std::to_string(plan.generation)},
                      {"boxes", plan.boxes},
                      {"servers", plan.servers},
                      {"racks", std::move(tables)}});
}

Readout<PlanRecord> read_plan(const PlanKey& key, std::string_view value) {
  Members members(value);
  PlanRecord plan{.job = key.job, .epoch = key.epoch};
  const std::string generation = members.text("generation", 20);
  const auto number = text::whole_number(generation, 0, std::numeric_limits<std::uint64_t>::max());
  if (!number || std::to_string(*number) != generation)
    members.complain("generation is no whole number in quotes");
  plan.generation = number.value_or(0);
  plan.boxes = members.texts("boxes", kMostBoxes, kMostIdBytes);
  plan.servers = static_cast<std::uint32_t>(members.number("servers", 0, kMaxServers));
  for (const std::string& text : members.texts("racks", kMostRacks, kTableBytes * 4 / 3 + 4)) {
    if (!read_table(text, plan.racks.emplace_back())) members.complain("racks has what is no table");
  }
  if (std::string why = members.over(); !why.empty()) return tl::unexpected(std::move(why));
  if (std::string why = objection_to(plan); !why.empty()) return tl::unexpected(std::move(why));
  return plan;
}

}  // namespace tally::fleet
