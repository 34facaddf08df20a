// Rooms: which may include which, and where outside libraries live.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

struct Room {
  std::string name;
  std::set<std::string> includes;  // rooms that stand above it in the table
};

// From the bottom up, so no cycle can be written down.
const std::vector<Room> kRooms = {
    {"base", {}},
    {"proto", {"base"}},
    {"engine/http", {"base"}},
    {"engine/math", {"base", "proto"}},
    {"engine/config", {"base", "proto", "engine/math"}},
    {"engine/table", {"base", "proto", "engine/math"}},
    {"engine/snapshot", {"base", "proto", "engine/math", "engine/table"}},
    {"engine/net", {"base", "proto"}},
    {"engine/nn", {"base", "proto", "engine/math", "engine/config"}},
    {"engine/gpu", {"base", "engine/math", "engine/nn"}},
    {"engine/data", {"base", "engine/math", "engine/config", "engine/nn"}},
    {"engine/pserver",
     {"base", "proto", "engine/math", "engine/table", "engine/snapshot", "engine/net"}},
    {"engine/client",
     {"base", "proto", "engine/math", "engine/table", "engine/snapshot", "engine/net"}},
    {"engine/strategy",
     {"base", "proto", "engine/math", "engine/table", "engine/pserver", "engine/client"}},
    {"engine/group",
     {"base", "proto", "engine/math", "engine/table", "engine/snapshot", "engine/net", "engine/gpu",
      "engine/client", "engine/strategy"}},
    {"engine/trainer",
     {"base", "proto", "engine/math", "engine/config", "engine/table", "engine/snapshot",
      "engine/net", "engine/nn", "engine/gpu", "engine/data", "engine/pserver", "engine/client",
      "engine/strategy", "engine/group"}},
    {"engine/model",
     {"base", "proto", "engine/http", "engine/math", "engine/config", "engine/table",
      "engine/snapshot", "engine/nn", "engine/data", "engine/trainer"}},
    {"engine/sidecar",
     {"base", "engine/math", "engine/config", "engine/table", "engine/snapshot", "engine/nn",
      "engine/data", "engine/client", "engine/strategy", "engine/trainer", "engine/model"}},
    {"engine/commands",
     {"base", "proto", "engine/http", "engine/math", "engine/config", "engine/table",
      "engine/snapshot", "engine/net", "engine/nn", "engine/gpu", "engine/data", "engine/pserver",
      "engine/client", "engine/strategy", "engine/trainer", "engine/model", "engine/sidecar"}},
    {"remote/agent/node", {"base", "proto"}},
    {"remote/agent/process", {"base", "proto", "remote/agent/node"}},
    {"remote/agent/store", {"base", "proto", "remote/agent/node"}},
    {"remote/agent",
     {"base", "proto", "remote/agent/node", "remote/agent/process", "remote/agent/store"}},
    {"remote/launcher", {"base"}},
    {"remote/client", {"base", "proto", "remote/launcher"}},
    {"cli/console", {"base"}},
    {"cli/cluster",
     {"base", "proto", "engine/config", "remote/launcher", "remote/client", "cli/console"}},
    {"cli/watch", {"base", "remote/client", "cli/console", "cli/cluster"}},
    {"cli/job",
     {"base", "proto", "engine/config", "engine/snapshot", "engine/data", "remote/launcher",
      "remote/client", "cli/console", "cli/cluster", "cli/watch"}},
    {"cli/report", {"base", "proto", "cli/console", "cli/cluster", "cli/watch", "cli/job"}},
    {"cli/dashboard",
     {"base", "engine/http", "remote/client", "cli/console", "cli/cluster", "cli/watch", "cli/job",
      "cli/report"}},
    {"cli/sweep",
     {"base", "engine/config", "remote/client", "cli/console", "cli/cluster", "cli/watch",
      "cli/job", "cli/report"}},
    {"cli/commands",
     {"base", "proto", "engine/config", "remote/client", "cli/console", "cli/cluster", "cli/watch",
      "cli/job", "cli/report", "cli/dashboard", "cli/sweep"}},
    {"cli", {"base", "remote/launcher", "cli/console", "cli/cluster", "cli/job", "cli/commands"}},
};

