#include "tests/tidy/sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace paddle::tidy {
namespace {

namespace fs = std::filesystem;

std::vector<Source> sources_below(std::initializer_list<const char*> tops) {
  const fs::path root = SOURCE_DIR;
  std::vector<Source> found;
  for (const char* top : tops) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h" && extension != ".cu") continue;
      Source source{fs::relative(entry.path(), root).string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return found;
}

}  // namespace

const std::vector<Source>& product_sources() {
  static const auto all = sources_below({"base", "proto", "engine", "remote", "cli"});
  return all;
}

const std::vector<Source>& test_sources() {
  static const auto all = sources_below({"tests", "bench"});
  return all;
}

std::string room_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

}  // namespace paddle::tidy
