#include "remote/launcher/launcher.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace paddle::remote {
namespace {

// skip_to_line() on a closed pipe that holds the text.
Result<std::string> skip(const std::string& text) {
  int ends[2];
  if (::pipe(ends) != 0) return system_error(Errc::kFailed, "pipe");
  const UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  PADDLE_TRY_STATUS(write_all(write.get(), as_bytes(text), TimePoint::max()));
  write.reset();
  return skip_to_line(read.get(), "MARK ", SteadyClock().now() + std::chrono::seconds(20));
}

TEST(Sentinel, IsFoundBehindNoiseAndWithEitherLineEnd) {
  EXPECT_EQ(*skip("banner\n\nMARK 1 2\nrest"), "1 2");
  EXPECT_EQ(*skip("banner\r\nMARK 1 2\r\n"), "1 2") << "a terminal's line end";
  EXPECT_FALSE(skip("not MARK 1\n")) << "inside a line it is noise";
}

TEST(Sentinel, AnEndBeforeItTellsTheLastLine) {
  const auto end = skip("one\nno such container\n");
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  EXPECT_NE(end.error().message.find("its last output was 'no such container'"), std::string::npos)
      << end.error().message;
  EXPECT_NE(skip("\x1b[31m\n").error().message.find("'\\x1b[31m'"), std::string::npos)
      << "control characters are escaped: " << skip("\x1b[31m\n").error().message;
  EXPECT_NE(skip("one\nPassword: ").error().message.find("its last output was 'Password: '"),
            std::string::npos)
      << "a line without an end";
  for (const char* const line_end : {"\n", ""}) {
    EXPECT_LT(skip(std::string(10'000, 'x') + line_end).error().message.size(), 300U)
        << "a long line is cut";
  }
}

TEST(Sentinel, ARefusalOfTheFolderIsAnErrorOfItsOwn) {
  const auto refused = skip("PADDLECTL-REFUSED /srv holds files\nMARK 1\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth);
  EXPECT_EQ(refused.error().message, "/srv holds files");
}

}  // namespace
}  // namespace paddle::remote
