// Copies between an agent's folder and the rest of the node, with the real agent.
#include "remote/agent/node/node_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;
using Kind = TreeEntry::Kind;

constexpr const char* kStaging = ".paddlectl-copies/1";
constexpr std::int64_t kTime = 1'234'567'890'123'456'789;

class NodeCopyTest : public AgentTest {
 protected:
  NodeCopyTest() : agent_(connect_agent()) { fs::create_directory(outside_); }

  CopiedEntry file(const std::string& path, std::uint32_t mode = 0644) {
    return {{path, Kind::kFile, mode, kTime, 0, ""}, 1};
  }
  static CopiedEntry folder(const std::string& path, std::uint32_t mode = 0755) {
    return {{path, Kind::kFolder, mode, kTime, 0, ""}};
  }
  static CopiedEntry link(const std::string& path, const std::string& target) {
    return {{path, Kind::kLink, 0777, kTime, 0, target}};
  }
  Result<wire::agent::CopyReply> put(const CopyTree& tree, const std::string& to,
                                     const std::string& content = "content") {
    const std::string local = write_file(folder_ + "/local", content);
    EXPECT_TRUE(push(*agent_, {{local, std::string(kStaging) + "/1"}}));
    auto copied = agent_->export_to(tree, kStaging, to);
    EXPECT_TRUE(agent_->remove(kStaging));
    return copied;
  }
  static struct stat stat_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  static std::size_t entries_in(const std::string& path) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }

  const std::string outside_ = folder_ + "/outside";
  std::unique_ptr<AgentClient> agent_;
};

