#include "fused.h"
#include "pipeline_definitions.h"
#include "staged.h"

namespace tally {

template class Pipeline<Fused>;
template class Pipeline<Staged>;

}  // namespace tally
