#pragma once
// The loop of tally-switchml: clients, gRPC, the box and the clock around the rules of session_service. One thread has
// all of it; gRPC's and the link's only put down what came and wake it.

#include "switchml/service_config.h"
#include "tally/error.h"

namespace tally::switchml_service {

// Until SIGTERM or SIGINT; sessions at the box go on. Blocks these signals, before any other thread is made.
[[nodiscard]] Result<void> run_gateway(const ServiceConfig& config);

}  // namespace tally::switchml_service
