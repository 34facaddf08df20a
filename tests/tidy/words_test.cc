// Words: how headers and comments begin, and calls that have a better way.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

// A regular expression whose matches all have `text` in them: lines without it are passed over, as
// std::regex takes seconds for all lines of the repository.
class LinePattern {
 public:
  LinePattern(std::string text, const std::string& pattern)
      : text_(std::move(text)), pattern_(pattern) {}
  bool is_in(const std::string& line) const {
    return line.find(text_) != line.npos && std::regex_search(line, pattern_);
  }

 private:
  std::string text_;
  std::regex pattern_;
};

struct Banned {
  LinePattern pattern;
  std::string why;
};
const std::vector<Banned> kBanned = {
    {{"system(", R"(\bsystem\()"}, "start programs with an argument vector, never a shell string"},
    {{"popen(", R"(\bpopen\()"}, "start programs with an argument vector, never a shell string"},
    {{"rand", R"(\bstd::rand\b|\bsrand\()"}, "use base/rng.h: seeded and reproducible"},
    {{"ssh_scp_", R"(\bssh_scp_)"}, "scp's protocol trusts the server's names"},
    {{"views::", R"(\bviews::)"}, "clang 14 parses none of the file then, for lint and fuzz"},
    {{"ranges::unique", R"(\branges::unique\b)"}, "clang 14 does not parse it: std::unique"},
    {{"TODO", R"(\bTODO\b)"}, "finish it or file an issue"},
    {{"FIXME", R"(\bFIXME\b)"}, "finish it or file an issue"},
    {{"XXX", R"(\bXXX\b)"}, "finish it or file an issue"},
    {{"catch", R"(catch \(\.\.\.\) *\{ *\})"}, "an empty catch hides the cause"},
};

bool is_comment(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first != std::string::npos && line.compare(first, 2, "//") == 0;
}

}  // namespace

TEST(Words, BannedCalls) {
  for (const auto& [pattern, why] : kBanned) {
    for (const Source& source : product_sources()) {
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        EXPECT_FALSE(pattern.is_in(source.lines[i]))
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

// One function counts passes for people. A message that a port refuses has the counts of the wire.
TEST(Words, SentencesOfTheEngineNamePassesByPassWords) {
  const LinePattern bare("pass {", R"(\bpass \{\})");
  for (const Source& source : product_sources()) {
    if (!source.path.starts_with("engine/")) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const bool is_of_wire = source.lines[i].find("protocol_error(") != std::string::npos;
      EXPECT_FALSE(!is_of_wire && bare.is_in(source.lines[i]))
          << source.path << ":" << i + 1 << ": use pass_words() of base/text.h\n  "
          << source.lines[i];
    }
  }
}

// A comment is a sentence with a subject and a verb, or a noun phrase.
TEST(Words, NoCommentBeginsWithWhatWhoThatOrOf) {
  const LinePattern riddle("//", R"(// *([Ww][Hh][Aa][Tt]|[Ww][Hh][Oo]|[Tt][Hh][Aa][Tt]|Of)\b)");
  for (const auto* sources : {&product_sources(), &test_sources()}) {
    for (const Source& source : *sources) {
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        if (i > 0 && is_comment(source.lines[i]) && is_comment(source.lines[i - 1])) continue;
        EXPECT_FALSE(riddle.is_in(source.lines[i]))
            << source.path << ":" << i + 1 << ": " << source.lines[i];
      }
    }
  }
}

}  // namespace paddle::tidy
