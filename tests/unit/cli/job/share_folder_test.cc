#include "cli/job/share_folder.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

TEST(CopyTemplate, TheJobFileComesLastAndTheOutputOfPrepareStays) {
  const test::TemporaryFolder share;
  for (const char* file : {"job.toml", "z.txt", "a.txt", "data/train", "output/x", ".hidden"}) {
    share.write("templates/t/" + std::string(file), file);
  }
  const test::TemporaryFolder target;
  const auto files = copy_template(share.path(), "t", target / "w");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(*files, (std::vector<std::string>{"a.txt", "z.txt", "job.toml"}));
  for (const std::string& file : *files) {
    EXPECT_EQ(test::TemporaryFolder::read(target / ("w/" + file)), file);
  }
}

TEST(CopyTemplate, ALinkToAnotherTemplateBecomesAFileOfItsOwn) {
  const test::TemporaryFolder share;
  share.write("templates/one/job.toml", "");
  share.write("templates/two/job.toml", "");
  fs::permissions(share.write("templates/one/prepare", "#!/bin/sh"), fs::perms::owner_all);
  fs::create_symlink("../one/prepare", share / "templates/two/prepare");
  const test::TemporaryFolder target;
  const auto files = copy_template(share.path(), "two", target / "w");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(*files, (std::vector<std::string>{"prepare", "job.toml"}));
  EXPECT_EQ(fs::symlink_status(target / "w/prepare").type(), fs::file_type::regular);
  EXPECT_EQ(fs::status(target / "w/prepare").permissions(), fs::perms::owner_all);
  EXPECT_EQ(test::TemporaryFolder::read(target / "w/prepare"), "#!/bin/sh");
}

TEST(TemplateSummary, IsTheFirstLineOfTheReadme) {
  const test::TemporaryFolder share;
  share.write("templates/t/README.md", "# t: learns a thing\nmore\n");
  EXPECT_EQ(template_summary(share.path(), "t"), "learns a thing");
  EXPECT_EQ(template_summary(share.path(), "none"), "");
}

}  // namespace
}  // namespace paddle::cli
