#include "data_core_definitions.h"
#include "profiled.h"

namespace tally {

template class PipelineCore<bench::Profiled>;

namespace bench {

std::unique_ptr<DataCore> make_profiled_core(CoreOptions options, CoreRings& rings) {
  return std::make_unique<PipelineCore<Profiled>>(std::move(options), rings);
}

}  // namespace bench
}  // namespace tally