TEST_F(NodeCopyTest, PutMakesFilesFoldersAndLinksAsTheyAre) {
  const CopyTree tree = {folder("site", 0751),       folder("site/empty", 0755),
                         folder("site/read", 0555),  file("site/read/a", 0444),
                         file("site/tool", 0775),    link("site/python3", "/usr/bin/python3"),
                         link("site/up", "../../..")};
  for (int turn = 0; turn < 2; ++turn) {  // also over what is there
    const auto copied = put(tree, outside_ + "/");
    ASSERT_TRUE(copied) << copied.error().message;
    EXPECT_EQ(copied->files(), 4U);
    EXPECT_EQ(copied->bytes(), 14U);
  }
  const auto mode = [&](const char* path) {
    return stat_of(outside_ + "/" + path).st_mode & 07777U;
  };
  EXPECT_EQ(mode("site"), 0751U);
  EXPECT_EQ(mode("site/empty"), 0755U);
  EXPECT_EQ(mode("site/read"), 0555U);
  EXPECT_EQ(mode("site/read/a"), 0444U);
  EXPECT_EQ(mode("site/tool"), 0775U);
  EXPECT_EQ(file_content(outside_ + "/site/read/a"), "content");
  EXPECT_EQ(fs::read_symlink(outside_ + "/site/python3"), "/usr/bin/python3");
  EXPECT_EQ(fs::read_symlink(outside_ + "/site/up"), "../../..");
  for (const char* const path : {"site", "site/empty", "site/tool", "site/python3"})
    EXPECT_EQ(stat_of(outside_ + "/" + path).st_mtim.tv_sec, 1'234'567'890) << path;
  EXPECT_EQ(entries_in(outside_ + "/site"), 5U) << "no draft is left";
  ::chmod((outside_ + "/site/read").c_str(), 0700);
}

TEST_F(NodeCopyTest, PutSetsNoBitThatGivesRights) {
  const CopyTree tree = {folder("d", 06755), file("d/a", 04755)};
  ASSERT_TRUE(put(tree, outside_));
  EXPECT_EQ(stat_of(outside_ + "/d").st_mode & 07777U, 0755U);
  EXPECT_EQ(stat_of(outside_ + "/d/a").st_mode & 07777U, 0755U);
}

TEST_F(NodeCopyTest, PutOfOneFileTakesTheNameGiven) {
  ASSERT_TRUE(put({file("a")}, folder_ + "/named"));
  EXPECT_EQ(file_content(folder_ + "/named"), "content");
  ASSERT_TRUE(put({file("a")}, folder_ + "/made/below/"));
  EXPECT_EQ(file_content(folder_ + "/made/below/a"), "content");
  EXPECT_EQ(stat_of(folder_ + "/made").st_mode & 0777U, 0755U);
  ASSERT_TRUE(put({file("a")}, outside_));
  EXPECT_EQ(file_content(outside_ + "/a"), "content");
  EXPECT_FALSE(put({file("a")}, folder_ + "/named/below"));
  EXPECT_FALSE(put({file("../a")}, outside_));
  const auto refused = put({file("a")}, "/sys/made/below/");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("make the folder /sys/made: "), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(agent_->export_to({file("a")}, ".paddlectl-copies/../../x", outside_));
}

TEST_F(NodeCopyTest, PutWritesThroughNoLinkBelowTheDestination) {
  const std::string elsewhere = folder_ + "/elsewhere";
  fs::create_directory(elsewhere);
  write_file(elsewhere + "/kept", "kept");
  fs::create_symlink(elsewhere, outside_ + "/site");
  const auto refused = put({folder("site"), file("site/a")}, outside_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(
                "site exists as a link at the destination, but is a folder here"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(entries_in(elsewhere), 1U);
  // A file takes the place of a link, not of what that leads to.
  fs::create_symlink(elsewhere + "/kept", outside_ + "/a");
  ASSERT_TRUE(put({file("a")}, outside_ + "/"));
  EXPECT_EQ(file_content(elsewhere + "/kept"), "kept");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(outside_ + "/a")));
  // The destination itself is the user's to name, whatever leads there.
  ASSERT_TRUE(put({file("b")}, outside_ + "/site/"));
  EXPECT_EQ(file_content(elsewhere + "/b"), "content");
  // A folder or file in the way is not removed.
  fs::create_directories(outside_ + "/c/full");
  EXPECT_FALSE(put({file("c")}, outside_ + "/"));
  EXPECT_FALSE(put({link("c", "x")}, outside_ + "/"));
  EXPECT_FALSE(put({folder("a"), file("a/b")}, outside_ + "/"));
  EXPECT_TRUE(fs::exists(outside_ + "/c/full"));
}

TEST_F(NodeCopyTest, AFolderSwappedForALinkWhilePutWritesLeadsNowhere) {
  const std::string elsewhere = folder_ + "/elsewhere";
  fs::create_directories(elsewhere);
  fs::create_directories(outside_ + "/d");
  fs::create_symlink(elsewhere, outside_ + "/evil");
  std::atomic<bool> done = false;
  std::jthread enemy([&] {
    while (!done) {
      ::renameat2(AT_FDCWD, (outside_ + "/d").c_str(), AT_FDCWD, (outside_ + "/evil").c_str(),
                  RENAME_EXCHANGE);
    }
  });
  CopyTree tree = {folder("d")};
  for (int i = 0; i < 200; ++i) tree.push_back(file(fmt::format("d/f{:03}", i)));
  for (int turn = 0; turn < 10; ++turn) (void)put(tree, outside_);
  done = true;
  enemy.join();
  EXPECT_EQ(entries_in(elsewhere), 0U);
}

TEST_F(NodeCopyTest, NamesMayHaveAsManyBytesAsAnyFile) {
  const std::string name = std::string(251, 'n') + ".txt";
  ASSERT_TRUE(put({file(name)}, outside_ + "/"));
  EXPECT_EQ(file_content(outside_ + "/" + name), "content");
  ASSERT_TRUE(put({file("a")}, outside_ + "/" + std::string(255, 'm')));
  EXPECT_EQ(file_content(outside_ + "/" + std::string(255, 'm')), "content");
  CopyTree tree;
  ASSERT_TRUE(agent_->import_from(outside_ + "/" + name, kStaging, tree));
  ASSERT_EQ(tree.size(), 1U);
  const FetchItem item{std::string(kStaging) + "/1", folder_ + "/" + name, tree[0].entry.size,
                       tree[0].sha256};
  ASSERT_TRUE(agent_->fetch({item}));
  EXPECT_EQ(file_content(folder_ + "/" + name), "content");
}

TEST_F(NodeCopyTest, HolesStayHolesBothWays) {
  const std::string content =
      std::string(1U << 20U, '\0') + "middle" + std::string(5U << 20U, '\0');
  ASSERT_TRUE(put({file("image")}, outside_ + "/", content));
  EXPECT_EQ(file_content(outside_ + "/image"), content);
  EXPECT_LT(stat_of(outside_ + "/image").st_blocks * 512, 1 << 19);
  CopyTree tree;
  ASSERT_TRUE(agent_->import_from(outside_ + "/image", kStaging, tree));
  const FetchItem item{std::string(kStaging) + "/1", folder_ + "/back", tree[0].entry.size,
                       tree[0].sha256};
  ASSERT_TRUE(agent_->fetch({item}));
  EXPECT_EQ(file_content(folder_ + "/back"), content);
  EXPECT_LT(stat_of(folder_ + "/back").st_blocks * 512, 1 << 19);
}

TEST_F(NodeCopyTest, GetTellsFilesFoldersAndLinksAndNamesWhatIsNone) {
  fs::create_directories(outside_ + "/deep/empty");
  write_file(outside_ + "/deep/one", "1");
  write_file(outside_ + "/two", "22");
  ::chmod((outside_ + "/deep").c_str(), 0750);
  ::chmod((outside_ + "/two").c_str(), 0640);
  fs::create_symlink("/etc/passwd", outside_ + "/link");
  ASSERT_EQ(::mkfifo((outside_ + "/pipe").c_str(), 0600), 0);
  fs::create_directories(outside_ + "/.paddlectl-copies/x");
  CopyTree tree;
  const auto taken = agent_->import_from(outside_ + "/", kStaging, tree);
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->files(), 3U);
  EXPECT_EQ(taken->bytes(), 3U);
  EXPECT_EQ(taken->left_out(), 1U);
  ASSERT_EQ(taken->left_out_names_size(), 1);
  EXPECT_EQ(taken->left_out_names(0), "outside/pipe");
  std::string told;
  for (const auto& [entry, number, sha256] : tree)
    told += fmt::format("{}:{:o}:{} ", entry.path, entry.mode, entry.link);
  EXPECT_EQ(told,
            "outside:755: outside/deep:750: outside/deep/empty:755: outside/deep/one:644: "
            "outside/link:777:/etc/passwd outside/two:640: ");
  EXPECT_EQ(tree.back().sha256, to_hex(sha256_of(as_bytes("22"))));
  EXPECT_EQ(file_content(outside_ + "/two"), "22");
  for (const char* const path : {"/absent", "/pipe"}) {
    CopyTree none;
    EXPECT_FALSE(agent_->import_from(outside_ + path, kStaging, none)) << path;
  }
  CopyTree none;
  EXPECT_FALSE(agent_->import_from("", kStaging, none));
}

