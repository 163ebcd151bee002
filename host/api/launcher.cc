#include <cctype>
#include <cstdlib>

#include "option_texts.h"

namespace tally {
namespace {

struct Launcher {
  const char* rank;
  const char* world;
};

// torchrun and its like, Open MPI, Slurm, PMI (MPICH, Intel MPI). The nearest to the process first: torchrun
// is itself started by Slurm at times.
constexpr std::array<Launcher, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"SLURM_PROCID", "SLURM_NTASKS"},
                                              {"PMI_RANK", "PMI_SIZE"}}};

OptionTexts told_by(const Launcher& launcher) {
  OptionTexts texts;
  if (std::string rank = environment_value(launcher.rank); !rank.empty())
    texts["rank"] = {std::move(rank), launcher.rank};
  if (std::string world = environment_value(launcher.world); !world.empty())
    texts["world"] = {std::move(world), launcher.world};
  return texts;
}

}  // namespace

OptionTexts read_launcher() {
  OptionTexts first;
  for (const Launcher& launcher : kLaunchers) {
    OptionTexts texts = told_by(launcher);
    if (texts.size() == 2) return texts;
    if (first.empty()) first = std::move(texts);
  }
  return first;
}

std::string environment_value(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

std::string variable_of(std::string_view setting) {
  std::string name = "TALLY_";
  for (const char c : setting) name.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return name;
}

std::string setting_of(std::string_view name) {
  std::string lower;
  for (const char c : name) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return lower.starts_with("tally_") ? lower.substr(6) : lower;
}

}  // namespace tally
