# A library of the tree: tally_library(NAME SOURCES... LINK targets...). An include of the product names the folder
# (pipeline/program.h), one of tests and benches the file alone. That a folder includes only what it links is a rule of
# tools/check-tree.
#
# A library of control or host is compiled sixteen files at a time, which takes half as long. Lint reads all files of a
# library as one and says where names clash, `make headers` compiles each by itself and says where an include is missing.
# OFF while one works on them, when one file changes again and again. Those of dataplane are only under sanitizers: in the
# product a file's functions are inlined in that file alone.
option(TALLY_UNITY "compile control and host sixteen files at a time" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)

function(tally_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH floor)
  if(floor MATCHES "^${PROJECT_SOURCE_DIR}/(dataplane|control|host)$")
    target_include_directories(${name} PUBLIC ${floor})
    if(TALLY_UNITY AND (TALLY_SANITIZE OR NOT floor MATCHES "/dataplane$"))
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
    endif()
  else()
    target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE tally_warnings)
endfunction()

# What no packet waits for, most of control and mains: it reads, prints and answers. -O2, as packages have it, takes g++ three
# quarters of the time of -O3; -O1 would save as much again, but there g++ warns of what is right. A sanitizer looks at it as well
# without optimisation, and clang then takes half as long over it.
function(tally_unhurried name)
  if(TALLY_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
    tally_pointers_by_address(${name})
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# Files that do nothing but read a command line, once in a process: half the time it takes to compile one goes into
# optimising the templates of CLI11.
function(tally_unoptimised_options)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0)
endfunction()
