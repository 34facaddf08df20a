#include "cli/job/whole_snapshot.h"

#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/text.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const std::string& text) {
  return to_hex(sha256_of(as_bytes(text)));
}

std::string manifest_of(const std::string& lines) {
  const std::string body = "paddle snapshot 2\n" + lines;
  return body + "sha256 " + hash_of(body) + "\n";
}

std::string line_of(const std::string& name, const std::string& content) {
  return fmt::format("file size={} sha256={} name={}\n", content.size(), hash_of(content), name);
}

class WholeTest : public testing::Test {
 protected:
  WholeTest() {
    folder_.write("secret", "secret");
    folder_.write("pass-00000/w", "weights");
    folder_.write("pass-00000/model/with a space", "model");
  }
  std::string damaged(const std::string& lines) {
    folder_.write("pass-00000/MANIFEST", manifest_of(lines));
    return damaged_file_here(folder_ / "pass-00000");
  }
  test::TemporaryFolder folder_;
};

TEST_F(WholeTest, FilesAreWhatTheManifestSays) {
  const std::string good = line_of("w", "weights") + line_of("model/with a space", "model");
  EXPECT_EQ(damaged(good), "");
  EXPECT_EQ(damaged(good + line_of("gone", "")), "gone");
  EXPECT_EQ(damaged(line_of("w", "others!")), "w");
  EXPECT_EQ(damaged(line_of("w", "weights2")), "w");
  folder_.write("pass-00000/done", "damaged");
  EXPECT_EQ(damaged(good), "") << "only v0.10's loaders read it, and paddle verify agrees";
  folder_.write("pass-00000/MANIFEST", manifest_of(good) + "more\n");
  EXPECT_EQ(damaged_file_here(folder_ / "pass-00000"), "MANIFEST");
  EXPECT_EQ(damaged_file_here(folder_ / "none"), "MANIFEST");
}

TEST_F(WholeTest, ANameThatLeadsOutIsDamageAndOpensNothing) {
  // Right in size and hash, so that "whole" would say what is in it.
  for (const std::string& name :
       {std::string("../secret"), folder_ / "secret", std::string("model/../../secret"),
        std::string("./w"), std::string("a//w"), std::string("")}) {
    EXPECT_EQ(damaged(line_of(name, "secret")), "MANIFEST") << name;
  }
  EXPECT_EQ(damaged("file size=0 sha256=" + hash_of("") + " name=../../../../proc/kmsg\n"),
            "MANIFEST");
}

TEST_F(WholeTest, ALineThatCannotBeReadIsDamage) {
  for (const char* const line :
       {"file size=7x sha256=00 name=w\n", "file size= sha256=00 name=w\n", "file size=-7\n",
        "file sha256=00 size=7 name=w\n", "file size=7 sha256=00 other=1 name=w\n",
        "file size=18446744073709551616 sha256=00 name=w\n", "file size=7 sha256=00\n",
        "model w\n"}) {
    EXPECT_EQ(damaged(line_of("w", "weights") + line), "MANIFEST") << line;
  }
}

TEST_F(WholeTest, OnlyRegularFilesBelowTheFolderAreRead) {
  fs::create_symlink(folder_ / "secret", folder_ / "pass-00000/link");
  fs::create_directory_symlink(folder_.path(), folder_ / "pass-00000/above");
  ASSERT_EQ(::mkfifo((folder_ / "pass-00000/pipe").c_str(), 0600), 0);
  EXPECT_EQ(damaged(line_of("link", "secret")), "link");
  EXPECT_EQ(damaged(line_of("above/secret", "secret")), "above/secret");
  EXPECT_EQ(damaged(line_of("pipe", "")), "pipe") << "and it is not waited for";
  EXPECT_EQ(damaged(line_of("model", "")), "model");
  fs::remove(folder_ / "pass-00000/MANIFEST");
  fs::create_symlink(folder_ / "secret", folder_ / "pass-00000/MANIFEST");
  EXPECT_EQ(damaged_file_here(folder_ / "pass-00000"), "MANIFEST");
}

}  // namespace
}  // namespace paddle::cli
