#include "base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace paddle {
namespace {

Result<std::unique_ptr<int>> parse(bool good) {
  if (!good) return Error{Errc::kData, "bad number", "write a number"};
  return std::make_unique<int>(7);
}

Status twice(bool good, int& out) {
  PADDLE_TRY(const std::unique_ptr<int> value, parse(good));
  out = *value * 2;
  return {};
}

Status outer(bool good, int& out) {
  PADDLE_TRY_STATUS(twice(good, out));
  out += 1;
  return {};
}

TEST(Result, TryBindsAValueThatOnlyMoves) {
  int out = 0;
  EXPECT_TRUE(outer(true, out));
  EXPECT_EQ(out, 15);
}

TEST(Result, TryReturnsTheFirstErrorWhole) {
  int out = 0;
  const Status status = outer(false, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kData);
  EXPECT_EQ(status.error().message, "bad number");
  EXPECT_EQ(status.error().hint, "write a number");
  EXPECT_EQ(out, 0);
}

TEST(Result, ContextGoesInFrontAndKeepsCodeAndHint) {
  const Error error =
      Error{Errc::kResource, "disk full", "free some"}.with("writing x").with("node-2");
  EXPECT_EQ(error.message, "node-2: writing x: disk full");
  EXPECT_EQ(error.code, Errc::kResource);
  EXPECT_EQ(error.hint, "free some");
}

TEST(Result, TheExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(static_cast<int>(Errc::kFailed), 1);
  EXPECT_EQ(static_cast<int>(Errc::kUsage), 2);
  EXPECT_EQ(static_cast<int>(Errc::kVersion), 3);
  EXPECT_EQ(static_cast<int>(Errc::kUnreachable), 4);
  EXPECT_EQ(static_cast<int>(Errc::kAuth), 5);
  EXPECT_EQ(static_cast<int>(Errc::kData), 6);
  EXPECT_EQ(static_cast<int>(Errc::kResource), 7);
  EXPECT_EQ(static_cast<int>(Errc::kResumable), 75);
  EXPECT_EQ(static_cast<int>(Errc::kInterrupted), 130);
}

TEST(Result, ANumberThatIsNoExitCodeOfOursIsAFailure) {
  EXPECT_EQ(errc_of(7), Errc::kResource);
  EXPECT_EQ(errc_of(130), Errc::kInterrupted);
  for (const std::uint32_t number : {0U, 1U, 8U, 139U, 0xffffffffU})
    EXPECT_EQ(errc_of(number), Errc::kFailed) << number;
}

TEST(ResultDeathTest, ReadingTheOtherAlternativeIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(*parse(false)), "state_.index");
  EXPECT_DEATH(static_cast<void>(parse(true).error()), "state_.index");
}

}  // namespace
}  // namespace paddle
