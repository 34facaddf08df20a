#include "remote/agent/node/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
}

TEST_F(AgentTest, FactsDescribeThisMachine) {
  const auto facts = connect_agent()->facts();
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->root(), node_.root);
  EXPECT_GT(facts->cores(), 0U);
  EXPECT_GT(facts->memory_bytes(), 1U << 20U);
  EXPECT_GT(facts->disk_free_bytes(), 0U);
  EXPECT_FALSE(facts->os().empty());
  EXPECT_FALSE(facts->address().empty());
  const auto loopback = std::ranges::find(facts->interfaces(), "127.0.0.1",
                                          [](const auto& one) { return one.address(); });
  ASSERT_NE(loopback, facts->interfaces().end());
  EXPECT_EQ(loopback->name(), "lo");
}

TEST_F(AgentTest, PushSendsOnlyWhatDiffers) {
  auto agent = connect_agent();
  std::string large;
  for (int i = 0; i < 900'000; ++i) large += std::to_string(i);
  const std::vector<PushItem> items = {
      {write_file(folder_ + "/a", large), "workspace/data/a", false},
      {write_file(folder_ + "/b", ""), "workspace/b", true}};
  std::uint64_t seen = 0;
  std::uint64_t planned = 0;
  const auto first = push(*agent, items, [&](std::uint64_t more, std::uint64_t arrived) {
    planned += more;
    seen += arrived;
    return true;
  });
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->files_sent, 2U);
  EXPECT_EQ(first->bytes_sent, large.size());
  EXPECT_EQ(seen, large.size());
  EXPECT_EQ(planned, large.size());
  EXPECT_EQ(file_content(node_.root + "/workspace/data/a"), large);
  EXPECT_EQ(mode_of(node_.root + "/workspace/data/a"), 0444U);
  EXPECT_EQ(mode_of(node_.root + "/workspace/b"), 0544U);
  const auto again = push(*connect_agent(), items);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->files_sent, 0U);
  write_file(folder_ + "/b", "x");
  EXPECT_EQ(push(*agent, items)->files_sent, 1U);
  const auto listed = agent->list("workspace");
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ(listed->at(0).path, "b");
  EXPECT_EQ(listed->at(0).sha256,
            "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
  EXPECT_EQ(listed->at(1).path, "data/a");
  EXPECT_EQ(listed->at(1).size, large.size());
  ASSERT_TRUE(fetch_file(*agent, "workspace/data/a", folder_ + "/back"));
  EXPECT_EQ(file_content(folder_ + "/back"), large);
  EXPECT_EQ(agent->list("nowhere")->size(), 0U);
}

TEST_F(AgentTest, ManyFilesComeInOneStreamAndAnErrorLeavesItUsable) {
  auto agent = connect_agent();
  std::vector<PushItem> items;
  std::vector<FetchItem> wanted;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "file-" + std::to_string(i);
    std::string content(static_cast<std::size_t>(i) * 40'000, static_cast<char>('a' + i % 26));
    content += name;
    items.push_back({write_file(folder_ + "/" + name, content), "jobs/a/" + name});
    wanted.push_back({"jobs/a/" + name, folder_ + "/got-" + name, content.size(),
                      to_hex(*sha256_of_file(items.back().local_path))});
  }
  ASSERT_TRUE(push(*agent, items));
  ASSERT_TRUE(agent->fetch(wanted));
  for (std::size_t i = 0; i < items.size(); ++i)
    ASSERT_EQ(file_content(wanted[i].local_path), file_content(items[i].local_path)) << i;
  wanted[2].remote_path = "jobs/a/nowhere";
  wanted[3].local_path = folder_ + "/no/such/folder";
  for (const FetchItem& item : wanted) std::filesystem::remove(item.local_path);
  const auto missing = agent->fetch(wanted);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("nowhere"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(wanted[2].local_path));
  EXPECT_TRUE(agent->facts()) << "the answers on their way were read";
}

TEST_F(AgentTest, ALogThatGrowsIsFetchedAsLongAsItWasListed) {
  auto agent = connect_agent();
  std::filesystem::create_directories(node_.root + "/jobs/a/inside");
  write_file(node_.root + "/jobs/a/log", "one line\n");
  write_file(node_.root + "/jobs/a/inside/log", "another\n");
  const auto listed = agent->list_own_files("jobs/a");
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 1U) << "not what its folders have";
  FetchItem item{"jobs/a/log", folder_ + "/log", listed->at(0).size, listed->at(0).sha256};
  write_file(node_.root + "/jobs/a/log", "one line\nand one more\n");
  const auto got = agent->fetch({item});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(file_content(folder_ + "/log"), "one line\n");
  write_file(node_.root + "/jobs/a/log", "one l");
  const auto shorter = agent->fetch({item});
  ASSERT_FALSE(shorter);
  EXPECT_EQ(shorter.error().message, "node here: jobs/a/log became shorter after it was listed");
  write_file(node_.root + "/jobs/a/log", "other line");
  const auto other = agent->fetch({item});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "node here: jobs/a/log: the 9 bytes received do not match the listed hash");
  EXPECT_EQ(file_content(folder_ + "/log"), "one line\n") << "what is here stays";
  EXPECT_TRUE(agent->facts()) << "the agent goes on";
}

