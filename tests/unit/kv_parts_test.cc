#include <gtest/gtest.h>
TEST(KvParts, Nothing) { EXPECT_TRUE(true); }
