# The warnings of both compilers, as errors, for every target of ours (system headers excepted).
add_library(tally_warnings INTERFACE)
target_compile_options(tally_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror
  # Designated initialisers name what differs from the defaults; g++ would want every field named.
  -Wno-missing-field-initializers)

# A library of the tree: tally_library(NAME SOURCES... LINK targets...). Exports its own folder only.
function(tally_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE tally_warnings)
endfunction()
