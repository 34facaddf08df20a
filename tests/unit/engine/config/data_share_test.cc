#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

TEST(DataShare, NumberedFilesGoByNumberModTrainers) {
  const test::TemporaryFolder folder;
  for (const char* number : {"00000", "00001", "00002", "00010"}) {
    folder.write(std::string("data/train.txt-") + number, "x\n");
  }
  const auto share = data_share(folder.path(), "data/train.txt-*", 0, 2);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->files, (std::vector<std::string>{folder / "data/train.txt-00000",
                                                    folder / "data/train.txt-00002",
                                                    folder / "data/train.txt-00010"}));
  EXPECT_FALSE(share->records_split);
  EXPECT_EQ(data_share(folder.path(), "data/train.txt-*", 1, 2)->files,
            std::vector<std::string>{folder / "data/train.txt-00001"});
  EXPECT_TRUE(data_share(folder.path(), "data/train.txt-*", 3, 4)->files.empty());
}

TEST(DataShare, AnUnnumberedFileIsSplitByRecords) {
  const test::TemporaryFolder folder;
  folder.write("corpus.txt", "x\n");
  const auto share = data_share(folder.path(), "corpus.txt", 2, 3);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->files, std::vector<std::string>{folder / "corpus.txt"});
  EXPECT_TRUE(share->records_split);
  EXPECT_FALSE(data_share(folder.path(), "corpus.txt", 0, 1)->records_split);
}

TEST(DataShare, CompressedFilesAreNumberedToo) {
  const test::TemporaryFolder folder;
  for (const char* name : {"part-0.gz", "part-1.zst", "part-2.npz", "part-3.bz2", "part-4.xz"})
    folder.write(name, "x");
  EXPECT_EQ(data_share(folder.path(), "part-*", 1, 2)->files,
            (std::vector<std::string>{folder / "part-1.zst", folder / "part-3.bz2"}));
}

TEST(DataShare, AGlobalShuffleNeedsEveryFileEverywhere) {
  const test::TemporaryFolder folder;
  for (const char* name : {"part-0", "part-1"}) folder.write(name, "x");
  const auto share = data_share(folder.path(), "part-*", 1, 2, true);
  EXPECT_EQ(share->files.size(), 2U);
  EXPECT_TRUE(share->records_split);
}

TEST(DataShare, AFolderInPlaceOfFilesIsNamed) {
  const test::TemporaryFolder folder;
  folder.write("data/a.csv", "x");
  for (const char* const pattern : {"data", "data/", "dat*"}) {
    const auto share = data_share(folder.path(), pattern, 0, 1);
    ASSERT_FALSE(share) << pattern;
    EXPECT_EQ(share.error().code, Errc::kData);
    EXPECT_EQ(share.error().message,
              fmt::format("'{}' in {} matches no file, but a folder", pattern, folder.path()));
  }
  EXPECT_EQ(data_share(folder.path(), "data/", 0, 1).error().hint, "name the files in it: data/*");
  EXPECT_TRUE(data_share(folder.path(), "none*", 0, 1)->files.empty());
}

// Without the records behind it, the job would learn from the rest of the data.
TEST(DataShare, ALinkThatLeadsNowhereIsNamed) {
  const test::TemporaryFolder folder;
  folder.write("data/train-0", "x");
  const std::string link = folder / "data/train-1";
  for (const auto& [target, reason] :
       {std::pair("not/mounted", ENOENT), std::pair("train-1", ELOOP),
        std::pair("train-0/x", ENOTDIR)}) {
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
    for (const char* const pattern : {"data/*", "data/train-1", "data/train-[0-9]"}) {
      const auto share = data_share(folder.path(), pattern, 0, 2);
      ASSERT_FALSE(share) << target;
      EXPECT_EQ(share.error().code, Errc::kData);
      EXPECT_EQ(share.error().message,
                fmt::format("{}, which matches '{}', is a link that cannot be followed: {}", link,
                            pattern, std::strerror(reason)));
    }
  }
  std::filesystem::remove(link);
  std::filesystem::create_symlink("train-0", link);
  EXPECT_EQ(data_share(folder.path(), "data/*", 0, 1)->files.size(), 2U);
}

