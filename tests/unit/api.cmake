# The worker library through its public faces: nothing of host/api's inside is linked or seen. Its engine is a
# copy of its own, apart from the one that the simulator's box brings.
if(NOT CMAKE_C_COMPILER)  # the C compiler of the same make as the C++ compiler
  string(REGEX REPLACE "clang\\+\\+" "clang" api_c_compiler "${CMAKE_CXX_COMPILER}")
  string(REGEX REPLACE "g\\+\\+" "gcc" api_c_compiler "${api_c_compiler}")
  string(REGEX REPLACE "c\\+\\+$" "cc" CMAKE_C_COMPILER "${api_c_compiler}")
endif()
enable_language(C)
add_library(api_c_program OBJECT api_c_program.c)
target_include_directories(api_c_program PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(api_c_program PRIVATE TALLY_VERSION="${PROJECT_VERSION}")
set_target_properties(api_c_program PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(api_c_program PRIVATE -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)

tally_test(api_test
  SOURCES api_loopback.cc api_join_test.cc api_reduce_test.cc api_end_test.cc api_fork_test.cc
          api_environment_test.cc api_debug_test.cc api_types_test.cc api_sparse_test.cc api_c_test.cc $<TARGET_OBJECTS:api_c_program>
  LABEL unit LINK tally tally_sim)

# How the library finds its transports: a program that does not link it.
add_library(api_plugin MODULE api_plugin.cc)
target_link_libraries(api_plugin PRIVATE tally tally_warnings)
tally_test(api_plugin_test SOURCES api_plugin_test.cc LABEL unit LINK tally_include ${CMAKE_DL_LIBS})
add_dependencies(api_plugin_test tally api_plugin)
target_compile_definitions(api_plugin_test PRIVATE
  TALLY_LIBRARY="$<TARGET_FILE:tally>" TALLY_PLUGIN="$<TARGET_FILE:api_plugin>"
  TALLY_BUILD_RPATH="$<TARGET_PROPERTY:tally,BUILD_RPATH>")
