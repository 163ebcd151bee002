# What is known of ports before they are opened.
tally_test(device_test PURE SOURCES device_facts_test.cc device_port_test.cc LABEL unit LINK tally_device)
