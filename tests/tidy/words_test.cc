// Words: how headers and comments begin, and calls that have a better way.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

const std::vector<std::pair<std::string, std::string>> kBanned = {
    {R"(\bsystem\()", "start programs with an argument vector, never a shell string"},
    {R"(\bpopen\()", "start programs with an argument vector, never a shell string"},
    {R"(\bstd::rand\b|\bsrand\()", "use base/rng.h: seeded and reproducible"},
    {R"(\bssh_scp_)", "scp's protocol trusts the server's names"},
    {R"(\bTODO\b|\bFIXME\b|\bXXX\b)", "finish it or file an issue"},
    {R"(catch \(\.\.\.\) *\{ *\})", "an empty catch hides the cause"},
};

bool is_comment(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first != std::string::npos && line.compare(first, 2, "//") == 0;
}

}  // namespace

TEST(Words, BannedCalls) {
  for (const auto& [pattern, why] : kBanned) {
    const std::regex banned(pattern);
    for (const Source& source : product_sources()) {
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        EXPECT_FALSE(std::regex_search(source.lines[i], banned))
            << source.path << ":" << i + 1 << ": " << why << "\n  " << source.lines[i];
      }
    }
  }
}

TEST(Words, HeadersAreGuardedAndExplained) {
  for (const Source& source : product_sources()) {
    if (!source.is_header()) continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_TRUE(source.lines[0].starts_with("// ")) << source.path << ": say first what is in it";
    EXPECT_NE(std::find(source.lines.begin(), source.lines.end(), "#pragma once"),
              source.lines.end())
        << source.path;
  }
}

// A comment is a sentence with a subject and a verb, or a noun phrase.
TEST(Words, NoCommentBeginsWithWhatWhoOrThat) {
  const std::regex riddle(R"(// *(what|who|that)\b)", std::regex::icase);
  for (const auto* sources : {&product_sources(), &test_sources()}) {
    for (const Source& source : *sources) {
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        if (i > 0 && is_comment(source.lines[i]) && is_comment(source.lines[i - 1])) continue;
        EXPECT_FALSE(std::regex_search(source.lines[i], riddle))
            << source.path << ":" << i + 1 << ": " << source.lines[i];
      }
    }
  }
}

}  // namespace paddle::tidy