// Root may read everything, so a child gives that up.
TEST_F(NodeCopyTest, GetLeavesOutWhatMayNotBeRead) {
  fs::create_directories(outside_ + "/closed/deep");
  fs::create_directories(outside_ + "/listed");
  write_file(outside_ + "/listed/file", "no");
  write_file(outside_ + "/good", "yes");
  write_file(outside_ + "/key", "no");
  ::chmod((outside_ + "/closed").c_str(), 0);
  ::chmod((outside_ + "/listed").c_str(), 0444);
  ::chmod((outside_ + "/key").c_str(), 0);
  const std::string inside = folder_ + "/inside";
  fs::create_directories(inside);
  ::chmod(inside.c_str(), 0777);
  ::chmod(folder_.c_str(), 0755);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(12345) != 0 || ::setuid(12345) != 0)) ::_exit(2);
    const agent::Root root{inside, UniqueFd(::open(inside.c_str(), O_RDONLY | O_DIRECTORY))};
    wire::agent::CopyRequest request;
    request.set_inside("x");
    request.set_outside(outside_);
    std::string given;
    const auto reply = agent::copy_in(root, request, [&](const wire::agent::CopyEntry& entry) {
      given += entry.path() + " ";
      return Status();
    });
    if (!reply) std::cerr << reply.error().message << "\n";
    if (!reply) ::_exit(3);
    for (const std::string& name : reply->unreadable_names()) given += "-" + name + " ";
    request.set_outside(outside_ + "/key");
    const bool is_refused = !agent::copy_in(root, request, [](const auto&) { return Status(); });
    std::cerr << given << "\n";
    ::_exit(given == "outside outside/closed outside/good outside/listed -outside/closed "
                     "-outside/key -outside/listed " &&
                    reply->unreadable() == 3 && is_refused
                ? 0
                : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::chmod((outside_ + "/closed").c_str(), 0755);
  ::chmod((outside_ + "/listed").c_str(), 0755);
}

