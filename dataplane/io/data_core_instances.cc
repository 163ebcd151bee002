#include "io/data_core_definitions.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"

namespace tally::io {

template class PipelineCore<pipeline::Fused>;
template class PipelineCore<pipeline::Staged>;

}  // namespace tally::io
