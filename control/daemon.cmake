# tallyd: the control thread around members and data plane. A library, so that tests drive it without EAL.
find_package(spdlog 1.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
mark_as_advanced(ASIO_INCLUDE_DIR)

tally_library(tally_daemon DPDK
  SOURCES box_options.cc box_start.cc box_watch.cc command_line.cc control_loop.cc counters_report.cc
          counters_snapshot.cc daemon.cc job_watch.cc log.cc member_loop.cc random_words.cc reload.cc sd_notify.cc session_texts.cc share_watch.cc shutdown.cc steering.cc
          version_text.cc
  LINK tally_config tally_members tally_io tally_text)
tally_cold(command_line.cc)
target_include_directories(tally_daemon SYSTEM PRIVATE ${ASIO_INCLUDE_DIR})
target_compile_definitions(tally_daemon PRIVATE ASIO_STANDALONE
  TALLY_VERSION="${PROJECT_VERSION}" TALLY_DPDK_VERSION="${dpdk_VERSION}"
  TALLY_EXAMPLE_CONFIG="${CMAKE_INSTALL_FULL_DATADIR}/tally/demo.yaml")
target_link_libraries(tally_daemon PRIVATE spdlog::spdlog CLI11::CLI11)

add_executable(tallyd tallyd.cc)
target_link_libraries(tallyd PRIVATE tally_daemon tally_warnings)

install(TARGETS tallyd)
install(FILES ${PROJECT_SOURCE_DIR}/conf/demo.yaml ${PROJECT_SOURCE_DIR}/conf/switchml.yaml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tally)
install(FILES ${PROJECT_SOURCE_DIR}/systemd/tallyd.service DESTINATION lib/systemd/system)
