#include "io/data_core_definitions.h"
#include "profiled.h"

namespace tally {

template class io::PipelineCore<bench::Profiled>;

namespace bench {

std::unique_ptr<io::DataCore> make_profiled_core(io::CoreOptions options, io::CoreRings& rings) {
  return std::make_unique<io::PipelineCore<Profiled>>(std::move(options), rings);
}

}  // namespace bench
}  // namespace tally
