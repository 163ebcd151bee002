tally_test(cluster_test PURE SANITIZED
  SOURCES cluster_golden_test.cc cluster_load_test.cc cluster_names_test.cc golden_cases.cc
  LABEL unit LINK tally_cluster)
target_compile_definitions(cluster_test PRIVATE
  TALLY_CLUSTER_GOLDEN="${PROJECT_SOURCE_DIR}/tests/golden/cluster"
  TALLY_CLUSTER_PAGE="${PROJECT_SOURCE_DIR}/docs/cluster.md"
  TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf")
