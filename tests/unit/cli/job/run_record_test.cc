// Tags, notes and the state of the workspace's repository.
#include "cli/job/run_record.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "cli/cluster/program.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

TEST(Tags, AreShortWordsEachOnce) {
  EXPECT_EQ(*checked_tags({"lr-test", "a/b:c=1+x@y_z.2", "lr-test"}),
            (std::vector<std::string>{"lr-test", "a/b:c=1+x@y_z.2"}));
  for (const std::string bad : {"", "two words", "a,b", "<b>", "caf\xc3\xa9", "\x1b[2J", "a\nb"}) {
    const auto tags = checked_tags({bad});
    ASSERT_FALSE(tags) << bad;
    EXPECT_EQ(tags.error().code, Errc::kUsage);
    EXPECT_EQ(tags.error().message.find('\x1b'), std::string::npos);
    EXPECT_NE(tags.error().hint.find("64 letters, digits and ._-"), std::string::npos);
  }
  EXPECT_TRUE(checked_tags({std::string(kTagBytesMax, 'x')}));
  EXPECT_FALSE(checked_tags({std::string(kTagBytesMax + 1, 'x')}));
  std::vector<std::string> many;
  for (std::size_t i = 0; i < kTagsMax; ++i) many.push_back("t" + std::to_string(i));
  EXPECT_TRUE(checked_tags(many));
  many.emplace_back("more");
  EXPECT_EQ(checked_tags(many).error().message, "17 tags are too many");
}

TEST(Notes, AreOneLineOfText) {
  EXPECT_TRUE(check_note(""));
  EXPECT_TRUE(check_note("a smaller learning rate: caf\xc3\xa9 <b>"));
  EXPECT_TRUE(check_note(std::string(kNoteBytesMax, 'x')));
  EXPECT_EQ(check_note(std::string(kNoteBytesMax + 1, 'x')).error().message,
            "--note has 1001 bytes");
  for (const char* bad : {"two\nlines", "\x1b[2J", "caf\xe9", "\xe2\x80\xaetxt"})
    EXPECT_EQ(check_note(bad).error().code, Errc::kUsage) << bad;
}

std::function<std::string(std::string_view)> texts(std::map<std::string, std::string> values) {
  return [values](std::string_view key) {
    const auto found = values.find(std::string(key));
    return found == values.end() ? std::string() : found->second;
  };
}

TEST(RunRecord, OfANodeIsTakenOnlyAsFarAsItKeepsTheRules) {
  const std::string commit(40, 'a');
  const RunRecord good = run_record_of(texts({{"tags", "x y"},
                                              {"note", "n"},
                                              {"commit", commit},
                                              {"branch", "main"},
                                              {"changed", "yes"}}));
  EXPECT_EQ(good, (RunRecord{{"x", "y"}, "n", {commit, "main", true}}));
  EXPECT_EQ(good.git.text(), "aaaaaaaaaaaa (main, with changes)");
  const RunRecord bad = run_record_of(texts({{"tags", "x <b> x \x1b[2J"},
                                             {"note", "\x1b[2J"},
                                             {"commit", "$(reboot)"},
                                             {"branch", "main"},
                                             {"changed", "yes"}}));
  EXPECT_EQ(bad, (RunRecord{{"x"}, "", {}}));
  std::string many;
  for (int i = 0; i < 100; ++i) many += " t" + std::to_string(i);
  EXPECT_EQ(run_record_of(texts({{"tags", many}})).tags.size(), kTagsMax);
}

