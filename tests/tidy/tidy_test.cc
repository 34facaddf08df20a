// The house rules a machine can hold: which room may include which, how large a file may grow, what
// may not be called.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFileLinesMax = 420;
constexpr std::size_t kLineColumnsMax = 100;

// Allowed include edges; a room may always include itself. Public programs stand at the bottom.
const std::map<std::string, std::set<std::string>> kEdges = {
    {"base", {}},
    {"proto", {"base"}},
    {"engine/memory", {"base"}},
    {"engine/config", {"base", "proto"}},
    {"engine/optim", {"base", "proto", "engine/memory"}},
    {"engine/parameter", {"base", "proto", "engine/optim"}},
    {"engine/snapshot", {"base", "proto", "engine/optim", "engine/parameter"}},
    {"engine/net", {"base", "proto"}},
    {"engine/table", {"base", "proto", "engine/memory", "engine/optim", "engine/parameter"}},
    {"engine/kernels", {"base", "engine/memory"}},
    {"engine/nn", {"base", "engine/memory", "engine/config", "engine/kernels"}},
    {"engine/nn/layers", {"base", "engine/kernels", "engine/nn"}},
    {"engine/nn/costs", {"base", "engine/kernels", "engine/nn"}},
    {"engine/nn/evaluators", {"engine/kernels", "engine/nn"}},
    {"engine/nn/network", {"base", "proto", "engine/config", "engine/nn"}},
    {"engine/data/source", {"base"}},
    {"engine/data", {"base", "engine/config", "engine/nn", "engine/data/source"}},
    {"engine/pserver",
     {"base", "proto", "engine/optim", "engine/parameter", "engine/net", "engine/table"}},
    {"engine/client",
     {"base", "proto", "engine/memory", "engine/optim", "engine/parameter", "engine/snapshot",
      "engine/net"}},
    {"engine/strategy", {"base", "engine/optim", "engine/parameter", "engine/client"}},
    {"engine/trainer",
     {"base", "engine/memory", "engine/config", "engine/parameter", "engine/snapshot", "engine/net",
      "engine/kernels", "engine/nn", "engine/nn/network", "engine/data", "engine/pserver",
      "engine/client", "engine/strategy"}},
    {"engine/commands",
     {"base", "engine/memory", "engine/config", "engine/optim", "engine/parameter",
      "engine/snapshot", "engine/net", "engine/nn/network", "engine/pserver", "engine/trainer"}},
    {"remote/agent/root", {"base", "proto"}},
    {"remote/agent/log", {"base", "remote/agent/root"}},
    {"remote/agent/process", {"base", "proto", "remote/agent/root", "remote/agent/log"}},
    {"remote/agent/peer", {"base", "proto", "remote/agent/process"}},
    {"remote/agent/store",
     {"base", "proto", "remote/agent/root", "remote/agent/process", "remote/agent/peer"}},
    {"remote/agent",
     {"base", "proto", "remote/agent/root", "remote/agent/log", "remote/agent/process",
      "remote/agent/peer", "remote/agent/store"}},
    {"remote/launcher", {"base", "proto"}},
    {"remote/launcher/ssh", {"base", "remote/launcher"}},
    {"remote/push", {"base", "proto", "remote"}},
    {"remote", {"base", "proto", "remote/launcher", "remote/push"}},
    {"cli/console", {"base", "remote/launcher"}},
    {"cli/cluster",
     {"base", "engine/config", "remote/launcher", "remote/launcher/ssh", "remote", "cli/console"}},
    {"cli/workspace", {"base", "engine/config", "remote", "cli/console"}},
    {"cli/logs", {"base", "remote", "cli/console", "cli/cluster"}},
    {"cli/job",
     {"base", "remote/push", "remote", "cli/console", "cli/cluster", "cli/workspace", "cli/logs",
      "cli/report", "cli/commands"}},
    {"cli/nodes", {"base", "cli/console", "cli/cluster", "cli/job"}},
    {"cli/report", {"base", "proto", "cli/console", "cli/cluster", "cli/logs", "cli/job"}},
    {"cli/manual", {"base"}},
    {"cli/commands",
     {"base", "engine/config", "remote/push", "cli/console", "cli/cluster", "cli/workspace",
      "cli/logs", "cli/job", "cli/nodes", "cli/report", "cli/manual"}},
    {"cli", {"base", "cli/console", "cli/cluster", "cli/workspace", "cli/commands"}},
};

