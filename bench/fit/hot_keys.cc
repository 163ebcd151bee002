#include "hot_keys.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <unordered_set>
#include <utility>

#include "fit_programs.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

Result<Batch> read_line(const std::string& line, const std::string& where) {
  Batch batch;
  std::unordered_set<std::uint64_t> seen;
  const char* const begin = line.data();
  const char* const end = begin + line.size();
  for (const char* at = begin; at != end;) {
    if (is_blank(*at)) {
      ++at;
      continue;
    }
    const char* const word_end = std::find_if(at, end, is_blank);
    std::uint64_t key = 0;
    const auto [stop, error] = std::from_chars(at, word_end, key);
    const std::string column = where + ":" + std::to_string(at - begin + 1);
    if (error != std::errc{} || stop != word_end)
      return fail(ErrorCode::kInvalidArgument,
                  std::string("'").append(at, word_end) + "' is no key; write a number from 0 to 2^64 - 1",
                  column);
    if (!seen.insert(key).second)
      return fail(ErrorCode::kInvalidArgument,
                  "key " + std::to_string(key) + " stands twice in a batch; write each once", column);
    batch.push_back(key);
    at = word_end;
  }
  return batch;
}

std::uint32_t hashed(std::uint64_t key, std::uint32_t arrays) {
  return static_cast<std::uint32_t>(mix64(key + 1) % arrays);
}

// Keys by how many packets have them, the most frequent first.
struct Heat {
  std::uint64_t key = 0;
  std::vector<std::uint32_t> packets{};
};
std::vector<Heat> heat_of(const std::vector<Batch>& packets) {
  std::unordered_map<std::uint64_t, std::size_t> at;
  std::vector<Heat> heat;
  for (std::uint32_t p = 0; p < packets.size(); ++p)
    for (const std::uint64_t key : packets[p]) {
      const auto [place, is_new] = at.try_emplace(key, heat.size());
      if (is_new) heat.push_back({key});
      heat[place->second].packets.push_back(p);
    }
  std::stable_sort(heat.begin(), heat.end(),
                   [](const Heat& a, const Heat& b) { return a.packets.size() > b.packets.size(); });
  return heat;
}

std::string line_of(const char* what, const Passes& p) {
  char text[128];
  const double packets = static_cast<double>(std::max<std::size_t>(1, p.packets));
  std::snprintf(text, sizeof text,
                "  %-8s %5.1f %% of packets need more than one pass; %.2f on average, %zu at most\n", what,
                100 * static_cast<double>(p.more_than_one) / packets, static_cast<double>(p.all) / packets,
                p.most);
  return text;
}

}  // namespace

Result<std::vector<Batch>> read_batches(std::istream& in, const std::string& name) {
  std::vector<Batch> batches;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.starts_with('#')) continue;
    auto batch = read_line(line, name + ":" + std::to_string(number));
    if (!batch) return tl::unexpected(batch.error());
    if (!batch->empty()) batches.push_back(std::move(*batch));
  }
  if (in.bad()) return system_failure("cannot read", errno, name);
  if (batches.size() < 2)
    return fail(
        ErrorCode::kInvalidArgument,
        std::to_string(batches.size()) + " batches; two are needed, one to learn from and one to count on",
        name);
  return batches;
}

Result<std::vector<Batch>> load_batches(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return system_failure("cannot open", errno, file.string());
  return read_batches(in, file.string());
}

Arrays value_arrays(const pipeline::Profile& profile, std::uint32_t elements) {
  if (!profile.limited) return {};
  const std::uint32_t blocks = std::min(profile.sram_blocks, profile.map_ram_blocks) / profile.alus;
  const std::uint32_t word_bytes = 4 * pipeline::elements_per_word(profile);
  const std::uint64_t words =
      std::uint64_t{blocks - pipeline::kSpareBlocks} * pipeline::kSramBlockBytes / word_bytes;
  pipeline::ProgramNeed need = pipeline::pool_program(1, elements, 1, profile);
  need.value_words = words;
  return {.count = pipeline::fit(need, profile).value_arrays, .words = words};
}

