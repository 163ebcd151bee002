# -DTALLY_SANITIZE=address: AddressSanitizer with UndefinedBehaviorSanitizer, every finding fatal.
# lld, as a program of 140 MB takes binutils' linker seven seconds and lld one.
if(TALLY_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined -fuse-ld=lld)
elseif(TALLY_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=thread -fuse-ld=lld)
elseif(TALLY_SANITIZE)
  message(FATAL_ERROR "TALLY_SANITIZE is '${TALLY_SANITIZE}'; it may be empty, 'address' or 'thread'")
endif()

# tally_pointers_by_address(TARGET): what a pointer does there is AddressSanitizer's to judge alone, which sees each access.
# UndefinedBehaviorSanitizer's questions at each use of one take a quarter of the time that a file takes to compile.
function(tally_pointers_by_address name)
  if(TALLY_SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr)
  endif()
endfunction()
if(TALLY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TALLY_FUZZ needs clang++ (libFuzzer); configure with -DCMAKE_CXX_COMPILER=clang++-14")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