const std::vector<std::pair<std::string, std::string>> kBanned = {
    {R"(\bsystem\()", "start programs with an argument vector, never a shell string"},
    {R"(\bpopen\()", "start programs with an argument vector, never a shell string"},
    {R"(\bstd::rand\b|\bsrand\()", "use base/rng.h: seeded and reproducible"},
    {R"(\bssh_scp_)", "scp's protocol trusts the server's names"},
    {R"(\bTODO\b|\bFIXME\b|\bXXX\b)", "finish it or file an issue"},
    {R"(catch \(\.\.\.\) *\{ *\})", "an empty catch hides the cause"},
};

struct Source {
  std::string path;  // relative to the repository
  std::vector<std::string> lines;
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".cc" || extension == ".h" || extension == ".cu";
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> found;
    const fs::path root = SOURCE_DIR;
    for (const char* top : {"base", "engine", "proto", "remote", "cli", "tests", "bench"}) {
      if (!fs::exists(root / top)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        if (!entry.is_regular_file() || !is_source(entry.path())) continue;
        Source source{fs::relative(entry.path(), root).string(), {}};
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) source.lines.push_back(line);
        found.push_back(std::move(source));
      }
    }
    std::sort(found.begin(), found.end(),
              [](const Source& a, const Source& b) { return a.path < b.path; });
    return found;
  }();
  return all;
}

std::string room_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

bool is_product(const Source& source) {
  return source.path.rfind("tests/", 0) != 0 && source.path.rfind("bench/", 0) != 0;
}

}  // namespace

TEST(Tidy, SourcesAreFound) {
  EXPECT_GT(sources().size(), 20U);
}

TEST(Tidy, IncludesOnlyGoDown) {
  const std::regex include(R"re(^\s*#include "([^"]+)")re");
  for (const Source& source : sources()) {
    if (!is_product(source)) continue;
    const std::string room = room_of(source.path);
    const auto allowed = kEdges.find(room);
    ASSERT_NE(allowed, kEdges.end()) << source.path << ": room " << room << " is not in the table";
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(source.lines[i], match, include)) continue;
      const std::string target = room_of(match[1]);
      EXPECT_TRUE(target == room || allowed->second.count(target) == 1)
          << source.path << ":" << i + 1 << ": " << room << " may not include " << match[1];
    }
  }
}

TEST(Tidy, FilesAndLinesStaySmall) {
  for (const Source& source : sources()) {
    if (!is_product(source)) continue;
    EXPECT_LE(source.lines.size(), kFileLinesMax)
        << source.path << ": which idea wants its own room?";
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_LE(source.lines[i].size(), kLineColumnsMax) << source.path << ":" << i + 1;
    }
  }
}

TEST(Tidy, BannedCalls) {
  for (const auto& [pattern, why] : kBanned) {
    const std::regex banned(pattern);
    for (const Source& source : sources()) {
      if (!is_product(source)) continue;
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        EXPECT_FALSE(std::regex_search(source.lines[i], banned))
            << source.path << ":" << i + 1 << ": " << why << "\n  " << source.lines[i];
      }
    }
  }
}

// gcc 12 destroys some temporaries twice around co_await; Asio and coroutines have one home.
TEST(Tidy, OneHomeForEachOutsideLibrary) {
  const std::map<std::string, std::string> homes = {
      {R"(co_await)", "engine/net/"},
      {R"(#include <asio)", "engine/net/"},
      {R"(#include <libssh)", "remote/launcher/ssh/"},
      {R"(#include <CLI/)", "cli/"},
      {R"(#include <toml\+\+/)", "engine/config/"},
      {R"(#include <cblas)", "engine/"},
      {R"(\bsleep_for\()", "engine/net/"},  // the backoff between connection attempts
  };
  for (const auto& [pattern, home] : homes) {
    const std::regex text(pattern);
    for (const Source& source : sources()) {
      if (!is_product(source) || source.path.rfind(home, 0) == 0) continue;
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        EXPECT_FALSE(std::regex_search(source.lines[i], text))
            << source.path << ":" << i + 1 << ": belongs in " << home;
      }
    }
  }
}

TEST(Tidy, HeadersAreGuardedAndExplained) {
  for (const Source& source : sources()) {
    if (fs::path(source.path).extension() != ".h" || !is_product(source)) continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_EQ(source.lines[0].rfind("//", 0), 0U) << source.path << ": say first what is in it";
    EXPECT_NE(std::find(source.lines.begin(), source.lines.end(), "#pragma once"),
              source.lines.end())
        << source.path;
  }
}
