#include "cli/job/workspace.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/job/ignore_rules.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(IgnoreRules, FollowGitignore) {
  IgnoreRules rules;
  rules.add("",
            "# comment\n\n*.pyc\n/build\ntmp/\ndoc/*.txt\n**/cache\na/**/z\nlogs/**\n!keep.pyc\n"
            "\\#real\n\\!bang\nspace\\ \ntrailing   \n[abc]1\n[!x-z]9\nq?\n");
  const auto ignored = [&](const char* path, bool folder = false) {
    return rules.ignores(path, folder);
  };
  for (const char* path :
       {"x.pyc", "deep/x.pyc", "build", "doc/a.txt", "cache", "a/b/cache", "a/z", "a/b/c/z",
        "logs/x", "logs/a/b", "#real", "!bang", "space ", "trailing", "b1", "d/c1", "a9", "qq"}) {
    EXPECT_TRUE(ignored(path)) << path;
  }
  for (const char* path :
       {"x.py", "keep.pyc", "deep/keep.pyc", "sub/build", "doc/deep/a.txt", "sub/doc/a.txt", "logs",
        "d1", "y9", "q", "qqq", "tmp", "b/a/z", "space"}) {
    EXPECT_FALSE(ignored(path)) << path;
  }
  EXPECT_TRUE(ignored("tmp", true));
  EXPECT_TRUE(ignored("deep/tmp", true));
  rules.add("sub/", "/own\n!x.pyc\n");
  EXPECT_TRUE(ignored("sub/own"));
  EXPECT_FALSE(ignored("own"));
  EXPECT_FALSE(ignored("sub/x.pyc")) << "the nearer file wins";
  EXPECT_TRUE(ignored("x.pyc"));
}

TEST(IgnoreRules, ManyStarsEnd) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  EXPECT_FALSE(matches_glob(pattern + "b", std::string(3000, 'a')));
}

class WorkspaceTest : public ::testing::Test {
 protected:
  WorkspaceTest() {
    write(path("job.toml"), "");
    write(path("data/train"), "1 2 3\n");
    job_.data.train = "data/train";
  }
  fs::path path(const std::string& name) const { return fs::path(folder_.path()) / "w" / name; }
  Result<Workspace> scan() const { return scan_workspace(path("").string(), job_, 1); }

  test::TemporaryFolder folder_;
  config::JobConfig job_;
};

TEST_F(WorkspaceTest, PaddleignoreLeavesFilesHere) {
  write(path(".paddleignore"), "*.bin\n/big/\ndata/\n");
  write(path("a.bin"), "x");
  write(path("big/b"), "x");
  write(path("src/c.py"), "x");
  write(path("src/d.bin"), "x");
  write(path("src/.paddleignore"), "!d.bin\n");
  const auto workspace = scan();
  ASSERT_TRUE(workspace) << workspace.error().message;
  EXPECT_EQ(workspace->common, (std::vector<std::string>{"job.toml", "src/c.py", "src/d.bin"}));
  EXPECT_EQ(workspace->trainer_data[0], std::vector<std::string>{"data/train"})
      << "[data] names it";
}

TEST_F(WorkspaceTest, SnapshotsStayHereUnlessTheyAreAskedFor) {
  for (const char* folder : {"saved/pass-00000", "saved/pass-00001", "deep/er/pass-00002"}) {
    write(path(std::string(folder) + "/MANIFEST"), "snapshot format=4 engine=0.1.0 id=1\nx\n");
    write(path(std::string(folder) + "/tables/a"), "x");
  }
  write(path("saved/BEST"), "pass-00001\n");
  write(path("package/MANIFEST"), "files\n");
  write(path("saved/.paddleignore"), "!pass-00001\n");
  const auto workspace = scan();
  ASSERT_TRUE(workspace) << workspace.error().message;
  EXPECT_EQ(workspace->snapshots,
            (std::vector<std::string>{"deep/er/pass-00002", "saved/pass-00000"}));
  EXPECT_EQ(workspace->common,
            (std::vector<std::string>{"job.toml", "package/MANIFEST", "saved/BEST",
                                      "saved/pass-00001/MANIFEST", "saved/pass-00001/tables/a"}));
}

TEST_F(WorkspaceTest, OfObjectsNothingIsPushed) {
  job_.data.train = job_.data.test = "s3://clicks/../train-*";
  job_.data.command = {"sh", "objects.sh"};
  write(path("objects.sh"), "exit 1\n");
  const auto workspace = scan();
  ASSERT_TRUE(workspace) << workspace.error().message;
  EXPECT_TRUE(workspace->mounted);
  EXPECT_TRUE(workspace->trainer_data[0].empty());
  EXPECT_TRUE(workspace->test.empty());
  EXPECT_EQ(workspace->common, (std::vector<std::string>{"data/train", "job.toml", "objects.sh"}));
}

