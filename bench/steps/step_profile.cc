#include "step_profile.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

namespace tally::bench {

std::uint64_t StepProfile::packets() const noexcept {
  return std::accumulate(packets_.begin(), packets_.end(), std::uint64_t{0});
}

StepProfile::Cell StepProfile::total() const noexcept {
  Cell sum;
  for (const Cell& c : cells_) sum = {sum.cycles + c.cycles, sum.stamps + c.stamps};
  return sum;
}

StepProfile& StepProfile::operator+=(const StepProfile& other) noexcept {
  for (std::size_t i = 0; i < kStepRows; ++i) {
    cells_[i].cycles += other.cells_[i].cycles;
    cells_[i].stamps += other.cells_[i].stamps;
  }
  for (std::size_t k = 0; k < kPacketKinds; ++k) packets_[k] += other.packets_[k];
  return *this;
}

StepProfile middle_half(std::vector<StepProfile> rounds) {
  std::ranges::sort(rounds, {}, [](const StepProfile& p) {
    return static_cast<double>(p.total().cycles) / static_cast<double>(p.packets());
  });
  const std::size_t quarter = rounds.size() / 4;
  StepProfile sum;
  for (std::size_t i = quarter; i < rounds.size() - quarter; ++i) sum += rounds[i];
  return sum;
}

namespace {

struct Named {
  StepRow row;
  const char* key;
  const char* name;
  bool by_kind = false;
};

// In the order of a packet's way.
constexpr std::array kRows{
    Named{StepRow::kPortReceive, "port_receive", "port: receive, payload read"},
    Named{StepRow::kIngress, "ingress", "frames marked and counted"},
    Named{StepRow::kParse, "parse", "parse, header CRC, match"},
    Named{StepRow::kRegisters, "registers", "registers", true},
    Named{StepRow::kValues, "values", "values", true},
    Named{StepRow::kVerdict, "verdict", "verdict, header", true},
    Named{StepRow::kConclude, "conclude", "replication"},
    Named{StepRow::kGiveBack, "give_back", "absorbed mbufs given back"},
    Named{StepRow::kEgress, "egress", "outboxes sent and counted"},
    Named{StepRow::kPortTransmit, "port_transmit", "port: transmit, checked, freed"},
    Named{StepRow::kRest, "rest", "rest of the turn"},
};

constexpr std::array<std::pair<const char*, const char*>, kPacketKinds> kKinds{{
    {"first", "first of its chunk"},
    {"add", "one between"},
    {"last", "last of its chunk"},
    {"other", "values not touched"},
}};

std::string text(const char* format, double value) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}

}  // namespace

StepFigures step_figures(std::vector<StepProfile> rounds, double stamp, double unprofiled, double tsc_hz) {
  const StepProfile sum = middle_half(std::move(rounds));
  const std::uint64_t contributions = sum.packets();
  const auto n = static_cast<double>(contributions);
  const StepProfile::Cell total = sum.total();
  StepFigures f{.contributions = contributions, .unprofiled = unprofiled, .stamp = stamp, .tsc_hz = tsc_hz};
  f.stamps = static_cast<double>(total.stamps) / n;
  f.with_stamps = static_cast<double>(total.cycles) / n;
  f.total = f.with_stamps - f.stamps * stamp;
  const auto add = [&](StepRow row, std::string key, std::string name, std::uint64_t events) {
    const StepProfile::Cell& cell = sum.cell(row);
    if (cell.stamps == 0 || events == 0) return;
    const double cycles = static_cast<double>(cell.cycles) - static_cast<double>(cell.stamps) * stamp;
    f.lines.push_back({.key = std::move(key),
                       .name = std::move(name),
                       .events = events,
                       .each = cycles / static_cast<double>(events),
                       .share = cycles / n});
  };
  // In a job of one each contribution is its result.
  const std::uint64_t last = sum.packets(PacketKind::kLast);
  const std::uint64_t results = last != 0 ? last : contributions;
  for (const Named& r : kRows) {
    if (!r.by_kind) {
      add(r.row, r.key, r.name, r.row == StepRow::kConclude ? results : contributions);
      continue;
    }
    for (std::size_t k = 0; k < kPacketKinds; ++k) {
      const auto kind = static_cast<PacketKind>(k);
      add(row_of(r.row, kind), std::string(r.key) + "_" + kKinds[k].first,
          std::string(r.name) + ", " + kKinds[k].second, sum.packets(kind));
    }
  }
  return f;
}

std::string step_table(const StepFigures& f) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%-38s %14s %18s %8s\n", "step", "cycles of one",
                "cycles/contribution", "share %");
  std::string out = line.data();
  for (const StepLine& l : f.lines) {
    std::snprintf(line.data(), line.size(), "%-38s %14.1f %18.1f %8.1f\n", l.name.c_str(), l.each, l.share,
                  100 * l.share / f.total);
    out += line.data();
  }
  std::snprintf(line.data(), line.size(), "%-38s %14s %18.1f %8.1f\n", "sum", "", f.total, 100.0);
  out += line.data();
  out += "# loop without stamps: " + text("%.1f", f.unprofiled) + " cycles; with them " +
         text("%.1f", f.with_stamps) + ", of which " + text("%.2f", f.stamps) + " stamps of " +
         text("%.1f", f.stamp) + " are taken off; the sum is " + text("%.2f", f.total / f.unprofiled) +
         " x the loop without; TSC " + text("%.0f", f.tsc_hz / 1e6) + " MHz\n";
  return out;
}

std::string step_csv(const StepFigures& f) {
  std::string out = "step,events,cycles_of_one,cycles_per_contribution\n";
  for (const StepLine& l : f.lines)
    out += l.key + "," + std::to_string(l.events) + "," + text("%.2f", l.each) + "," + text("%.2f", l.share) +
           "\n";
  return out + "sum," + std::to_string(f.contributions) + ",," + text("%.2f", f.total) + "\n";
}

nlohmann::json step_json(const StepFigures& f) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepLine& l : f.lines)
    steps.push_back({{"step", l.key},
                     {"name", l.name},
                     {"events", l.events},
                     {"cycles_of_one", l.each},
                     {"cycles_per_contribution", l.share}});
  return {{"steps", std::move(steps)},
          {"contributions", f.contributions},
          {"cycles", f.total},
          {"cycles_with_stamps", f.with_stamps},
          {"cycles_unprofiled", f.unprofiled},
          {"cycles_of_a_stamp", f.stamp},
          {"stamps_per_contribution", f.stamps},
          {"tsc_hz", f.tsc_hz}};
}

}  // namespace tally::bench
