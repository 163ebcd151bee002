# tally_manual(NAME SECTION [PROGRAM]): the manual page of NAME.SECTION.scd in this folder (tools/manual).
find_program(SCDOC scdoc)

function(tally_manual name section)
  if(NOT SCDOC OR TALLY_SANITIZE)
    return()
  endif()
  set(page ${name}.${section})
  set(program ${ARGN})
  if(TARGET "${program}")
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_custom_command(OUTPUT ${page}
    COMMAND sh -c "'${PROJECT_SOURCE_DIR}/tools/manual' '${CMAKE_CURRENT_SOURCE_DIR}/${page}.scd' ${program} > ${page}.new && mv ${page}.new ${page}"
    DEPENDS ${page}.scd ${PROJECT_SOURCE_DIR}/tools/manual ${PROJECT_SOURCE_DIR}/docs/configuration.md ${PROJECT_SOURCE_DIR}/docs/cluster.md ${ARGN} VERBATIM)
  add_custom_target(manual_${name} ALL DEPENDS ${page})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  set_property(GLOBAL APPEND PROPERTY TALLY_MANUALS manual_${name})
endfunction()
