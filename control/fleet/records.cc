#include "fleet/records.h"

#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "fleet/store.h"
#include "text/base64.h"
#include "text/text.h"

namespace tally::fleet {
namespace {

constexpr std::uint64_t kFormat = 1;  // of all records; when there is another one says records.h
constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kPlanDigits = 10;

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

// Takes the members of one object one after the other; the first mistake stays. What nobody takes is of a later version
// and may be there.
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
  // May be missing: then there are none.
  std::map<std::string, double> rates(const char* name, std::size_t most, std::size_t longest) {
    std::map<std::string, double> all;
    if (!object_.contains(name)) return all;
    const Json* const member = take(name);
    if (member == nullptr) return all;
    if (!member->is_object() || member->size() > most) {
      complain(std::string(name) + " are not at most " + std::to_string(most) + " rates");
      return all;
    }
    for (const auto& [key, value] : member->items()) {
      if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > kMostRate)
        complain(std::string(name) + " have one that is no rate");
      else
        all.emplace(text_in(key, name, longest), value.get<double>());
    }
    return all;
  }
  void complain(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  // After everything was taken: the first mistake.
  [[nodiscard]] const std::string& over() const noexcept { return why_; }

 private:
  const Json* take(const char* name) {
    if (!why_.empty()) return nullptr;
    const auto at = object_.find(name);
    if (at == object_.end()) {
      complain(std::string(name) + " is missing");
      return nullptr;
    }
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
  std::string why_{};
};

bool is_id(std::string_view text) { return text.size() <= kMostIdBytes && text::is_name(text); }

std::string id_in(Members& members, const char* name) {
  std::string id = members.text(name, kMostIdBytes);
  if (!is_id(id)) members.complain(std::string(name) + " is no name");
  return id;
}

// Numbers of 64 bits, of which JSON readers of other languages keep 53.
std::string hexadecimal(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return {digits.data(), end.ptr};
}

// Not 0.
std::uint64_t hexadecimal_in(Members& members, const char* name) {
  const std::string text = members.text(name, 16);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || number == 0 ||
      hexadecimal(number) != text)
    members.complain(std::string(name) + " is no hexadecimal number");
  return number;
}

std::string plan_text(const Plan& plan) {
  const std::vector<std::byte> bytes = write_plan(plan);
  return text::base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Empty: that is none.
std::optional<Plan> plan_in(const std::string& text) {
  const auto bytes = text::from_base64(text);
  return bytes ? tally::read_plan(std::as_bytes(std::span(*bytes))) : std::nullopt;
}

std::string objection_to_addresses(const char* what, const std::vector<std::string>& all, std::size_t most) {
  if (all.empty() || all.size() > most) return std::string(what) + " are not 1 to " + std::to_string(most);
  for (const std::string& address : all)
    if (!text::ip_address(address))
      return std::string(what) + " have " + text::in_quotes(text::cleaned(address)) + ", which is no address";
  return {};
}

std::string written(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of a plan.
std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.size() != kPlanDigits || read.ec != std::errc{} || read.ptr != text.data() + text.size() ||
      number == 0)
    return std::nullopt;
  return number;
}

bool is_job(std::string_view text) { return text.size() <= kMaxNameBytes && text::is_name(text); }

}  // namespace

std::string Keys::plan(std::string_view job_name, std::uint32_t number) const {
  const std::string digits = std::to_string(number);
  return plans(job_name) + std::string(kPlanDigits - digits.size(), '0') + digits;
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
    const auto number = slash == std::string_view::npos ? std::nullopt : number_of(key.substr(slash + 1));
    return number ? std::optional<Key>(PlanKey{std::string(job), *number}) : std::nullopt;
  }
  if (slash == std::string_view::npos) return JobKey{std::string(job)};
  if (key.substr(slash) == "/facts") return FactsKey{std::string(job)};
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
  Json all{{"format", kFormat},
           {"name", record.name},
           {"life", hexadecimal(record.life)},
           {"since", record.since},
           {"addresses", record.addresses},
           {"rate", record.rate},
           {"cores", record.cores},
           {"free_slots", record.free_slots},
           {"free_bytes", record.free_bytes}};
  if (!record.set_rates.empty()) all["set_rates"] = record.set_rates;
  return written(all);
}

