#include "cli/dashboard/dashboard_token.h"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

TEST(DashboardToken, ItIsMadeOnceAndPrivate) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "state/paddlectl/dashboard-token";
  const auto token = token_of(file);
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->size(), 43U) << "32 bytes";
  EXPECT_EQ(
      token->find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      std::string::npos);
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((folder / "state/paddlectl").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_EQ(*token_of(file), *token);
  std::set<std::string> others;
  for (int i = 0; i < 100; ++i) others.insert(*new_token());
  EXPECT_EQ(others.size(), 100U);
}

TEST(DashboardToken, OneThatOthersReadIsRefused) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "token";
  ASSERT_TRUE(token_of(file));
  for (const unsigned mode : {0640U, 0604U, 0620U}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    const auto token = token_of(file);
    ASSERT_FALSE(token) << mode;
    EXPECT_EQ(token.error().code, Errc::kAuth);
    EXPECT_EQ(token.error().hint, "chmod 600 " + file);
  }
}

TEST(DashboardToken, OneThatIsShortOrFitsNoAddressIsRefused) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "token";
  const std::string good(32, 'a');
  for (const std::string& text : {std::string(), std::string(31, 'a'), good + "/", good + " ",
                                  good + "\n\n", std::string(257, 'a'), good + "\xc3\xa4"}) {
    ASSERT_TRUE(replace_file(file, as_bytes(text), 0600));
    EXPECT_FALSE(token_of(file)) << text;
  }
  for (const std::string& text : {good, good + "\n", good + "-_Z9"}) {
    ASSERT_TRUE(replace_file(file, as_bytes(text), 0600));
    EXPECT_TRUE(token_of(file)) << text;
  }
}

TEST(DashboardToken, AFolderThatCannotBeWrittenIsAnError) {
  for (const char* const file : {"/proc/nowhere/token", "/dev/null/token"}) {
    const auto token = token_of(file);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, Errc::kResource);
    EXPECT_EQ(token.error().hint, "name a file elsewhere with --token-file");
  }
}

TEST(DashboardToken, WhatIsNoFileOfAUserIsRefusedWithTheStepThatHelps) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(token_of(folder / "token"));
  std::filesystem::create_symlink(folder / "token", folder / "link");
  std::filesystem::create_symlink(folder / "missing", folder / "broken");
  for (const std::string& file :
       {std::string("/dev/null"), folder.path(), folder / "link", folder / "broken"}) {
    const auto token = token_of(file);
    ASSERT_FALSE(token) << file;
    EXPECT_EQ(token.error().code, Errc::kAuth) << file;
    EXPECT_EQ(token.error().message, file + " is no regular file");
    EXPECT_EQ(token.error().hint, "name another file with --token-file");
  }
  ASSERT_TRUE(replace_file(folder / "token", as_bytes(std::string(300, 'a')), 0600));
  EXPECT_TRUE(token_of(folder / "token").error().hint.starts_with("remove it"));
}

}  // namespace
}  // namespace paddle::cli