TEST_F(AgentTest, HostilePathsAreRefusedAndTheAgentGoesOn) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/a", "hostile");
  ASSERT_TRUE(push(*agent, {{local, "workspace/x", false}}));
  std::filesystem::create_directory(folder_ + "/outside");
  std::filesystem::create_symlink(folder_ + "/outside", node_.root + "/workspace/link");
  for (const std::string path :
       {"../a", "/etc/a", "workspace/../../a", "workspace/link/a", "", "a//b", "."}) {
    EXPECT_FALSE(push(*agent, {{local, path, false}})) << path;
    EXPECT_FALSE(agent->fetch({{path, folder_ + "/got", 7, std::string(64, '0')}})) << path;
  }
  EXPECT_FALSE(agent->remove("workspace/../../outside"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/outside"));
  write_file(folder_ + "/outside/kept", "kept");
  ASSERT_TRUE(agent->remove("workspace"));
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/workspace"));
  EXPECT_EQ(file_content(folder_ + "/outside/kept"), "kept") << "removal followed a link";
}

TEST_F(AgentTest, AListOfAllKindsNamesWhatHasNoContent) {
  using Kind = FileEntry::Kind;
  auto agent = connect_agent();
  const std::string output = node_.root + "/jobs/a/output";
  for (const char* name : {"ckpt", "empty/inner", "odd\nfolder", "half\ttab"})
    std::filesystem::create_directories(output + "/" + name);
  write_file(output + "/ckpt/w.pt", "weights");
  write_file(output + "/odd\nfolder/w", "x");
  write_file(output + "/ckpt/a\nb", "x");
  std::filesystem::permissions(write_file(output + "/run", "x"), std::filesystem::perms(0755));
  std::filesystem::create_symlink("ckpt/w.pt", output + "/last.ckpt");
  std::filesystem::create_symlink("a\nb", output + "/odd\x7flink");
  std::filesystem::create_symlink("/nowhere", output + "/ckpt/away");
  ASSERT_EQ(::mkfifo((output + "/pipe").c_str(), 0600), 0);
  const auto all = agent->list_all_kinds("jobs/a/output");
  ASSERT_TRUE(all) << all.error().message;
  std::map<std::string, std::pair<Kind, std::string>> kinds;
  for (const FileEntry& entry : *all) kinds[entry.path] = {entry.kind, entry.link};
  const std::map<std::string, std::pair<Kind, std::string>> expected = {
      {"ckpt/a\\x0ab", {Kind::kOddName, ""}},
      {"ckpt/away", {Kind::kLink, "/nowhere"}},
      {"ckpt/w.pt", {Kind::kFile, ""}},
      {"empty/inner", {Kind::kEmptyFolder, ""}},
      {"half\ttab", {Kind::kOddName, ""}},
      {"last.ckpt", {Kind::kLink, "ckpt/w.pt"}},
      {"odd\\x0afolder", {Kind::kOddName, ""}},
      {"odd\\x7flink", {Kind::kOddName, ""}},
      {"run", {Kind::kFile, ""}}};
  EXPECT_EQ(kinds, expected);
  const auto files = agent->list("jobs/a/output");
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ(files->at(0).path, "ckpt/w.pt");
  EXPECT_FALSE(files->at(0).executable);
  EXPECT_TRUE(files->at(1).executable);
  FetchItem item{"jobs/a/output/run", folder_ + "/run", 1, files->at(1).sha256};
  for (const bool executable : {true, false}) {
    item.executable = executable;
    ASSERT_TRUE(agent->fetch({item}));
    EXPECT_EQ((mode_of(folder_ + "/run") & 0100U) != 0, executable);
  }
}

TEST_F(AgentTest, RootThatOthersMayWriteToIsRefused) {
  std::filesystem::create_directories(node_.root);
  ASSERT_EQ(::chmod(node_.root.c_str(), 0777), 0);
  const auto refused = connect(node_, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth) << refused.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(node_.root + "/bin")) << "something was pushed";
  std::filesystem::remove_all(folder_ + "/nodes");
  for (const std::string root : {"/tmp/a;b", "/tmp/$(id)", "/tmp/../etc", "-x", "relative"}) {
    NodeSpec node = node_;
    node.root = root;
    EXPECT_FALSE(connect(node, options_)) << root;
  }
}

// Deeper than any path may be long, with links to `outside` on the way.
void make_deep_folder(const std::string& top, const std::string& outside) {
  constexpr int kFolders = 300;
  const std::string name(100, 'd');
  std::filesystem::create_directories(top);
  UniqueFd at(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kFolders; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0700), 0);
    ASSERT_EQ(::symlinkat(outside.c_str(), at.get(), "link"), 0);
    UniqueFd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(next);
    at = std::move(next);
  }
}