Readout<BoxRecord> read_box(std::string_view value) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  Members members(value);
  BoxRecord record{.name = members.text("name", kMostIdBytes),
                   .life = hexadecimal_in(members, "life"),
                   .since = members.number("since", 0, kAny),
                   .addresses = members.texts("addresses", kMostAddresses, kMostAddressBytes),
                   .rate = members.number("rate", 0, kAny),
                   .cores = static_cast<std::uint32_t>(members.number("cores", 0, 4096)),
                   .free_slots = members.number("free_slots", 0, kAny),
                   .free_bytes = members.number("free_bytes", 0, kAny),
                   .set_rates = members.rates("set_rates", kMostRates, kMostAddressBytes)};
  if (const std::string& why = members.over(); !why.empty()) return tl::unexpected(why);
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
  if (const std::string& why = members.over(); !why.empty()) return tl::unexpected(why);
  return record;
}

std::string text_of(const SeatRecord& record) {
  return written(Json{{"format", kFormat}, {"box", record.box}, {"life", hexadecimal(record.life)}});
}

Readout<SeatRecord> read_seat(std::string_view value) {
  Members members(value);
  SeatRecord record{.box = id_in(members, "box"), .life = hexadecimal_in(members, "life")};
  if (const std::string& why = members.over(); !why.empty()) return tl::unexpected(why);
  return record;
}

std::string objection_to(const FactsRecord& facts) {
  if (facts.number == 0) return "their number is 0";
  if (std::string no = objection_to_addresses("ranks", facts.ranks, kMaxRanks); !no.empty()) return no;
  if (std::string no = objection_to_addresses("servers", facts.servers, kMaxServers); !no.empty()) return no;
  if (std::string no = objection_to_addresses("boxes", facts.boxes, kMostBoxes); !no.empty()) return no;
  if (facts.usable == 0) return "no box is usable";
  if (facts.boxes.size() < 64 && facts.usable >> facts.boxes.size() != 0)
    return "a box is usable that is not there";
  for (const auto& [box, most] : facts.limits)
    if (std::find(facts.boxes.begin(), facts.boxes.end(), box) == facts.boxes.end())
      return "a box has a limit that is not there";
  return {};
}

std::string text_of(const FactsRecord& facts) {
  Json all{{"format", kFormat},    {"number", hexadecimal(facts.number)},
           {"ranks", facts.ranks}, {"servers", facts.servers},
           {"boxes", facts.boxes}, {"usable", hexadecimal(facts.usable)}};
  if (!facts.limits.empty()) all["limits"] = facts.limits;
  return written(all);
}

Readout<FactsRecord> read_facts(std::string_view value) {
  Members members(value);
  FactsRecord facts{.number = hexadecimal_in(members, "number"),
                    .ranks = members.texts("ranks", kMaxRanks, kMostAddressBytes),
                    .servers = members.texts("servers", kMaxServers, kMostAddressBytes),
                    .boxes = members.texts("boxes", kMostBoxes, kMostAddressBytes),
                    .usable = hexadecimal_in(members, "usable"),
                    .limits = members.rates("limits", kMostBoxes, kMostAddressBytes)};
  if (const std::string& why = members.over(); !why.empty()) return tl::unexpected(why);
  if (std::string why = objection_to(facts); !why.empty()) return tl::unexpected(std::move(why));
  return facts;
}

std::string objection_to(const PlanRecord& plan) {
  if (!is_job(plan.job)) return "its job has no name";
  if (plan.number == 0) return "its number is 0";
  if (plan.facts == 0) return "it is for no facts";
  const Plan& p = plan.plan;
  const bool sized = !p.boxes.empty() && p.boxes.size() <= kMaxPlanBoxes && !p.tables.empty() &&
                     p.tables.size() <= kMaxPlanTables && !p.table_of.empty() &&
                     p.table_of.size() <= kMaxRanks;
  // The rest is what who reads it asks for.
  if (!sized || tally::read_plan(write_plan(p)) != p) return "its parts do not fit each other";
  return {};
}

std::string text_of(const PlanRecord& plan) {
  return written(
      Json{{"format", kFormat}, {"facts", hexadecimal(plan.facts)}, {"plan", plan_text(plan.plan)}});
}

Readout<PlanRecord> read_plan(const PlanKey& key, std::string_view value) {
  constexpr std::size_t kMostText = (kMaxPlanBytes + 2) / 3 * 4;
  Members members(value);
  PlanRecord plan{.job = key.job, .facts = hexadecimal_in(members, "facts"), .number = key.number};
  auto read = plan_in(members.text("plan", kMostText));
  if (const std::string& why = members.over(); !why.empty()) return tl::unexpected(why);
  if (!read) return tl::unexpected(std::string("plan is none"));
  plan.plan = *std::move(read);
  return plan;
}

}  // namespace tally::fleet
