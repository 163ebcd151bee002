# What is known of the kernel's ports.
tally_test(device_test PURE SOURCES device_facts_test.cc LABEL unit LINK tally_device)
