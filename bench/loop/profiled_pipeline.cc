// Apart from profiled_core.cc, as the product's are: what is inlined into what stays the same.

#include "pipeline/pipeline_definitions.h"
#include "profiled.h"

namespace tally {

template class pipeline::Pipeline<bench::Profiled>;

}  // namespace tally
