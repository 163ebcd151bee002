#include "pipeline/fused.h"
#include "pipeline/pipeline_definitions.h"
#include "pipeline/staged.h"

namespace tally::pipeline {

template class Pipeline<Fused>;
template class Pipeline<Staged>;

}  // namespace tally::pipeline
