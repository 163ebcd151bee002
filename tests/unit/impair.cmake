# Faults on purpose: which frames they meet, and when frames that wait leave.
tally_test(impair_test PURE SANITIZED SOURCES impair_faults_test.cc impair_line_test.cc LABEL unit LINK tally_impair)