TEST_F(WorkspaceTest, Trainer0GetsAllTrainingFilesIfAPartOfTheirRecordsIsHeldOut) {
  for (const char* file : {"data/part-0", "data/part-1", "data/part-2"}) write(path(file), "1\n");
  job_.data.train = "data/part-*";
  const auto scanned = [&] { return scan_workspace(path("").string(), job_, 2); };
  auto workspace = scanned();
  ASSERT_TRUE(workspace) << workspace.error().message;
  EXPECT_TRUE(workspace->test.empty());
  job_.data.test_fraction = 0.1;
  workspace = scanned();
  ASSERT_TRUE(workspace) << workspace.error().message;
  const std::vector<std::string> all{"data/part-0", "data/part-1", "data/part-2"};
  EXPECT_EQ(workspace->test, all);
  EXPECT_EQ(workspace->trainer_data[0], (std::vector<std::string>{all[0], all[2]}));
  EXPECT_EQ(workspace->trainer_data[1], std::vector<std::string>{all[1]});
}

TEST_F(WorkspaceTest, LinksWithinAreKeptAndOthersRefused) {
  write(path("lib/real"), "x");
  fs::create_directories(path("bin"));
  fs::create_symlink("../lib/real", path("bin/link"));
  fs::create_symlink("lib", path("also"));
  const auto kept = scan();
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->links,
            (std::map<std::string, std::string>{{"also", "lib"}, {"bin/link", "../lib/real"}}));
  EXPECT_EQ(kept->common, (std::vector<std::string>{"job.toml", "lib/real"}));
  for (const std::string target : {"../../x", "/etc/passwd", "../lib/../../x"}) {
    fs::create_symlink(target, path("bin/bad"));
    const auto refused = scan();
    ASSERT_FALSE(refused) << target;
    EXPECT_EQ(refused.error().code, Errc::kData);
    EXPECT_NE(refused.error().message.find("bin/bad"), std::string::npos);
    fs::remove(path("bin/bad"));
  }
  fs::create_symlink("/etc/passwd", path("bin/bad"));
  write(path(".paddleignore"), "bin/bad\n");
  EXPECT_TRUE(scan()) << "ignored, so it need not travel";
}

TEST_F(WorkspaceTest, DataBehindALinkToOutsideIsRefusedByName) {
  const std::string outside = folder_.path() + "/outside/s-1";
  write(outside, "a secret\n");
  fs::create_symlink(outside, path("data/absolute-1"));
  fs::create_symlink("../../outside/s-1", path("data/relative-1"));
  fs::create_symlink("relative-1", path("data/twice-1"));
  fs::create_symlink("../outside", path("folder"));
  write(path(".paddleignore"), "data\n");  // [data] names them even so
  for (const std::string file :
       {"data/absolute-1", "data/relative-1", "data/twice-1", "folder/s-1"}) {
    for (const bool in_test : {false, true}) {
      job_.data.train = in_test ? "data/train" : file.substr(0, file.size() - 1) + "*";
      job_.data.test = in_test ? file : "";
      const auto refused = scan();
      ASSERT_FALSE(refused) << file;
      EXPECT_EQ(refused.error().code, Errc::kData);
      EXPECT_NE(refused.error().message.find("/w/" + file), std::string::npos);
      EXPECT_NE(refused.error().message.find(outside), std::string::npos);
    }
  }
}

TEST_F(WorkspaceTest, ANameThatNoNodeMayListIsRefused) {
  for (const std::string name : {"a\x1b[2J", "a\nb", "a\tb", "a\x7f", "caf\xe9"}) {
    write(path("lib/" + name), "x");
    const auto refused = scan();
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Errc::kData);
    EXPECT_NE(refused.error().message.find("/w/lib/"), std::string::npos);
    EXPECT_EQ(refused.error().message.find('\x1b'), std::string::npos);
    write(path(".paddleignore"), "lib\n");
    EXPECT_TRUE(scan()) << "ignored, so it need not travel";
    job_.data.test = "lib/*";
    EXPECT_FALSE(scan()) << "data travels nevertheless";
    job_.data.test = "";
    fs::remove_all(path("lib"));
    fs::remove(path(".paddleignore"));
  }
  write(path("lib/caf\xc3\xa9 \xf0\x9f\x98\x80"), "x");
  EXPECT_TRUE(scan());
}

TEST_F(WorkspaceTest, DataBehindALinkWithinIsPushedAsAFile) {
  write(path("real/s-1"), "1 2 3\n");
  fs::create_symlink("../real/s-1", path("data/s-1"));
  fs::create_symlink("real", path("linked"));
  for (const std::string data : {"data/s-1", "linked/s-1"}) {
    job_.data.train = data;
    const auto kept = scan();
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(kept->trainer_data[0], std::vector<std::string>{data});
  }
}

}  // namespace
}  // namespace paddle::cli