TEST(DataShare, APatternOfAnyDepthIsRefused) {
  const test::TemporaryFolder folder;
  folder.write("data/a.csv", "x");
  folder.write("data/one/b.csv", "x");
  for (const char* const pattern : {"data/**/*.csv", "**/a.csv", "data/**"}) {
    const auto share = data_share(folder.path(), pattern, 0, 1);
    ASSERT_FALSE(share) << pattern << " would leave files out";
    EXPECT_EQ(share.error().code, Errc::kUsage);
  }
  EXPECT_EQ(data_share(folder.path(), "data/a**", 0, 1)->files.size(), 1U);
}

TEST(DataShare, FoldersAreNoDataFiles) {
  const test::TemporaryFolder folder;
  folder.write("part-0/inside", "x");
  folder.write("part-1", "x");
  EXPECT_EQ(data_share(folder.path(), "part-*", 0, 1)->files,
            std::vector<std::string>{folder / "part-1"});
}

TEST(DataShare, TheWorkspacesNameIsNoPattern) {
  const test::TemporaryFolder folder;
  folder.write("a[1]/corpus.txt", "x\n");
  EXPECT_EQ(data_share(folder / "a[1]", "*.txt", 0, 1)->files.size(), 1U);
}

TEST(DataShare, NothingMatchingIsAnEmptyShareAndAWrongTrainerAnError) {
  const test::TemporaryFolder folder;
  const auto share = data_share(folder.path(), "none-*", 0, 1);
  ASSERT_TRUE(share);
  EXPECT_TRUE(share->files.empty());
  EXPECT_EQ(data_share(folder.path(), "none-*", 2, 2).error().code, Errc::kUsage);
  for (const char* pattern : {"none/train-*", "none/*/train", "*/none/*"}) {
    const auto without = data_share(folder.path(), pattern, 0, 1);
    ASSERT_TRUE(without) << without.error().message;
    EXPECT_TRUE(without->files.empty()) << pattern;
  }
}

TEST(DataShare, AFolderThatCannotBeReadIsNamedWithTheReason) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  const auto share = data_share(folder.path(), "loop/*", 0, 1);
  ASSERT_FALSE(share);
  EXPECT_EQ(share.error().message, fmt::format("cannot search for 'loop/*' in {0}: {0}/loop: {1}",
                                               folder.path(), std::strerror(ELOOP)));
  EXPECT_NE(share.error().hint, "");
}

TEST(DataShare, APatternThatWouldWalkForEverIsRefused) {
  const test::TemporaryFolder folder;
  folder.write("a/b/part-0", "x");
  for (const char* pattern : {"../*", "a/../a/*", "/*/../*/../*/../*/../*", "a/.."}) {
    const auto share = data_share(folder.path(), pattern, 0, 1);
    ASSERT_FALSE(share) << pattern;
    EXPECT_EQ(share.error().code, Errc::kUsage);
    EXPECT_EQ(share.error().message,
              std::string("'..' is not allowed in the pattern '") + pattern + "'");
  }
  EXPECT_EQ(data_share(folder.path(), "a/*/part-..*", 0, 1)->files.size(), 0U);
  EXPECT_EQ(data_share(folder.path(), "a/*/part-*", 0, 1)->files.size(), 1U);
}

TEST(DataShare, APatternThatReadsTooManyNamesIsRefused) {
  const test::TemporaryFolder folder;
  folder.write("a/b/part-0", "x");
  // A link to its own folder has as many paths as the pattern has stars.
  std::filesystem::create_directory_symlink(folder.path(), folder / "a/0");
  std::filesystem::create_directory_symlink(folder.path(), folder / "a/1");
  std::filesystem::create_directory_symlink(folder.path(), folder / "a/2");
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*/";
  const auto share = data_share(folder.path(), pattern + "part-*", 0, 1);
  ASSERT_FALSE(share);
  EXPECT_EQ(share.error().message, "the search for '" + pattern + "part-*' in " + folder.path() +
                                       " reads more than 1000000 names");
}

}  // namespace
}  // namespace paddle::config
