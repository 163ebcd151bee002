// Gloo's ring over TCP. The ranks find each other by files.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include "ring_run.h"

namespace {

constexpr std::chrono::seconds kPatience{60};

}  // namespace

int main(int argc, char** argv) {
  const auto options = tally::parse_ring_options(argc, argv, false);
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options.address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(options.store);
    const auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(options.rank),
                                                                     static_cast<int>(options.world));
    context->setTimeout(kPatience);
    context->connectFullMesh(store, device);

    tally::Ring ring{.name = "gloo ring", .rank = options.rank, .world = options.world};
    ring.barrier = [&context] {
      gloo::BarrierOptions together(context);
      gloo::barrier(together);
    };
    ring.sum = [&context](std::span<float> values) {
      gloo::AllreduceOptions sum(context);
      sum.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      sum.setOutput(values.data(), values.size());
      sum.setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
        gloo::sum<float>(static_cast<float*>(out), static_cast<const float*>(a), static_cast<const float*>(b),
                         n);
      });
      gloo::allreduce(sum);
    };
    return tally::run_ring(ring, options) == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gloo: %s\n", e.what());
    return 1;
  }
}
