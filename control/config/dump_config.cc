#include "load_config.h"
#include "schemas.h"

namespace tally {

std::string dump_config(const Config& config) {
  std::string out;
  dump_section(config_schema(), config, "", out);
  return out;
}

}  // namespace tally
