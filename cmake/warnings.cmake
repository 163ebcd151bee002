# The warnings of both compilers, as errors, for every target of ours (system headers excepted).
add_library(tally_warnings INTERFACE)
target_compile_options(tally_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror
  # Designated initialisers name what differs from the defaults; g++ would want every field named.
  -Wno-missing-field-initializers)
