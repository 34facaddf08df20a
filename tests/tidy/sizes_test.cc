// Sizes: lines of a file and of a function, and one source for a class.
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

constexpr std::size_t kFileLinesMax = 1000;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::size_t kLineColumnsMax = 100;

// A block that clang-format has laid out: its head begins at `first`, its brace closes at `last`.
struct Block {
  std::size_t first;
  std::size_t last;
  std::string head;

  std::size_t lines() const { return last - first + 1; }
};

std::size_t indentation(const std::string& line) {
  return line.find_first_not_of(' ');
}

// The blocks whose heads stand at `column`: 0 for functions and classes, 2 for what is in a class.
std::vector<Block> blocks_at(const Source& source, std::size_t column) {
  const auto& lines = source.lines;
  const std::regex passed_over(R"(^\s*(//|#|\}|namespace\b|public:|private:|protected:))");
  const std::string close = std::string(column, ' ') + "}";
  std::vector<Block> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (indentation(lines[i]) != column || std::regex_search(lines[i], passed_over)) continue;
    Block block{i, i, ""};
    std::size_t open = i;
    while (open < lines.size()) {
      block.head += lines[open];
      if (lines[open].ends_with('{') || lines[open].ends_with(';') || lines[open].ends_with('}')) {
        break;
      }
      ++open;
    }
    i = open;
    if (open == lines.size() || !lines[open].ends_with('{')) continue;
    std::size_t last = open + 1;
    while (last < lines.size() && !lines[last].starts_with(close)) ++last;
    block.last = last;
    found.push_back(block);
    if (column == 0) i = last;
  }
  return found;
}

bool is_type(const Block& block) {
  static const std::regex type(R"(^(template <.*> ?)?(class|struct|enum|union)\b)");
  return std::regex_search(block.head, type);
}

bool is_function(const Block& block) {
  static const std::regex function(R"(\w\(.*\)[^()]*\{$|\) : .*\{$)");
  static const std::regex control(R"(^\s*(if|for|while|switch|do|else|try)\b)");
  return !is_type(block) && std::regex_search(block.head, function) &&
         !std::regex_search(block.head, control);
}

}  // namespace

TEST(Sizes, FilesAndLinesStayShort) {
  for (const Source& source : product_sources()) {
    EXPECT_LE(source.lines.size(), kFileLinesMax)
        << source.path << ": which idea wants its own file?";
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_LE(source.lines[i].size(), kLineColumnsMax) << source.path << ":" << i + 1;
    }
  }
}

TEST(Sizes, FunctionsStayShort) {
  std::size_t functions = 0;
  for (const Source& source : product_sources()) {
    for (const std::size_t column : {0U, 2U}) {
      for (const Block& block : blocks_at(source, column)) {
        if (!is_function(block)) continue;
        ++functions;
        EXPECT_LE(block.lines(), kFunctionLinesMax) << source.path << ":" << block.first + 1;
      }
    }
  }
  EXPECT_GT(functions, 2000U) << "functions are not recognised any more";
}

// A class that is too long for one source has two ideas.
TEST(Sizes, AClassStandsInOneSource) {
  const std::regex member(R"(^(?:[A-Za-z][\w:<>,&*\[\] ]* [&*]?)?([A-Z]\w+)::~?\w+\()");
  std::map<std::string, std::set<std::string>> sources;  // by room and class
  for (const Source& source : product_sources()) {
    if (!source.path.ends_with(".cc")) continue;
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (line.starts_with("return ") || !std::regex_search(line, match, member)) continue;
      sources[room_of(source.path) + " " + match[1].str()].insert(source.path);
    }
  }
  EXPECT_GT(sources.size(), 200U) << "members are not recognised any more";
  for (const auto& [name, paths] : sources)
    EXPECT_EQ(paths.size(), 1U) << name << " is also in " << *paths.rbegin();
}

}  // namespace paddle::tidy
