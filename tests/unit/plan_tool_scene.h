#pragma once
// Clusters to plan for.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "cluster/cluster_file.h"

namespace tally::plan_tool {

inline cluster::Cluster cluster_of(const std::string& yaml) {
  auto loaded = cluster::load_cluster_text(yaml, "c.yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::move(loaded->cluster) : cluster::Cluster{};
}

inline cluster::Cluster example_cluster(const std::string& name) {
  auto loaded = cluster::load_cluster(std::string(TALLY_CONF_DIRECTORY "/cluster-") + name + ".yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::move(loaded->cluster) : cluster::Cluster{};
}

}  // namespace tally::plan_tool
