tally_test(session_service_test PURE SOURCES session_service_box_test.cc session_service_group_test
               .cc session_service_requests_test.cc session_service_sessions_test.cc LABEL unit LINK
                   tally_session_service tally_control_api)