const Room* find_room(const std::string& name) {
  const auto found = std::find_if(kRooms.begin(), kRooms.end(),
                                  [&](const Room& room) { return room.name == name; });
  return found == kRooms.end() ? nullptr : &*found;
}

// The rooms that each room includes, with one line that does.
std::map<std::string, std::map<std::string, std::string>> includes_found() {
  const std::regex include(R"re(^\s*#include "([^"]+)")re");
  std::map<std::string, std::map<std::string, std::string>> found;
  for (const Source& source : product_sources()) {
    auto& targets = found[room_of(source.path)];
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(source.lines[i], match, include)) continue;
      const std::string target = room_of(match[1]);
      if (target != room_of(source.path)) {
        targets.emplace(target, source.path + ":" + std::to_string(i + 1));
      }
    }
  }
  return found;
}

}  // namespace

TEST(Rooms, TheTableGoesFromTheBottomUp) {
  std::set<std::string> below;
  for (const Room& room : kRooms) {
    for (const std::string& target : room.includes) {
      EXPECT_TRUE(below.contains(target)) << room.name << " stands below " << target;
    }
    EXPECT_TRUE(below.insert(room.name).second) << room.name << " stands twice";
  }
}

TEST(Rooms, IncludeOnlyWhatTheTableSays) {
  for (const auto& [name, targets] : includes_found()) {
    const Room* const room = find_room(name);
    ASSERT_NE(room, nullptr) << name << " is not in the table";
    for (const auto& [target, place] : targets) {
      EXPECT_TRUE(room->includes.contains(target)) << place << " may not include " << target;
    }
  }
}

TEST(Rooms, TheTableHasNoEdgeThatNobodyUses) {
  auto found = includes_found();
  for (const Room& room : kRooms) {
    EXPECT_TRUE(found.contains(room.name)) << room.name << " is empty";
    for (const std::string& target : room.includes) {
      EXPECT_TRUE(found[room.name].contains(target)) << room.name << " -> " << target;
    }
  }
}

TEST(Rooms, StandInTheFolderTable) {
  std::ifstream in(SOURCE_DIR "/CONTRIBUTING.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const Room& room : kRooms) {
    const std::string folder = room.name.substr(room.name.rfind('/') + 1) + "/`";
    EXPECT_TRUE(page.find("`" + room.name + "/`") != page.npos ||
                page.find("`" + folder) != page.npos)
        << room.name;
  }
}

TEST(Rooms, HoldTheTestsOfTheirCode) {
  const std::string unit = "tests/unit/";
  for (const Source& source : test_sources()) {
    if (!source.path.starts_with(unit)) continue;
    const std::string room = room_of(source.path.substr(unit.size()));
    EXPECT_NE(find_room(room), nullptr) << source.path << ": there is no room " << room;
  }
}

// gcc 12 destroys some temporaries twice around co_await; Asio and coroutines have one home.
TEST(Rooms, EachOutsideLibraryHasOneHome) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> homes = {
      {"co_await", {"engine/net/"}},
      {"#include <asio", {"engine/net/"}},
      {"#include <libssh", {"remote/launcher/"}},
      {"#include <CLI/", {"cli/", "engine/commands/"}},
      {"#include <toml++/", {"engine/config/"}},
      {"#include <rapidjson/", {"base/json_reader.cc"}},
      {"#include <boost/", {"engine/http/"}},
      {"#include <cblas", {"engine/"}},
      {"#include <minizip/", {"engine/data/"}},
      {"#include <bzlib.h", {"engine/data/"}},
      {"#include <lzma.h", {"engine/data/"}},
      {"sleep_for(", {"engine/net/"}},  // the backoff between connection attempts
  };
  for (const auto& [text, rooms] : homes) {
    for (const Source& source : product_sources()) {
      if (std::any_of(rooms.begin(), rooms.end(),
                      [&](const std::string& room) { return source.path.starts_with(room); })) {
        continue;
      }
      for (std::size_t i = 0; i < source.lines.size(); ++i) {
        EXPECT_EQ(source.lines[i].find(text), std::string::npos)
            << source.path << ":" << i + 1 << ": belongs in " << rooms.front();
      }
    }
  }
}

}  // namespace paddle::tidy