Assignment::Assignment(const Arrays& arrays, const std::vector<Batch>& packets) : arrays_(arrays) {
  if (arrays_.count == 0) return;
  std::vector<std::uint64_t> used(arrays_.count);  // packets with a key of it
  std::vector<std::uint64_t> keys(arrays_.count);
  for (const Heat& heat : heat_of(packets)) {
    std::vector<std::uint64_t> together(arrays_.count);
    for (const std::uint32_t p : heat.packets)
      for (const std::uint64_t other : packets[p])
        if (const auto at = array_.find(other); at != array_.end() && at->second < arrays_.count)
          ++together[at->second];
    std::uint32_t best = arrays_.count;
    for (std::uint32_t a = 0; a < arrays_.count; ++a) {
      if (keys[a] == arrays_.words) continue;
      if (best == arrays_.count || std::pair(together[a], used[a]) < std::pair(together[best], used[best]))
        best = a;
    }
    array_.emplace(heat.key, best);
    if (best == arrays_.count) {
      ++cold_;
      continue;
    }
    ++keys[best];
    used[best] += heat.packets.size();
  }
}

std::uint32_t Assignment::array_of(std::uint64_t key) const {
  const auto at = array_.find(key);
  return at != array_.end() ? at->second : hashed(key, arrays_.count);
}
bool Assignment::is_cold(std::uint64_t key) const {
  const auto at = array_.find(key);
  return at != array_.end() && at->second == arrays_.count;
}

Passes passes_of(const Assignment& assignment, const Assignment& cold, const std::vector<Batch>& packets,
                 std::uint32_t arrays) {
  Passes passes;
  for (const Batch& packet : packets) {
    std::vector<std::size_t> keys(arrays);
    std::size_t most = 0;
    for (const std::uint64_t key : packet)
      if (!cold.is_cold(key)) most = std::max(most, ++keys[assignment.array_of(key)]);
    if (most == 0) continue;
    ++passes.packets;
    passes.more_than_one += most > 1 ? 1 : 0;
    passes.all += most;
    passes.most = std::max(passes.most, most);
  }
  return passes;
}

std::size_t ordered_packets(const Assignment& assignment, const Assignment& cold,
                            const std::vector<Batch>& batches, std::uint32_t arrays, std::uint32_t keys) {
  std::size_t packets = 0;
  for (const Batch& batch : batches) {
    std::vector<std::size_t> of_array(arrays);
    std::size_t all = 0;
    std::size_t most = 0;
    for (const std::uint64_t key : batch) {
      if (cold.is_cold(key)) continue;
      ++all;
      most = std::max(most, ++of_array[assignment.array_of(key)]);
    }
    packets += std::max(most, (all + keys - 1) / keys);  // dealt round, array after array
  }
  return packets;
}

std::vector<Batch> packets_of(const std::vector<Batch>& batches, std::uint32_t keys) {
  std::vector<Batch> packets;
  for (const Batch& batch : batches)
    for (std::size_t at = 0; at < batch.size(); at += keys) {
      const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(at);
      const std::size_t n = std::min<std::size_t>(keys, batch.size() - at);
      packets.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n));
    }
  return packets;
}

std::string hot_text(const std::vector<Batch>& batches, std::uint32_t keys, const pipeline::Profile& profile,
                     std::uint32_t elements) {
  const Arrays arrays = value_arrays(profile, elements);
  if (arrays.count == 0) return "  any key beside any other: memory is the only limit\n";
  const auto half = batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2);
  const std::vector<Batch> first(batches.begin(), half);
  const std::vector<Batch> second(half, batches.end());
  const std::vector<Batch> packets = packets_of(second, keys);
  const Assignment by_hash(arrays);
  const Assignment by_heat(arrays, packets_of(first, keys));
  const auto number = [](std::size_t n) { return std::to_string(n); };
  std::string out = "  ";
  out += number(arrays.count) + " value arrays of " + number(arrays.words) + " words; " +
         number(by_heat.keys()) + " keys in the " + number(first.size()) +
         " batches that it learns from, packets of " + number(keys) + " keys\n";
  if (by_heat.cold() != 0) out += "  no room for " + number(by_heat.cold()) + " of them, which stay cold\n";
  const Passes heat = passes_of(by_heat, by_heat, packets, arrays.count);
  out += line_of("by hash", passes_of(by_hash, by_heat, packets, arrays.count));
  out += line_of("by heat", heat);
  const auto ordered = [&](const Assignment& by) {
    return number(ordered_packets(by, by_heat, second, arrays.count, keys));
  };
  out += "  none, if workers take one key of each array: in " + ordered(by_hash) + " packets by hash and " +
         ordered(by_heat) + " by heat, not " + number(heat.packets) + "\n";
  return out;
}

}  // namespace tally::bench
