# Only the server has a thread.
if(NOT TALLY_SANITIZE STREQUAL "thread")
  set(alone http_answers_test.cc http_events_test.cc http_limits_test.cc http_metrics_test.cc http_streams_test.cc)
endif()
tally_test(http_test SANITIZED SOURCES ${alone} http_server_test.cc
  LABEL unit LINK tally_http)
target_compile_definitions(http_test PRIVATE TALLY_HTTP_PAGE="${PROJECT_SOURCE_DIR}/docs/http.md")
