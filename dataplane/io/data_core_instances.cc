#include "data_core_definitions.h"
#include "fused.h"
#include "staged.h"

namespace tally {

template class PipelineCore<Fused>;
template class PipelineCore<Staged>;

}  // namespace tally