TEST_F(NodeCopyTest, CopiesEndWhenTheyAreInterrupted) {
  write_file(outside_ + "/file", "content");
  bool interrupted = false;
  CopyTree tree;
  agent_->set_interrupted([&] { return interrupted; });
  ASSERT_TRUE(agent_->import_from(outside_ + "/file", kStaging, tree));
  const std::vector<FetchItem> wanted = {
      {std::string(kStaging) + "/1", folder_ + "/got", 7, tree[0].sha256}};
  ASSERT_TRUE(agent_->fetch(wanted));
  interrupted = true;
  const Status fetched = agent_->fetch(wanted);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Errc::kInterrupted) << fetched.error().message;
  EXPECT_EQ(agent_->remove(kStaging).error().code, Errc::kInterrupted) << "nobody reads the rest";
  for (const bool is_put : {false, true}) {
    agent_ = connect_agent();
    agent_->set_interrupted([] { return true; });
    const auto copied = is_put ? agent_->export_to({folder("site")}, kStaging, outside_)
                               : agent_->import_from(outside_ + "/file", kStaging, tree);
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().code, Errc::kInterrupted) << copied.error().message;
  }
}

TEST_F(NodeCopyTest, GetReadsFilesWhoseSizeSaysNothingToTheirEnd) {
  std::vector<std::string> sources = {"/proc/version", "/proc/filesystems"};
  if (fs::exists("/sys/kernel/mm/transparent_hugepage/enabled"))
    sources.push_back("/sys/kernel/mm/transparent_hugepage/enabled");
  for (const std::string& source : sources) {
    CopyTree tree;
    const auto taken = agent_->import_from(source, kStaging, tree);
    ASSERT_TRUE(taken) << source << ": " << taken.error().message;
    ASSERT_EQ(tree.size(), 1U);
    const std::string content = file_content(source);
    EXPECT_EQ(tree[0].entry.size, content.size()) << source;
    EXPECT_EQ(tree[0].sha256, to_hex(sha256_of(as_bytes(content)))) << source;
    EXPECT_TRUE(agent_->remove(kStaging));
  }
  CopyTree empty;
  write_file(outside_ + "/empty", "");
  ASSERT_TRUE(agent_->import_from(outside_ + "/empty", kStaging, empty));
  EXPECT_EQ(empty[0].entry.size, 0U);
}

TEST_F(NodeCopyTest, AnEmptyFolderAloneIsCopied) {
  ASSERT_TRUE(agent_->export_to({folder("empty", 0700)}, kStaging, outside_));
  EXPECT_TRUE(fs::is_directory(outside_ + "/empty"));
  CopyTree tree;
  ASSERT_TRUE(agent_->import_from(outside_ + "/empty", kStaging, tree));
  ASSERT_EQ(tree.size(), 1U);
  EXPECT_TRUE(tree[0].entry.is_folder());
}

TEST_F(NodeCopyTest, AnyNumberOfEntriesComesInParts) {
  CopyTree tree = {folder("many")};
  for (int i = 0; i < 20'000; ++i)
    tree.push_back(link(fmt::format("many/{:05}", i), std::string(50, 'x')));
  ASSERT_TRUE(agent_->export_to(tree, kStaging, outside_));
  CopyTree back;
  ASSERT_TRUE(agent_->import_from(outside_ + "/many", kStaging, back));
  ASSERT_EQ(back.size(), tree.size());
  EXPECT_EQ(back.back().entry.path, "many/19999");
}

}  // namespace
}  // namespace paddle::remote
