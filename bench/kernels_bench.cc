// Every kernel of every table this CPU can run.
//
//   NAME/TABLE/ELEMENTS/L1    one entry and one packet, both in the first-level cache
//   NAME/TABLE/ELEMENTS/ring  packets from a ring of 4.25 MiB as mbufs lie (payload 98 bytes into a stride of
//                             2,176), 256 entries, 8 packets in a row to one entry: what the pipeline sees
//
// ns per call, elements/s. Nothing is timed that was not first compared with the scalar table; a difference
// ends the program with exit code 1. `--json FILE` beside Google Benchmark's own options.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace {

using tally::kernels::Kernels;

constexpr std::size_t kPayloadOffset = 98;
constexpr std::size_t kStride = 2048 + 128;
constexpr std::uint32_t kFrames = 2048;
constexpr std::uint32_t kEntries = 256;
constexpr std::uint32_t kRingElements = 256;
constexpr std::uint32_t kMembers = 8;
constexpr std::align_val_t kPage{4096};
// Of a lone packet, half a page from that of the entry: otherwise loads of the entry would wait for stores to
// the packet that agree in the low 12 bits of the address, which is chance in a ring.
constexpr std::size_t kLoneOffset = 2048 + kPayloadOffset;
constexpr float kScale = 0x1p27f;
constexpr std::int32_t kLimit = 1 << 27;

// Memory at the start of a page, filled with random bytes that make integers and floats of every size but no
// denormals.
template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t count)
      : count_(count), data_(static_cast<T*>(operator new(count * sizeof(T), kPage))) {
    std::mt19937 random(1);
    for (std::size_t i = 0; i < count * sizeof(T); ++i)
      reinterpret_cast<std::byte*>(data_.get())[i] = static_cast<std::byte>(1 + random() % 0x3f);
  }
  T* get() { return data_.get(); }
  [[nodiscard]] bool operator==(const Aligned& other) const {
    return std::memcmp(data_.get(), other.data_.get(), count_ * sizeof(T)) == 0;
  }

 private:
  struct Free {
    void operator()(T* data) const { operator delete(data, kPage); }
  };
  std::size_t count_;
  std::unique_ptr<T, Free> data_;
};

using SwitchCall = void (*)(const Kernels&, std::int32_t*, std::byte*, std::uint32_t);

struct SwitchKernel {
  std::string_view name;
  SwitchCall call;
};

template <class T>
void use(T result) {
  benchmark::DoNotOptimize(result);
}