class Repository : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/git", X_OK) != 0) GTEST_SKIP() << "no git here";
    git({"init", "-q", "-b", "main"});
    git({"config", "user.name", "n"});
    git({"config", "user.email", "n@example.com"});
    folder_.write("w/job.toml", "seed = 1\n");
    folder_.write("other", "1\n");
    git({"add", "."});
    git({"commit", "-qm", "first"});
  }
  std::string git(std::vector<std::string> words) {
    words.insert(words.begin(), "git");
    const auto end = run_program(
        {.arguments = words, .folder = folder_.path(), .environment = {{"HOME", folder_.path()}}});
    EXPECT_TRUE(end && end->ok()) << words[1] << ": " << (end ? end->errors : end.error().message);
    return end ? end->output : "";
  }
  GitState state() const { return git_state(folder_ / "w"); }
  // A program whose run leaves a file.
  std::string spy(const std::string& name) {
    const std::string path =
        folder_.write(name, "#!/bin/sh\ntouch " + (folder_ / "ran") + "\ncat\n");
    ::chmod(path.c_str(), 0755);
    return path;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Repository, HasACommitABranchAndChangesOfTheWorkspace) {
  std::string commit = git({"rev-parse", "HEAD"});
  commit.pop_back();
  EXPECT_EQ(state(), (GitState{commit, "main", false}));
  folder_.write("w/data", "not tracked\n");
  folder_.write("other", "2\n");
  EXPECT_EQ(state().is_changed, false) << "neither is a change of the workspace's code";
  folder_.write("w/job.toml", "seed = 2\n");
  EXPECT_EQ(state(), (GitState{commit, "main", true}));
  git({"checkout", "-q", "--detach"});
  EXPECT_EQ(state(), (GitState{commit, "", true}));
}

TEST_F(Repository, IsThatOfTheWorkspaceWhateverTheEnvironmentNames) {
  const GitState before = state();
  ::setenv("GIT_DIR", "/nonexistent", 1);
  EXPECT_EQ(state(), before);
  ::unsetenv("GIT_DIR");
}

TEST_F(Repository, RunsNoCodeOfItsOwn) {
  git({"config", "core.fsmonitor", spy("monitor")});
  folder_.write(".git/own-hooks/x", "");
  for (const char* hook : {"post-index-change", "reference-transaction", "post-checkout"}) {
    spy(std::string(".git/own-hooks/") + hook);
    spy(std::string(".git/hooks/") + hook);
  }
  git({"config", "core.hooksPath", folder_ / ".git/own-hooks"});
  git({"config", "core.sshCommand", spy("ssh")});
  git({"config", "core.pager", spy("pager")});
  fs::remove(folder_ / "ran");
  folder_.write("w/job.toml", "seed = 2\n");
  EXPECT_EQ(state().is_changed, true);
  EXPECT_FALSE(fs::exists(folder_ / "ran"));

  git({"config", "-f", folder_ / "included", "filter.evil.clean", spy("filter")});
  git({"config", "include.path", folder_ / "included"});
  folder_.write(".git/info/attributes", "* filter=evil\n");
  folder_.write("w/job.toml", "seed = 3\n");
  const GitState filtered = state();
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  EXPECT_EQ(filtered.branch, "main");
  EXPECT_FALSE(filtered.is_changed) << "not known";
}

// A partial clone fetches what it lacks, by a program that its own configuration names.
TEST_F(Repository, FetchesNothing) {
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"core.repositoryformatversion", "1"},
           {"extensions.partialClone", "evil"},
           {"remote.evil.url", folder_.path()},
           {"remote.evil.promisor", "true"},
           {"remote.evil.uploadpack", spy("upload")}}) {
    git({"config", key, value});
  }
  const std::string tree = git({"rev-parse", "HEAD^{tree}"});
  ASSERT_TRUE(fs::remove(
      folder_ / (".git/objects/" + tree.substr(0, 2) + "/" + tree.substr(2, tree.find('\n') - 2))));
  EXPECT_FALSE(state().is_changed) << "not known";
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(Repository, OfAnotherUserIsNotKnown) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  constexpr uid_t kNobody = 65534;
  for (const char* path : {"", ".git", "w"})
    ASSERT_EQ(::chown((folder_ / path).c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(state(), GitState());
}

TEST_F(Repository, WithoutGitOrACommitIsNotKnown) {
  const test::TemporaryFolder empty;
  EXPECT_EQ(git_state(empty.path()), GitState());
  EXPECT_EQ(git_state("/nonexistent"), GitState());
  folder_.write("w/.git/x", "no repository");
  EXPECT_EQ(state().branch, "main") << "the one around it";
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", empty.path().c_str(), 1);
  EXPECT_EQ(state(), GitState());
  ::setenv("PATH", path.c_str(), 1);
  fs::remove_all(folder_ / ".git");
  git({"init", "-q"});
  EXPECT_EQ(state(), GitState()) << "it has no commit yet";
}

}  // namespace
}  // namespace paddle::cli
