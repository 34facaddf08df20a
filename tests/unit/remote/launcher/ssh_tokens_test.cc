#include "remote/launcher/ssh_tokens.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace paddle::remote {
namespace {

TEST(Tokens, StandForTheirValues) {
  EXPECT_EQ(*expand_tokens("%h:%p%%h", {{'h', "a"}, {'p', "22"}}), "a:22%h");
  const auto unknown = expand_tokens("x%C", {{'h', "a"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Errc::kUsage);
  EXPECT_EQ(unknown.error().message, "the token %C is not supported");
  EXPECT_FALSE(expand_tokens("ends with %", {}));
}

TEST(Tokens, VariablesComeFromTheEnvironment) {
  ::setenv("PADDLE_TEST_KEY", "k-1", 1);
  EXPECT_EQ(*expand_variables("/a/${PADDLE_TEST_KEY}.pub"), "/a/k-1.pub");
  EXPECT_EQ(*expand_variables("$HOME ${open"), "$HOME ${open");
  ::unsetenv("PADDLE_TEST_KEY");
  EXPECT_EQ(expand_variables("${PADDLE_TEST_KEY}").error().message,
            "the variable PADDLE_TEST_KEY is not set");
}

TEST(Tokens, ATildeIsTheFolderOfAUser) {
  EXPECT_EQ(expand_home("~/x"), home_directory() + "/x");
  EXPECT_EQ(expand_home("~"), home_directory());
  EXPECT_EQ(expand_home("~root/x"), "/root/x");
  EXPECT_EQ(expand_home("~no-such-user/x"), "~no-such-user/x");
  EXPECT_EQ(expand_home("/a/~/x"), "/a/~/x");
}

}  // namespace
}  // namespace paddle::remote