constexpr SwitchKernel kSwitchKernels[] = {
    {"write", [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { k.write(e, w, n); }},
    {"add", [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { use(k.add(e, w, n)); }},
    {"add_sums",
     [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { use(k.add_sums(e, w, n)); }},
    {"add_emit",
     [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { use(k.add_emit(e, w, n)); }},
    {"subtract",
     [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { k.subtract(e, w, n); }},
    {"read", [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { k.read(e, w, n); }},
    {"swap", [](const Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) { k.swap(e, w, n); }},
    {"sums", [](const Kernels& k, std::int32_t*, std::byte* w, std::uint32_t n) { use(k.sums(w, n)); }},
};

SwitchCall call_of(std::string_view name) {
  return std::find_if(std::begin(kSwitchKernels), std::end(kSwitchKernels),
                      [name](const SwitchKernel& kernel) { return kernel.name == name; })
      ->call;
}

const Kernels& reference() { return *tally::kernels::usable_kernels().front(); }

void require_same(bool same, const Kernels& kernels) {
  if (same) return;
  std::fprintf(stderr, "a kernel of table '%s' differs from scalar\n", std::string(kernels.name).c_str());
  std::exit(1);
}

void count_elements(benchmark::State& state, std::uint64_t per_iteration) {
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(per_iteration), benchmark::Counter::kIsIterationInvariantRate);
}

bool same_as_reference(const Kernels& kernels, SwitchCall call, std::uint32_t n) {
  Aligned<std::int32_t> entry(n);
  Aligned<std::int32_t> expected_entry(n);
  Aligned<std::byte> wire(kLoneOffset + n * sizeof(std::int32_t));
  Aligned<std::byte> expected_wire(kLoneOffset + n * sizeof(std::int32_t));
  call(kernels, entry.get(), wire.get() + kLoneOffset, n);
  call(reference(), expected_entry.get(), expected_wire.get() + kLoneOffset, n);
  return entry == expected_entry && wire == expected_wire;
}

void in_cache(benchmark::State& state, const Kernels& kernels, SwitchCall call, std::uint32_t n) {
  require_same(same_as_reference(kernels, call, n), kernels);
  Aligned<std::int32_t> entry(n);
  Aligned<std::byte> frame(kLoneOffset + n * sizeof(std::int32_t));
  for (auto _ : state) call(kernels, entry.get(), frame.get() + kLoneOffset, n);
  count_elements(state, n);
}

// `last` is called for the last of the kMembers packets of an entry.
void from_ring(benchmark::State& state, const Kernels& kernels, SwitchCall call, SwitchCall last) {
  require_same(same_as_reference(kernels, call, kRingElements), kernels);
  Aligned<std::int32_t> entries(kEntries * kRingElements);
  Aligned<std::byte> ring(kFrames * kStride);
  std::uint32_t i = 0;
  for (auto _ : state) {
    std::int32_t* entry = entries.get() + i / kMembers % kEntries * kRingElements;
    std::byte* wire = ring.get() + i % kFrames * kStride + kPayloadOffset;
    (i % kMembers == kMembers - 1 ? last : call)(kernels, entry, wire, kRingElements);
    ++i;
  }
  count_elements(state, kRingElements);
}

void crc_of_header(benchmark::State& state, const Kernels& kernels) {
  Aligned<std::byte> header(52);
  require_same(kernels.crc32c(header.get(), 52) == reference().crc32c(header.get(), 52), kernels);
  for (auto _ : state) {
    benchmark::ClobberMemory();
    use(kernels.crc32c(header.get(), 52));
  }
}

// One worker's work on a tensor without the network: per chunk of 352 elements max_abs_bits, quantise (with
// sums), then the sums of the chunk as received and dequantise.
void quantise_round(const Kernels& kernels, const std::vector<float>& in, std::byte* frame,
                    std::vector<float>& out) {
  constexpr std::uint32_t kChunk = 352;
  for (std::size_t i = 0; i < in.size(); i += kChunk) {
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(kChunk, in.size() - i));
    use(kernels.max_abs_bits(&in[i], n));
    use(kernels.quantise(&in[i], frame, n, kScale, kLimit));
    use(kernels.sums(frame, n / 16 * 16));
    kernels.dequantise(frame, &out[i], n, 1 / kScale);
  }
}

void quantise_tensor(benchmark::State& state, const Kernels& kernels, std::size_t elements) {
  std::vector<float> in(elements);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (auto& x : in) x = unit(random);
  std::vector<float> out(elements);
  std::vector<float> expected(elements);
  Aligned<std::byte> frame(kStride);
  quantise_round(kernels, in, frame.get() + kPayloadOffset, out);
  quantise_round(reference(), in, frame.get() + kPayloadOffset, expected);
  require_same(out == expected, kernels);
  for (auto _ : state) quantise_round(kernels, in, frame.get() + kPayloadOffset, out);
  state.counters["input_bytes/s"] = benchmark::Counter(static_cast<double>(elements * sizeof(float)),
                                                       benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel("float32 input bytes/s/core of max_abs_bits + quantise + sums + dequantise");
}

// NAME/TABLE/SIZE/PLACE
template <class Run>
void add_benchmark(std::string_view name, const Kernels& k, std::string_view size_and_place, Run run) {
  std::string full(name);
  full.append("/").append(k.name).append("/").append(size_and_place);
  benchmark::RegisterBenchmark(full.c_str(), [&k, run](benchmark::State& state) { run(state, k); });
}

using WorkerCall = void (*)(const Kernels&, float*, std::byte*, std::uint32_t);

constexpr std::pair<const char*, WorkerCall> kWorkerKernels[] = {
    {"max_abs_bits",
     [](const Kernels& k, float* x, std::byte*, std::uint32_t n) { use(k.max_abs_bits(x, n)); }},
    {"quantise", [](const Kernels& k, float* x, std::byte* w,
                    std::uint32_t n) { use(k.quantise(x, w, n, kScale, kLimit)); }},
    {"dequantise",
     [](const Kernels& k, float* x, std::byte* w, std::uint32_t n) { k.dequantise(w, x, n, 1 / kScale); }},
    {"pack", [](const Kernels& k, float* x, std::byte* w,
                std::uint32_t n) { use(k.pack(reinterpret_cast<std::int32_t*>(x), w, n)); }},
    {"unpack", [](const Kernels& k, float* x, std::byte* w,
                  std::uint32_t n) { k.unpack(w, reinterpret_cast<std::int32_t*>(x), n); }},
    {"copy_sums", [](const Kernels& k, float* x, std::byte* w,
                     std::uint32_t n) { use(k.copy_sums(w, reinterpret_cast<std::byte*>(x), n)); }},
};

void worker_in_cache(benchmark::State& state, const Kernels& kernels, WorkerCall call, std::uint32_t n) {
  Aligned<float> span(n);
  Aligned<float> expected_span(n);
  Aligned<std::byte> frame(kLoneOffset + n * sizeof(float));
  Aligned<std::byte> expected_frame(kLoneOffset + n * sizeof(float));
  call(kernels, span.get(), frame.get() + kLoneOffset, n);
  call(reference(), expected_span.get(), expected_frame.get() + kLoneOffset, n);
  require_same(span == expected_span && frame == expected_frame, kernels);
  for (auto _ : state) {
    call(kernels, span.get(), frame.get() + kLoneOffset, n);
    benchmark::ClobberMemory();
  }
  count_elements(state, n);
}

// What the calls above throw away.
void require_same_returned(const Kernels& k) {
  constexpr std::uint32_t kN = 352;
  const auto returned = [](const Kernels& t) {
    Aligned<std::int32_t> entry(kN);
    Aligned<std::byte> wire(kN * sizeof(std::int32_t));
    const auto added = t.add_sums(entry.get(), wire.get(), kN);
    const auto emitted = t.add_emit(entry.get(), wire.get(), kN);
    const auto packed = t.pack(entry.get(), wire.get(), kN);
    const bool overflow = t.add(entry.get(), wire.get(), kN);
    const auto sums = t.sums(wire.get(), kN);
    return std::array{added.sums.sum1,         added.sums.sum2,   std::uint32_t{added.overflow},
                      emitted.sums.sum1,       emitted.sums.sum2, std::uint32_t{emitted.overflow},
                      packed.sums.sum1,        packed.sums.sum2,  packed.magnitude,
                      std::uint32_t{overflow}, sums.sum1,         sums.sum2};
  };
  require_same(returned(k) == returned(reference()), k);
}

void register_all(const Kernels& k) {
  using State = benchmark::State;
  for (const auto& [name, call] : kSwitchKernels) {
    for (const std::uint32_t n : {64u, 256u, 352u, 2224u})
      add_benchmark(name, k, std::to_string(n) + "/L1",
                    [call = call, n](State& state, const Kernels& t) { in_cache(state, t, call, n); });
    add_benchmark(name, k, "256/ring",
                  [call = call](State& state, const Kernels& t) { from_ring(state, t, call, call); });
  }
  // The yardstick of the pipeline's figures: the mix of a chunk of 8 members.
  add_benchmark("raw_add_7_adds_1_add_emit", k, "256/ring", [](State& state, const Kernels& t) {
    from_ring(state, t, call_of("add"), call_of("add_emit"));
  });
  add_benchmark("crc32c", k, "52_bytes/L1", crc_of_header);
  for (const auto& [name, call] : kWorkerKernels)
    add_benchmark(name, k, "256/L1",
                  [call = call](State& state, const Kernels& t) { worker_in_cache(state, t, call, 256); });
  add_benchmark("quantise+dequantise", k, "128_KiB/L2",
                [](State& state, const Kernels& t) { quantise_tensor(state, t, std::size_t{32} << 10); });
  add_benchmark("quantise+dequantise", k, "64_MiB/DRAM",
                [](State& state, const Kernels& t) { quantise_tensor(state, t, std::size_t{16} << 20); });
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  const auto json = std::find(arguments.begin(), arguments.end(), "--json");
  if (json != arguments.end() && json + 1 != arguments.end()) {
    *json = "--benchmark_out_format=json";
    *(json + 1) = "--benchmark_out=" + *(json + 1);
  }
  std::vector<char*> pointers(arguments.size() + 1);
  std::transform(arguments.begin(), arguments.end(), pointers.begin(),
                 [](std::string& a) { return a.data(); });
  benchmark::Initialize(&argc, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(argc, pointers.data())) return 1;
  for (const Kernels* kernels : tally::kernels::usable_kernels()) {
    require_same_returned(*kernels);
    register_all(*kernels);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
