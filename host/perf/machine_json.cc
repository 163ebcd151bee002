#include "machine_json.h"

namespace tally {

nlohmann::json machine_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"kernel", machine.kernel},
          {"governor", machine.governor},
          {"load", machine.load},
          {"version", machine.version},
          {"warnings", machine_warnings(machine)}};
}

}  // namespace tally
