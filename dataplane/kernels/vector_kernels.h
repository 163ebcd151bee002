#pragma once
// The table of one instruction set. Include below the target pragma, like vector_switch.h.

#include "kernel_tables.h"
#include "vector_switch.h"
#include "vector_worker.h"

namespace tally {
namespace {

template <class Isa>
consteval Kernels vector_kernels(std::string_view name) {
  using Switch = SwitchKernels<Isa>;
  using Worker = WorkerKernels<Isa>;
  return {
      .name = name,
      .write = Switch::write,
      .add = Switch::add,
      .add_sums = Switch::add_sums,
      .add_emit = Switch::add_emit,
      .subtract = Switch::subtract,
      .read = Switch::read,
      .swap = Switch::swap,
      .sums = Switch::sums,
      .crc32c = crc32c_sse42,
      .max_abs_bits = Worker::max_abs_bits,
      .quantise = Worker::quantise,
      .dequantise = Worker::dequantise,
      .pack = Worker::pack,
      .unpack = Worker::unpack,
      .copy_sums = Worker::copy_sums,
  };
}

}  // namespace
}  // namespace tally
