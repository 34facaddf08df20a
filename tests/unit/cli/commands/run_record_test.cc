// Tags and notes of jobs: train, jobs and the report.
#include "base/fd.h"
#include "cli/job/settings.h"
#include "cli/report/record.h"
#include "tests/support/snapshot_manifest.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

constexpr const char* kSettings = "jobs/job1/settings.jsonl";
const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

class TaggedJob : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  int train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--name", "job1"});
    more.emplace_back("w");
    return run(more);
  }
  RunRecord on_node() { return decode_settings(nodes_[0].files[kSettings])->record; }
};

TEST_F(TaggedJob, KeepsTagsAndNoteHereAndOnItsNodes) {
  ASSERT_EQ(train({"--tag", "lr-test", "--tag", "b", "--tag", "b", "--note", "a <b>note"}), 0)
      << err_.str();
  EXPECT_EQ(on_node().tags, (std::vector<std::string>{"lr-test", "b"}));
  EXPECT_EQ(on_node().note, "a <b>note");
  const auto commands = read_commands(folder_ + "/output/job1");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].record, on_node());
  EXPECT_EQ(commands[0].resume.text, "paddlectl train --resume --name job1 w")
      << "a resumed job keeps them by itself";
  const std::string page = *read_file(folder_ + "/output/job1/report.html");
  EXPECT_NE(page.find("\"tags\": [\"lr-test\", \"b\"], \"note\": \"a \\u003cb>note\""), page.npos);
}

TEST_F(TaggedJob, KeepsThemWhenItIsResumedUnlessNewOnesAreGiven) {
  trainer_exit_ = 75;
  ASSERT_EQ(train({"--tag", "one", "--note", "first"}), 75) << err_.str();
  nodes_[0].files["jobs/job1/output/pass-00001/MANIFEST"] = test::snapshot_manifest(2, 9);
  ASSERT_EQ(run({"train", "--resume", "--name", "job1"}), 75) << err_.str();
  EXPECT_EQ(on_node(), (RunRecord{{"one"}, "first", {}}));
  fs::remove_all(folder_ + "/output");
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--note", "second", "w"}), 75)
      << err_.str();
  EXPECT_EQ(on_node(), (RunRecord{{"one"}, "second", {}})) << "as its nodes have them";
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--tag", "two", "w"}), 75) << err_.str();
  EXPECT_EQ(on_node(), (RunRecord{{"two"}, "second", {}}));
  EXPECT_EQ(read_commands(folder_ + "/output/job1").back().record, on_node());
}

TEST_F(TaggedJob, IsRefusedWithATagOrANoteThatBreaksTheRules) {
  EXPECT_EQ(train({"--tag", "two words"}), 2);
  EXPECT_TRUE(err_has("--tag 'two words' is no tag")) << err_.str();
  EXPECT_EQ(train({"--note", "\x1b[2J"}), 2);
  EXPECT_TRUE(err_has("--note '\\x1b[2J' is no plain text")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(TaggedJob, IsListedByItsTags) {
  ASSERT_EQ(run({"train", "--name", "plain", "w"}), 0) << err_.str();
  ASSERT_EQ(run({"jobs"}), 0);
  EXPECT_FALSE(out_has("tags")) << "no job has any:\n" << out_.str();
  EXPECT_FALSE(out_has("note"));
  ASSERT_EQ(train({"--tag", "lr-test", "--tag", "b", "--note", "slower"}), 0) << err_.str();
  ASSERT_EQ(run({"jobs"}), 0);
  EXPECT_TRUE(out_has("tags        note\n")) << out_.str();
  EXPECT_TRUE(out_has("lr-test, b  slower\n")) << out_.str();
  EXPECT_TRUE(out_has("plain "));
  ASSERT_EQ(run({"jobs", "--tag", "b", "--tag", "lr-test"}), 0);
  EXPECT_TRUE(out_has("job1 ")) << out_.str();
  EXPECT_FALSE(out_has("plain ")) << out_.str();
  ASSERT_EQ(run({"jobs", "--tag", "c"}), 0);
  EXPECT_TRUE(err_has("no job has the tag c; tags: b, lr-test")) << err_.str();
  ASSERT_EQ(run({"jobs", "--tag", "b", "--json"}), 0);
  EXPECT_TRUE(out_has(R"("tags": ["lr-test", "b"], "note": "slower", "git": null)")) << out_.str();
}

TEST_F(TaggedJob, ShowsNothingOfANodeThatCouldPaintATerminal) {
  ASSERT_EQ(train({"--tag", "good"}), 0) << err_.str();
  for (FakeNode& node : nodes_) {
    std::string& text = node.files[kSettings];
    const auto put = [&](const std::string& from, const std::string& to) {
      const auto at = text.find(from);
      ASSERT_NE(at, text.npos) << text;
      text.replace(at, from.size(), to);
    };
    put("\"tags\": \"good\"", "\"tags\": \"good \\u001b[2J <b>\"");
    put("\"note\": \"\"", "\"note\": \"\\u001b[2J\"");
    put("\"commit\": \"\"", "\"commit\": \"" + kCommit + "\"");
    put("\"branch\": \"\"", "\"branch\": \"\\u001b[8m</script><b>\"");
  }
  ASSERT_EQ(run({"jobs"}), 0);
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
  EXPECT_TRUE(out_has("good\n")) << out_.str();
  ASSERT_EQ(run({"jobs", "--json"}), 0);
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
  EXPECT_TRUE(out_has(R"("branch": "\\x1b[8m</script><b>")")) << out_.str();
  ASSERT_EQ(run({"report", "job1", "--output", "elsewhere"}), 0) << err_.str();
  const std::string page = *read_file(folder_ + "/elsewhere/job1/report.html");
  EXPECT_EQ(page.find("</script><b>"), page.npos);
  EXPECT_NE(page.find("\"git\": \"0123456789ab (\\\\x1b[8m\\u003c/script>\\u003cb>)\""), page.npos);
  EXPECT_FALSE(fs::exists(folder_ + "/elsewhere/job1/settings.jsonl"))
      << "train --resume would take it for this machine's own";
}

}  // namespace
}  // namespace paddle::cli