TEST_F(AgentTest, WhatIsRemovedMayBeOfAnyDepth) {
  auto agent = connect_agent();
  std::filesystem::create_directories(folder_ + "/outside");
  write_file(folder_ + "/outside/kept", "kept");
  make_deep_folder(node_.root + "/jobs/job-1/output", folder_ + "/outside");
  const auto removed = agent->remove("jobs/job-1");
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-1"));
  make_deep_folder(node_.root + "/jobs/job-1/output", folder_ + "/outside");
  const auto report = agent->teardown(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_FALSE(std::filesystem::exists(node_.root));
  EXPECT_EQ(file_content(folder_ + "/outside/kept"), "kept") << "removal followed a link";
}

// A thread with mounts of its own, which end with it; false where none can be made.
bool among_own_mounts(const std::function<void()>& work) {
  bool can_mount = false;
  std::thread([&] {
    can_mount = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (can_mount) work();
  }).join();
  return can_mount;
}

TEST_F(AgentTest, WhatIsMountedBelowTheRootIsNeitherEmptiedNorChanged) {
  namespace fs = std::filesystem;
  const std::string job = folder_ + "/root/job";
  const std::string data = folder_ + "/data";
  agent::RemoveReport report;
  const auto bind = [](const std::string& from, const std::string& to) {
    return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0;
  };
  for (const char* const name : {"/a/b/bound", "/read-only", "/other", "/plain"}) {
    fs::create_directories(job + name);
    write_file(job + name + std::string("/hidden"), "below the mount");
  }
  write_file(job + "/file", "below the mount");
  fs::create_directories(data + "/deep");
  write_file(data + "/deep/kept", "kept");
  ASSERT_EQ(::chmod(data.c_str(), 0500), 0);
  const bool can_mount = among_own_mounts([&] {
    ASSERT_TRUE(bind(data, job + "/a/b/bound"));
    ASSERT_TRUE(bind(data, job + "/read-only"));
    ASSERT_TRUE(bind(data + "/deep/kept", job + "/file"));
    ASSERT_EQ(::mount("none", (job + "/other").c_str(), "tmpfs", 0, nullptr), 0);
    const UniqueFd root(::open((folder_ + "/root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    agent::remove_tree(root.get(), "job", "job", nullptr, report);
  });
  if (!can_mount) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(file_content(data + "/deep/kept"), "kept");
  EXPECT_EQ(mode_of(data), 0500U);
  EXPECT_FALSE(fs::exists(job + "/plain"));
  std::ranges::sort(report.remaining);
  EXPECT_EQ(report.remaining, (std::vector<std::string>{
                                  "job/a/b/bound: a file system is mounted on it",
                                  "job/file: Device or resource busy",
                                  "job/other: it is on another file system",
                                  "job/read-only: a file system is mounted on it",
                              }));
}

TEST_F(AgentTest, WhatIsKeptSparesTheFoldersAboveItAndNothingElse) {
  auto agent = connect_agent();
  make_deep_folder(node_.root + "/jobs/job-1/work", folder_);
  for (const char* folder : {"/jobs/job-1/output/deep", "/jobs/job-2/work"}) {
    std::filesystem::create_directories(node_.root + folder);
    write_file(node_.root + folder + "/model", "kept");
  }
  const auto report = agent->teardown(true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_EQ(file_content(node_.root + "/jobs/job-1/output/deep/model"), "kept");
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-1/work"));
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-2"));
}

TEST_F(AgentTest, TeardownKeepsTheOutputWhenAsked) {
  auto agent = connect_agent();
  push_script(*agent, "long", "echo kept; exec sleep 1000");
  ASSERT_TRUE(agent->start(script("long", "trainer-0")));
  wait_log(*agent, "jobs/job-1/output/trainer-0.log", "kept");
  const auto report = agent->teardown(true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->processes_ended(), 1U);
  EXPECT_TRUE(report->remaining().empty());
  EXPECT_EQ(file_content(node_.root + "/jobs/job-1/output/trainer-0.log"), "kept\n");
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/bin"));
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/jobs/job-1/proc"));
  // The agent answers first and exits then.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!processes_using(folder_).empty() && std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 10);
  }
  EXPECT_EQ(processes_using(folder_), std::vector<int>{});
}

TEST_F(AgentTest, AFolderIsMovedToANameThatNothingHas) {
  auto agent = connect_agent();
  write_file(folder_ + "/a", "x");
  ASSERT_TRUE(push(*agent, {{folder_ + "/a", "jobs/j/output/pass-00001/a"}}));
  ASSERT_TRUE(push(*agent, {{folder_ + "/a", "jobs/j/output/pass-00002/a"}}));
  const std::string output = "jobs/j/output/";
  EXPECT_EQ(agent->move(output + "pass-00001", output + "pass-00002").error().code,
            Errc::kResource);
  ASSERT_TRUE(agent->move(output + "pass-00001", output + "pass-00001.damaged"));
  EXPECT_EQ(file_content(node_.root + "/" + output + "pass-00001.damaged/a"), "x");
  EXPECT_FALSE(agent->move(output + "pass-00001", output + "pass-00003")) << "it is gone";
  EXPECT_FALSE(agent->move(output + "pass-00002", "../outside"));
  EXPECT_EQ(file_content(node_.root + "/" + output + "pass-00002/a"), "x");
}

}  // namespace
}  // namespace paddle::remote
