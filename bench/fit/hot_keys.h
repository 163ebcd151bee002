#pragma once
// Hot keys on a chip: a packet may use each of its register arrays once in a pass, so two keys of a packet in one
// array cost it a second pass. Which key goes into which array (Libra calls it orchestration), and what that is worth
// over a hash.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/fit.h"
#include "tally/error.h"

namespace tally::bench {

using Batch = std::vector<std::uint64_t>;  // keys that are pushed together, each once

// A line has the keys of a batch, as decimal numbers with blanks between; empty lines and those that begin with # have
// none. Errors name NAME:LINE:COLUMN.
[[nodiscard]] Result<std::vector<Batch>> read_batches(std::istream& in, const std::string& name);
[[nodiscard]] Result<std::vector<Batch>> load_batches(const std::filesystem::path& file);

// The register arrays that a chip has for values.
struct Arrays {
  std::uint32_t count = 0;  // 0: none is needed, memory is the only limit
  std::uint64_t words = 0;  // of each: keys that it has room for
};
// Beside the registers of our pool program for packets of so many elements.
[[nodiscard]] Arrays value_arrays(const pipeline::Profile& profile, std::uint32_t elements);

class Assignment {
 public:
  // By hash alone.
  explicit Assignment(const Arrays& arrays) : arrays_(arrays) {}
  // The most frequent key first, each into the array whose keys are in the fewest packets with it; of those, into the
  // one that is used least. What the arrays have no room for stays cold.
  Assignment(const Arrays& arrays, const std::vector<Batch>& packets);

  // Of a key that was not in those packets: by hash.
  [[nodiscard]] std::uint32_t array_of(std::uint64_t key) const;
  [[nodiscard]] bool is_cold(std::uint64_t key) const;
  [[nodiscard]] std::size_t cold() const noexcept { return cold_; }
  [[nodiscard]] std::size_t keys() const noexcept { return array_.size(); }

 private:
  Arrays arrays_;
  std::unordered_map<std::uint64_t, std::uint32_t> array_;  // arrays_.count: cold
  std::size_t cold_ = 0;
};

struct Passes {
  std::size_t packets = 0;
  std::size_t more_than_one = 0;
  std::size_t all = 0;
  std::size_t most = 0;  // of one packet
};
// Cold keys are not in packets of this kind, whichever of the two assignments is asked.
[[nodiscard]] Passes passes_of(const Assignment& assignment, const Assignment& cold,
                               const std::vector<Batch>& packets, std::uint32_t arrays);

// If workers put at most one key of each array into a packet: how many packets of at most `keys` that takes.
[[nodiscard]] std::size_t ordered_packets(const Assignment& assignment, const Assignment& cold,
                                          const std::vector<Batch>& batches, std::uint32_t arrays,
                                          std::uint32_t keys);

// keys: of each packet, in the order of the batch; the last one has what is left.
[[nodiscard]] std::vector<Batch> packets_of(const std::vector<Batch>& batches, std::uint32_t keys);

// Learned from the first half of the batches, counted on the second; there must be two.
[[nodiscard]] std::string hot_text(const std::vector<Batch>& batches, std::uint32_t keys,
                                   const pipeline::Profile& profile, std::uint32_t elements);

}  // namespace tally::bench
