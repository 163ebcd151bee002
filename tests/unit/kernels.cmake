tally_test(kernels_test PURE
  SOURCES kernels_halves_test.cc kernels_rows_test.cc kernels_short_floats_test.cc kernels_switch_test.cc kernels_worker_test.cc kernels_table_test.cc
  LABEL unit LINK tally_kernels)

# A function compiled for AVX that the linker may merge with others' (weak) could run on a CPU without it.
add_test(NAME kernels_share_no_vector_code COMMAND sh -c
  "! nm -A $<TARGET_FILE:tally_kernels> | grep 'avx.*[.]o:.* W ' | grep -v __clang_call_terminate")
set_tests_properties(kernels_share_no_vector_code PROPERTIES LABELS unit)
