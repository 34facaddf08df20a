#include "engine/http/query.h"

#include <gtest/gtest.h>

namespace paddle::http {
namespace {

TEST(Query, NamesAndValuesAreDecoded) {
  const auto values = query_values("job=a%20b+c&now=1&flag&empty=&%6aob2=%C3%A4&x=a=b&&");
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (Fields{{"job", "a b c"},
                             {"now", "1"},
                             {"flag", ""},
                             {"empty", ""},
                             {"job2", "\xc3\xa4"},
                             {"x", "a=b"}}));
  EXPECT_EQ(value_of(*values, "now"), "1");
  EXPECT_EQ(value_of(*values, "later"), "");
  EXPECT_EQ(query_values("")->size(), 0U);
}

TEST(Query, WhatIsReadInTwoWaysIsRefused) {
  for (const char* const query :
       {"a=%", "a=%4", "a=%4g", "a=%+1", "a=%-1", "a=%0x", "%zz=a", "a=1&a=2", "a=1&%61=2", "a&a"})
    EXPECT_FALSE(query_values(query)) << query;
}

TEST(Query, BytesThatAreNoTextAreRefused) {
  for (const char* const query :
       {"a=%00", "a=b%0a", "a=%0D", "a=%7f", "a=%1b[2J", "a=%ff", "a=%c3", "a=%ed%a0%80", "%00=a"})
    EXPECT_FALSE(query_values(query)) << query;
}

}  // namespace
}  // namespace paddle::http
