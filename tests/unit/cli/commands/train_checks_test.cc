// train: mistakes that are named before anything starts.
#include "base/version.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AnEngineOfAnotherReleaseIsNamedWithBothVersions) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("paddle", "#!/bin/sh\necho 'paddlectl engine 0.0.7, compiled with'\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(train(), 3);
  EXPECT_TRUE(
      err_has(std::string("paddle is version 0.0.7, but paddlectl is version ") + kProgramVersion))
      << err_.str();
  EXPECT_TRUE(err_has("hint: put programs of one release into one folder: " + folder_ + "/paddle"));
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(CommandsTest, ADryRunRefusesTrainersWithoutDataAsTrainDoes) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "2", "w"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "--trainers", "4", "w"}), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but there are 4 trainers")) << err_.str();
  fs::remove(folder_ + "/w/data/test.txt");
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 6);
  EXPECT_TRUE(err_has("no file matches 'data/test.txt' in ")) << err_.str();
}

TEST_F(CommandsTest, ANetworkThatCannotBeBuiltIsNamedBeforeAnythingIsPushed) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  write("paddle", "#!/bin/sh\necho \"paddle: job.toml:9: layer 'x': no\" >&2\nexit 2\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(train(), 2);
  EXPECT_TRUE(err_has("job.toml:9: layer 'x': no")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  EXPECT_TRUE(nodes_[0].processes.empty());
  // A program that is not for this machine may be for the nodes.
  write("paddle", "engine of another machine");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_read);
  EXPECT_EQ(train(), 0) << err_.str();
}

TEST_F(CommandsTest, AnOutputFolderThatAFetchRefusesIsNamedBeforeAnythingStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  const test::TemporaryFolder elsewhere;
  const std::string open = elsewhere.make("open");
  fs::permissions(open, fs::perms::all);
  fs::create_directory_symlink(elsewhere.make("target"), folder_ + "/link");
  for (const auto& [output, code] :
       {std::pair(open, 5), {open + "/below", 5}, {"link", 6}, {"link/below", 6}}) {
    EXPECT_EQ(run({"train", "--name", "job1", "--output", output, "w"}), code) << err_.str();
    EXPECT_EQ(nodes_[0].files, files) << "nothing is pushed";
    EXPECT_TRUE(nodes_[0].processes.empty());
  }
  EXPECT_TRUE(fs::is_empty(open));
  EXPECT_TRUE(fs::is_empty(elsewhere / "target"));
}

TEST_F(CommandsTest, DataThatCannotTrainIsNamedBeforeAnythingStarts) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/data/test.txt", "");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("every file that matches 'data/test.txt' in ")) << err_.str();
  fs::remove(folder_ + "/w/data/test.txt");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("no file matches 'data/test.txt' in ")) << err_.str();
  EXPECT_TRUE(err_has("or correct [data] test\n")) << err_.str();
  write("w/data/test.txt", "1\ta\n");
  write("w/data/train-00000", "");
  write("w/data/train-00001", "");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("every file that matches 'data/train-*' in ")) << err_.str();
}

TEST_F(CommandsTest, AHeaderThatNamesOtherColumnsIsNamedBeforeThePush) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  write("w/job.toml", R"([data]
train = "data/*.csv"
format = "csv"
columns = ["a", "y"]
header = true
[[data.slot]]
name = "a"
type = "float"
[[data.slot]]
name = "y"
type = "float"
[[layer]]
name = "o"
type = "fc"
input = ["a"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["o"]
label = "y"
)");
  write("w/data/one.csv",
        "\xef\xbb\xbf"
        "a, \"y\"\r\n1,2\r\n");
  write("w/data/two.csv", "y,a\n2,1\n");
  write("w/data/packed.csv.gz", "read where it is unpacked");
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 2);
  EXPECT_EQ(train(), 2);
  EXPECT_TRUE(err_has("w/data/two.csv:1: the first line 'y,a' does not name the columns a, y"))
      << err_.str();
  EXPECT_TRUE(err_has("columns = [\"y\", \"a\"]")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  write("w/data/two.csv", "a,y\n2,1\n");
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 0) << err_.str();
  EXPECT_EQ(run({"train", "--dry-run", "--set", "data.header=false", "w"}), 6);
  EXPECT_TRUE(err_has("w/data/one.csv:1: the first line names the columns")) << err_.str();
}

TEST_F(CommandsTest, ADictionaryOfCountsIsNamedBeforeThePush) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/data/dictionary.txt", "a 7\nb 3\n<unk>\n");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("dictionary.txt:1: 'a 7' contains a blank, so it matches no word of a text"))
      << err_.str();
}

TEST_F(CommandsTest, FewerDataFilesThanTrainersAreRefusedBeforeThePush) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  const auto files = nodes_[0].files;
  EXPECT_EQ(run({"train", "--trainers", "3", "w"}), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but there are 3 trainers\n")) << err_.str();
  EXPECT_TRUE(err_has("hint: use --trainers 2, or make 3 files\n")) << err_.str();
  EXPECT_EQ(nodes_[0].files, files);
  // Enough of them, but each trainer takes those of its number.
  fs::rename(folder_ + "/w/data/train-00001", folder_ + "/w/data/train-00002");
  EXPECT_EQ(train(), 6);
  EXPECT_TRUE(err_has("2 files match data/train-*, but 1 of 2 trainers gets none of them\n"))
      << err_.str();
  EXPECT_TRUE(err_has(
      "hint: a file goes to the trainer with its number modulo 2: number the files 0, 1, 2, ...\n"))
      << err_.str();
  // Files without numbers are read by all trainers, line by line in turn.
  for (const char* number : {"0", "2"}) fs::remove(folder_ + "/w/data/train-0000" + number);
  write("w/data/train-all", "1\ta\n0\tb\n");
  EXPECT_EQ(run({"train", "--trainers", "3", "w"}), 0) << err_.str();
}

