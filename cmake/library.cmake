# The standard library's headers, compiled once: they are half of what most files take to compile. With clang++ only:
# g++ 12 behind a precompiled header shows false warnings of -Warray-bounds within the standard library, which it
# otherwise keeps to itself. Not with AddressSanitizer: that build notices a missing include, and `make headers` and
# `make lint` look at it. <filesystem> is left out: std::quoted, which it brings, would be found where ours is meant.
# What sees DPDK gets -march with it, hence a precompiled header of its own.
function(tally_precompiled_headers name)
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "// Here only for its precompiled header.\n")
  add_library(${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARGN} tally_warnings)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstring> <deque> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <tl/expected.hpp> <unordered_map> <vector>)
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT TALLY_SANITIZE STREQUAL "address")
  tally_precompiled_headers(tally_standard_headers)
  tally_precompiled_headers(tally_standard_headers_dpdk tally_libdpdk)
endif()

# tally_precompile(NAME [DPDK]): for libraries; executables have other flags (-fPIE).
function(tally_precompile name)
  set(headers tally_standard_headers)
  if("DPDK" IN_LIST ARGN)
    set(headers tally_standard_headers_dpdk)
  endif()
  if(TARGET ${headers})
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()

# tally_cold(files...): what a process runs once, when it starts or ends, and what takes longest to compile: CLI11, JSON.
# At -Og it takes half the time that -O3 takes; under AddressSanitizer, which makes much of it, -O0 a third of -O1.
# ThreadSanitizer's build takes the precompiled headers, which are compiled at its -O1.
function(tally_cold)
  if(TALLY_SANITIZE STREQUAL "address")
    set(optimised -O0)
  else()
    set(optimised "$<$<CONFIG:Release>:-Og>")
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${optimised}")
endfunction()

# A library of the tree: tally_library(NAME [DPDK] SOURCES... LINK targets...). Exports its own folder only.
# DPDK: what it links sees DPDK.
function(tally_library name)
  cmake_parse_arguments(arg "DPDK" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE tally_warnings)
  if(arg_DPDK)
    tally_precompile(${name} DPDK)
  else()
    tally_precompile(${name})
  endif()
endfunction()
