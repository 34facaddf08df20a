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
    {"engine/memory", {"base"}},
    {"engine/optim", {"base", "proto", "engine/memory"}},
    {"engine/config", {"base", "proto", "engine/optim"}},
    {"engine/parameter", {"base", "proto", "engine/optim"}},
    {"engine/snapshot", {"base", "proto", "engine/optim", "engine/parameter"}},
    {"engine/snapshot/source",
     {"base", "proto", "engine/optim", "engine/parameter", "engine/snapshot"}},
    {"engine/export", {"base", "engine/parameter", "engine/snapshot"}},
    {"engine/net", {"base", "proto"}},
    {"engine/net/peer", {"base", "proto", "engine/net"}},
    {"engine/heartbeat", {"base", "proto", "engine/net"}},
    {"engine/table", {"base", "proto", "engine/memory", "engine/optim", "engine/parameter"}},
    {"engine/kernels", {"base", "engine/memory"}},
    {"engine/kernels/device", {"base", "engine/optim", "engine/kernels"}},
    {"engine/device", {"base", "engine/kernels/device"}},
    {"engine/collective",
     {"base", "proto", "engine/memory", "engine/net", "engine/net/peer", "engine/kernels"}},
    {"engine/nn", {"base", "proto", "engine/memory", "engine/config", "engine/kernels"}},
    {"engine/nn/plan", {"base", "proto", "engine/memory", "engine/kernels", "engine/nn"}},
    {"engine/nn/device",
     {"base", "engine/kernels", "engine/kernels/device", "engine/device", "engine/nn",
      "engine/nn/plan"}},
    {"engine/nn/layers", {"base", "engine/kernels", "engine/nn", "engine/nn/plan"}},
    {"engine/nn/costs", {"base", "engine/kernels", "engine/nn", "engine/nn/plan"}},
    {"engine/nn/evaluators", {"engine/kernels", "engine/nn"}},
    {"engine/nn/network", {"base", "proto", "engine/config", "engine/nn", "engine/nn/plan"}},
    {"engine/data/source", {"base", "engine/memory"}},
    {"engine/data/records", {"base", "engine/config", "engine/nn"}},
    {"engine/data/npz", {"base", "engine/config", "engine/data/records", "engine/data/source"}},
    {"engine/data",
     {"base", "engine/config", "engine/nn", "engine/data/records", "engine/data/source",
      "engine/data/npz"}},
    {"engine/pserver",
     {"base", "proto", "engine/memory", "engine/optim", "engine/parameter", "engine/snapshot",
      "engine/net", "engine/table"}},
    {"engine/client/snapshots", {"base", "engine/snapshot"}},
    {"engine/client",
     {"base", "proto", "engine/memory", "engine/optim", "engine/parameter", "engine/snapshot",
      "engine/snapshot/source", "engine/net", "engine/client/snapshots"}},
    {"engine/strategy",
     {"base", "proto", "engine/optim", "engine/parameter", "engine/client", "engine/pserver"}},
    {"engine/strategy/collective",
     {"base", "proto", "engine/memory", "engine/optim", "engine/parameter", "engine/snapshot",
      "engine/snapshot/source", "engine/table", "engine/kernels", "engine/device",
      "engine/collective", "engine/client", "engine/client/snapshots", "engine/strategy"}},
    {"engine/strategy/card",
     {"base", "engine/optim", "engine/parameter", "engine/snapshot", "engine/snapshot/source",
      "engine/table", "engine/device", "engine/client", "engine/strategy/collective"}},
    {"engine/trainer/batches",
     {"base", "engine/config", "engine/parameter", "engine/nn", "engine/data", "engine/client"}},
    {"engine/trainer/compute",
     {"base", "engine/kernels", "engine/config", "engine/device", "engine/nn", "engine/nn/device",
      "engine/nn/network"}},
    {"engine/trainer",
     {"base", "proto", "engine/memory", "engine/config", "engine/optim", "engine/parameter",
      "engine/snapshot", "engine/net", "engine/kernels", "engine/nn", "engine/nn/network",
      "engine/data", "engine/pserver", "engine/client", "engine/strategy",
      "engine/strategy/collective", "engine/strategy/card", "engine/trainer/batches",
      "engine/trainer/compute"}},
    {"engine/inference",
     {"base", "engine/config", "engine/parameter", "engine/snapshot", "engine/table",
      "engine/kernels", "engine/nn/network", "engine/data", "engine/data/records",
      "engine/trainer"}},
    {"engine/onnx",
     {"base", "proto", "engine/config", "engine/snapshot", "engine/export", "engine/table",
      "engine/nn/network", "engine/inference"}},
    {"engine/serve",
     {"base", "engine/config", "engine/snapshot", "engine/data/records", "engine/inference"}},
    {"engine/commands",
     {"base",
      "proto",
      "engine/memory",
      "engine/config",
      "engine/optim",
      "engine/parameter",
      "engine/snapshot",
      "engine/export",
      "engine/net",
      "engine/heartbeat",
      "engine/device",
      "engine/nn/network",
      "engine/data",
      "engine/pserver",
      "engine/client",
      "engine/strategy",
      "engine/trainer",
      "engine/inference",
      "engine/onnx",
      "engine/serve"}},
    {"remote/agent/root", {"base", "proto"}},
    {"remote/agent/log", {"base", "remote/agent/root"}},
    {"remote/agent/machine", {"base", "proto", "remote/agent/root"}},
    {"remote/agent/process",
     {"base", "proto", "remote/agent/root", "remote/agent/log", "remote/agent/machine"}},
    {"remote/agent/peer", {"base", "proto", "remote/agent/machine"}},
    {"remote/agent/store",
     {"base", "proto", "remote/agent/root", "remote/agent/machine", "remote/agent/peer"}},
    {"remote/agent",
     {"base", "proto", "remote/agent/root", "remote/agent/log", "remote/agent/machine",
      "remote/agent/process", "remote/agent/peer", "remote/agent/store"}},
    {"remote/launcher", {"base"}},
    {"remote/launcher/ssh", {"base", "remote/launcher"}},
    {"remote/exchange", {"base", "proto", "remote/launcher"}},
    {"remote/push", {"base", "proto", "remote/launcher", "remote/exchange"}},
    {"remote", {"base", "proto", "remote/launcher", "remote/exchange", "remote/push"}},
    {"engine/device/cuda",
     {"base", "engine/memory", "engine/kernels/device", "engine/device", "engine/commands"}},
    {"cli/console", {"base"}},
    {"cli/cluster",
     {"base", "engine/config", "remote/launcher", "remote/launcher/ssh", "remote", "cli/console"}},
    {"cli/workspace", {"base", "engine/config", "remote/launcher", "remote", "cli/console"}},
    {"cli/logs", {"base", "remote", "cli/console", "cli/cluster"}},
    {"cli/nodes", {"base", "cli/console", "cli/cluster"}},
    {"cli/watch", {"base", "remote", "cli/console", "cli/cluster", "cli/logs"}},
    {"cli/job/snapshots", {"base", "remote"}},
    {"cli/job",
     {"base", "proto", "engine/config", "remote/push", "remote/launcher", "remote", "cli/console",
      "cli/cluster", "cli/workspace", "cli/logs", "cli/nodes", "cli/watch", "cli/job/snapshots"}},
    {"cli/job/resume",
     {"base", "remote/push", "cli/cluster", "cli/logs", "cli/watch", "cli/job",
      "cli/job/snapshots"}},
    {"cli/report",
     {"base", "proto", "cli/console", "cli/cluster", "cli/workspace", "cli/logs", "cli/watch",
      "cli/job"}},
    {"cli/options", {"base", "cli/cluster"}},
    {"cli/manual", {"base", "cli/options"}},
    {"cli/commands",
     {"base", "engine/config", "remote/push", "cli/console", "cli/cluster", "cli/workspace",
      "cli/logs", "cli/watch", "cli/job", "cli/job/resume", "cli/nodes", "cli/report",
      "cli/options", "cli/manual"}},
    {"cli",
     {"base", "remote/launcher", "cli/console", "cli/cluster", "cli/workspace", "cli/options",
      "cli/commands"}},
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
      {"#include <libssh", {"remote/launcher/ssh/"}},
      {"#include <CLI/", {"cli/", "engine/commands/"}},
      {"#include <toml++/", {"engine/config/"}},
      {"#include <nlohmann/", {"cli/"}},
      {"#include <rapidjson/", {"engine/data/records/"}},
      {"#include <boost/", {"engine/serve/"}},
      {"#include <cblas", {"engine/"}},
      {"#include <minizip/", {"engine/data/source/"}},
      {"#include <bzlib.h", {"engine/data/source/"}},
      {"#include <lzma.h", {"engine/data/source/"}},
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