TEST_F(CommandsTest, UnlikeSharesAndTheSizeOfAnUpdateAreSaidBeforeTheStart) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(train(), 0) << err_.str();
  EXPECT_TRUE(err_has("one update is made of 2 x 32 examples; train.batch_size_total = 32 makes "))
      << err_.str();
  EXPECT_FALSE(err_has("divide evenly")) << "a line each, though not as long: " << err_.str();
  std::string lines;
  for (int i = 0; i < 1500; ++i) lines += "1\ta b\n";
  write("w/data/train-00000", lines);
  for (const char* file : {"w/data/train-00001", "w/data/train-00002"})
    write(file, lines.substr(0, lines.size() / 2));
  EXPECT_EQ(run({"train", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("trainer-0 reads 2,250 examples, trainer-1 750: 2 or 4 files divide evenly"))
      << err_.str();
  fs::rename(folder_ + "/w/data/train-00002", folder_ + "/w/data/rest");
  EXPECT_EQ(run({"train", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("trainer-0 reads 1,500 examples, trainer-1 750: 2 files of like size divide evenly"))
      << err_.str();
}

TEST_F(CommandsTest, CopiesOfAnEditorThatAreReadAsDataAreNamed) {
  write("paddle", "#!/bin/sh\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("of an editor")) << err_.str();
  write("w/data/train-00001.bak", "1\ta\n");
  EXPECT_EQ(run({"train", "--dry-run", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      err_has("data/train-00001.bak looks like the copy of an editor, and is read as data: "
              "remove it, or write a narrower pattern"))
      << err_.str();
  write("w/data/train-00001~", "1\ta\n");
  run({"plan", "w"});
  EXPECT_TRUE(err_has("data/train-00001.bak and 1 other file look like copies of an editor"))
      << err_.str();
  // A pattern that names such files means them.
  EXPECT_EQ(run({"train", "--dry-run", "--set", "data.train=data/*.bak", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("of an editor")) << err_.str();
  write("w/data/#test.txt#", "1\ta\n");
  EXPECT_EQ(run({"train", "--dry-run", "--set", "data.train=data/*.bak", "--set",
                 "data.test=data/*test*", "w"}),
            0)
      << err_.str();
  EXPECT_TRUE(err_has("data/#test.txt# looks like")) << err_.str();
}

TEST_F(CommandsTest, ABatchOfAllTrainersIsDividedAmongThem) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--set", "train.batch_size_total=64", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("one update is made of")) << err_.str();
  EXPECT_EQ(run({"train", "--set", "train.batch_size_total=65", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("one update is made of 65 examples: 32 of each trainer, one more of the "))
      << err_.str();
  EXPECT_EQ(run({"train", "--set", "train.batch_size_total=1", "w"}), 2);
  EXPECT_TRUE(err_has("is less than one example for each of 2 trainers")) << err_.str();
  EXPECT_EQ(run({"train", "--trainers", "1", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("one update is made of")) << err_.str();
}

TEST_F(CommandsTest, ResultsThatCouldNotBeWrittenAreNamedBeforeTheTraining) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--output", "c.toml", "w"}), 7);
  EXPECT_TRUE(err_has("hint: choose another --output")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(CommandsTest, ALimitForHangsNeedsRestartsAndThreeSeconds) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--name", "job1", "--stall-restarts-after", "9", "w"}), 2);
  EXPECT_TRUE(
      err_has("error: --stall-restarts-after does nothing without --restarts\n"
              "hint: add --restarts N: "))
      << err_.str();
  for (const char* const dry : {"", "--dry-run"}) {
    std::vector<std::string> few{"train", "--restarts", "1", "--stall-restarts-after", "2", "w"};
    if (*dry != '\0') few.emplace_back(dry);
    EXPECT_EQ(run(few), 2);
    EXPECT_TRUE(
        err_has("error: --stall-restarts-after 2 is too short: a process reports every second, and "
                "a busy machine may delay the report\n"
                "hint: use 3 or more, or 0 for never\n"))
        << err_.str();
  }
  EXPECT_TRUE(nodes_[0].processes.empty());
  for (const char* const good : {"0", "3"}) {
    ASSERT_EQ(run({"train", "--detach", "--restarts", "1", "--stall-restarts-after", good, "--name",
                   std::string("s") + good, "w"}),
              0)
        << err_.str();
    EXPECT_EQ(nodes_[0].specs["trainer-0"].hang_ms, 1000U * (*good - '0'));
    ASSERT_EQ(run({"stop", "--now"}), 0) << err_.str();
  }
  EXPECT_EQ(run({"train", "--stall-restarts-after", "0", "--name", "never", "w"}), 0) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
