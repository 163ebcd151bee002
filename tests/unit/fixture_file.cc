#include "fixture_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace tally::fixture {
namespace {

// One line: 'keyword plain... name=value... : hex'.
struct TextLine {
  int number = 0;
  std::string keyword;
  std::string rest;  // behind the keyword, hex without blanks
  std::vector<std::string> plain;
  std::map<std::string, std::string> named;
  std::vector<std::byte> bytes;

  [[nodiscard]] const std::string& at(const std::string& name) const {
    const auto found = named.find(name);
    if (found == named.end()) throw std::runtime_error(keyword + " without " + name);
    return found->second;
  }
  [[nodiscard]] std::uint64_t number_at(const std::string& name, int base = 10) const {
    return std::stoull(at(name), nullptr, base);
  }
  template <class T>
  [[nodiscard]] T as(const std::string& name, int base = 10) const {
    return static_cast<T>(number_at(name, base));
  }
  [[nodiscard]] bool has(const std::string& name) const { return named.contains(name); }
};

std::vector<std::byte> unhex(const std::string& text) {
  if (text.size() % 2 != 0) throw std::runtime_error("odd number of hex digits");
  std::vector<std::byte> out;
  out.reserve(text.size() / 2);
  for (const char* at = text.data(); at != text.data() + text.size(); at += 2) {
    std::uint8_t value = 0;
    if (std::from_chars(at, at + 2, value, 16).ptr != at + 2) throw std::runtime_error("not hex digits");
    out.push_back(std::byte{value});
  }
  return out;
}

// Nothing for blank lines and comments.
bool split(const std::string& text, TextLine& line) {
  std::istringstream words(text);
  if (!(words >> line.keyword) || line.keyword.front() == '#') return false;
  std::string digits;
  bool in_hex = false;
  for (std::string word; words >> word;) {
    if (in_hex) {
      digits += word;
      continue;
    }
    line.rest += (line.rest.empty() ? "" : " ") + word;
    in_hex = word == ":";
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      line.plain.push_back(word);
    } else {
      line.named[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  if (in_hex) line.rest += " " + digits;
  if (line.keyword == "in" || line.keyword == "setup") line.bytes = unhex(digits);
  return true;
}

Mac mac_of(const std::string& text) {
  Mac mac{};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    mac[i] = static_cast<std::uint8_t>(std::stoul(text.substr(3 * i, 2), nullptr, 16));
  }
  return mac;
}
template <class Address>
Address ip_of(int family, const std::string& text) {
  Address address{};
  if (inet_pton(family, text.c_str(), address.data()) != 1)
    throw std::runtime_error("not an address: " + text);
  return address;
}
Ipv6 any_ip_of(const std::string& text) {
  if (text.find(':') == std::string::npos) return mapped(ip_of<Ipv4>(AF_INET, text));
  return ip_of<Ipv6>(AF_INET6, text);
}

class Reader {
 public:
  explicit Reader(std::string stem) : stem_(std::move(stem)) {}

  void take(const TextLine& line) {
    if (line.keyword == "box") {
      plan_->box = {mac_of(line.at("mac")), ip_of<Ipv4>(AF_INET, line.at("ipv4")),
                    ip_of<Ipv6>(AF_INET6, line.at("ipv6"))};
    } else if (line.keyword == "job") {
      job(line);
    } else if (line.keyword == "parent") {
      parent(line);
    } else if (line.keyword == "member") {
      member(line);
    } else if (line.keyword == "session") {
      session(line);
    } else if (line.keyword == "client") {
      client(line);
    } else if (line.keyword == "case") {
      cases_.push_back({.name = stem_ + "_" + line.plain.at(0), .core = line.as<std::uint8_t>("core")});
    } else if (!cases_.empty()) {
      step(cases_.back(), line);
    } else {
      throw std::runtime_error("unknown keyword " + line.keyword);
    }
  }

  std::vector<Case> finish() {
    for (auto& c : cases_) c.plan = plan_;
    return std::move(cases_);
  }

 private:
  void job(const TextLine& line) {
    auto j = std::make_shared<jobs::NativeJob>();
    j->id = line.as<JobId>("id");
    j->epoch = line.as<Epoch>("epoch", 16);
    j->generation = line.as<Generation>("generation", 16);
    j->result_cookie = line.as<Cookie>("result_cookie", 16);
    j->world = line.as<std::uint8_t>("world");
    j->shards = line.as<std::uint8_t>("shards");
    j->elements = line.as<std::uint16_t>("elements");
    j->window = line.as<std::uint32_t>("window");
    j->span = line.as<std::uint32_t>("span");
    j->members = members_of(j->world);
    j->sparse = line.has("sparse");
    j->slots.count = jobs::pool_lines(j->window, j->shards, j->elements);
    j->slots.first =
        line.has("memory") ? jobs::job_of(plan_->jobs.at(line.at("memory")))->slots.first : plan_->lines;
    plan_->lines = std::max(plan_->lines, j->slots.first + j->slots.count);
    plan_->jobs[line.plain.at(0)] = j;
    job_ = std::move(j);
  }

  // Of the job above, whose members follow: its workers are numbered from `first` on.
  void parent(const TextLine& line) {
    job_->racked = 1;
    first_ = line.as<std::uint32_t>("first");
    jobs::Parent& p = job_->parent;
    p.job = line.as<JobId>("id");
    p.rack = line.as<std::uint8_t>("rack");
    p.racks = line.as<std::uint8_t>("racks");
    p.shards = line.as<std::uint8_t>("shards");
    p.window = line.as<std::uint32_t>("window");
    p.most_advanced = Rank{static_cast<std::uint16_t>(job_->world - 1)};
    p.members = members_of(p.racks);
    p.cookie = line.as<Cookie>("cookie", 16);
    p.result_cookie = line.as<Cookie>("result_cookie", 16);
    p.binding = binding(line);
    for (std::uint32_t g = 0; g < line.as<std::uint32_t>("world"); ++g)
      p.key_sum += racked_key(job_->generation, g);
    if (p.key_sum != line.number_at("key_sum", 16))
      throw std::runtime_error("K is not the sum of racked_key()");
  }
  static jobs::Binding binding(const TextLine& line) {
    jobs::Binding b;
    b.address = any_ip_of(line.at("ip"));
    b.mac = mac_of(line.at("mac"));
    b.udp_port = line.as<std::uint16_t>("udp");
    b.port = line.as<PortIndex>("port");
    if (line.at("vlan") != "none") b.vlan = line.as<std::uint16_t>("vlan");
    return b;
  }

  void session(const TextLine& line) {
    auto j = std::make_shared<jobs::SessionJob>();
    j->id = line.as<JobId>("id");
    j->epoch = line.as<Epoch>("epoch", 16);
    j->world = line.as<std::uint8_t>("world");
    j->members = members_of(j->world);
    j->payload = line.as<std::uint16_t>("payload");
    j->elements = static_cast<std::uint16_t>(j->payload / 4);
    j->tsi = line.at("tsi") == "opaque" ? jobs::TsiRule::kOpaque : jobs::TsiRule::kPacket;
    j->slot_count = line.as<std::uint32_t>("slots");
    j->slots = {plan_->lines, jobs::session_lines(j->slot_count, j->world, j->payload)};
    plan_->lines += j->slots.count;
    plan_->jobs[line.plain.at(0)] = j;
    session_ = std::move(j);
  }
  void client(const TextLine& line) {
    jobs::Binding& b = session_->ranks.at(line.number_at("rank")).binding;
    b.address = any_ip_of(line.at("ip"));
    b.mac = mac_of(line.at("mac"));
    b.udp_port = line.as<std::uint16_t>("udp");
  }

  void member(const TextLine& line) {
    const auto rank = line.as<Rank>("rank");
    jobs::Member& m = job_->ranks.at(raw(rank));
    m.cookie = line.as<Cookie>("cookie", 16);
    m.key = job_->racked != 0 ? racked_key(job_->generation, first_ + raw(rank))
                              : rank_key(job_->generation, rank);
    if (m.key != line.number_at("key", 16)) throw std::runtime_error("k[rank] is not rank_key()");
    job_->key_sum += m.key;
    m.binding = binding(line);
  }

  static Packet packet(const TextLine& line) {
    Packet p;
    p.frame = line.bytes;
    p.port = line.as<PortIndex>("port");
    p.vouched = line.number_at("vouched") != 0;
    p.ms = line.number_at("ms");
    if (line.has("segments")) p.segments = line.as<std::uint32_t>("segments");
    if (line.has("room")) p.room = line.as<std::uint32_t>("room");
    if (!line.has("times")) return p;
    p.times = line.as<std::uint32_t>("times");
    p.header_at = line.number_at("header");
    std::istringstream steps(line.at("step"));
    for (std::string one; std::getline(steps, one, ',');) {
      const auto colon = one.find(':');
      p.steps.push_back({std::stoull(one.substr(0, colon)),
                         static_cast<std::uint32_t>(std::stoull(one.substr(colon + 1)))});
    }
    return p;
  }

  static void step(Case& c, const TextLine& line) {
    if (line.keyword == "note") return;
    if (line.keyword == "disagrees") {
      c.disagrees = line.rest;
    } else if (line.keyword == "table" || line.keyword == "release") {
      const auto kind = line.keyword == "table" ? StepKind::kTable : StepKind::kRelease;
      c.steps.push_back({.kind = kind, .line = line.number, .jobs = line.plain});
    } else if (line.keyword == "setup") {
      c.steps.push_back({.kind = StepKind::kSetup,
                         .line = line.number,
                         .packet = packet(line),
                         .verdict = line.plain.at(0)});
    } else if (line.keyword == "in") {
      c.steps.push_back({.kind = StepKind::kIn, .line = line.number, .packet = packet(line)});
    } else if (!c.steps.empty() && c.steps.back().kind == StepKind::kIn) {
      c.steps.back().expected.push_back(line.keyword + " " + line.rest);
    } else {
      throw std::runtime_error("unknown keyword " + line.keyword);
    }
  }

  std::string stem_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  std::shared_ptr<jobs::NativeJob> job_;
  std::uint32_t first_ = 0;  // number of its rank 0 in the whole job
  std::shared_ptr<jobs::SessionJob> session_;
  std::vector<Case> cases_;
};

std::ifstream opened(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be opened");
  return stream;
}

}  // namespace

std::vector<CaseName> names_of_cases(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".fixture") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<CaseName> all;
  for (const auto& file : files) {
    std::ifstream stream = opened(file);
    for (std::string text; std::getline(stream, text);) {
      if (text.compare(0, 5, "case ") != 0) continue;
      const std::string name = text.substr(5, text.find(' ', 5) - 5);
      all.push_back({.file = file, .name = file.stem().string() + "_" + name});
    }
  }
  return all;
}

std::vector<Case> read_fixtures(const std::filesystem::path& file) {
  Reader reader(file.stem().string());
  TextLine line;
  std::ifstream stream = opened(file);
  try {
    for (std::string text; std::getline(stream, text);) {
      line = {.number = line.number + 1};
      if (split(text, line)) reader.take(line);
    }
    return reader.finish();
  } catch (const std::exception& e) {
    throw std::runtime_error(file.string() + ":" + std::to_string(line.number) + ": " + e.what());
  }
}

std::string hex(const std::byte* data, std::size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto value = std::to_integer<std::size_t>(data[i]);
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

}  // namespace tally::fixture
