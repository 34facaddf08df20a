#include "cli/job/results.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/snapshot_manifest.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

TEST(FetchResults, ASnapshotsManifestArrivesLast) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  fake.node(0).files["jobs/j/output/pass-00000/MANIFEST"] = "manifest";
  fake.node(0).files["jobs/j/output/pass-00000/w"] = "weights";
  const test::TemporaryFolder folder;
  // Both names are one file here, which keeps the content written last.
  const std::string file = folder.write("j/pass-00000/w", "old");
  fs::create_symlink("w", folder / "j/pass-00000/MANIFEST");
  const auto stats = fetch_results(fake.context, session, "j", folder.path(), PassChoice{});
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->files, 2U);
  EXPECT_EQ(test::TemporaryFolder::read(file), "manifest");
}

TEST(FetchResults, ADamagedSnapshotReplacesNoneThatIsWhole) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  const std::string whole = test::snapshot_manifest(1, 9, "", {{"model/w", "good"}});
  const test::TemporaryFolder folder;
  const std::string file = folder.write("j/pass-00000/model/w", "good");
  const std::string manifest = folder.write("j/pass-00000/MANIFEST", whole);
  const auto fetch_over = [&](const std::string& theirs) {
    fake.node(0).files["jobs/j/output/pass-00000/MANIFEST"] = theirs;
    fake.node(0).files["jobs/j/output/pass-00000/model/w"] = "evil";
    const auto stats = fetch_results(fake.context, session, "j", folder.path(), PassChoice{});
    EXPECT_TRUE(stats) << stats.error().message;
    return test::TemporaryFolder::read(file);
  };
  EXPECT_EQ(fetch_over(whole), "good") << "the node's file is another one";
  EXPECT_EQ(fetch_over(""), "good") << "the node's MANIFEST is cut off";
  EXPECT_EQ(test::TemporaryFolder::read(manifest), whole);
  EXPECT_NE(fake.err.str().find("pass-00000 of node n-0 is not fetched, its MANIFEST is missing or "
                                "damaged: the copy here is kept"),
            std::string::npos)
      << fake.err.str();
  EXPECT_EQ(fetch_over(test::manifest_of_another_format()), "good") << "it cannot be checked";
  EXPECT_EQ(fetch_over(test::snapshot_manifest(1, 9)), "evil") << "a whole one";
}

TEST(FetchResults, ADamagedSnapshotIsFetchedAndSaid) {
  const std::string whole =
      test::snapshot_manifest(1, 9, "", {{"model/w", "good"}, {"model/slots.json", "{}"}});
  const std::string turned = "\x13" + whole.substr(1);
  const std::string none = "its MANIFEST is missing or damaged";
  struct Case {
    std::string manifest, w, model, said;
  };
  for (const Case& one :
       {Case{whole, "good", "{}", ""}, Case{whole, "goop", "{}", "model/w is damaged"},
        Case{whole, "goo", "{}", "model/w is damaged"},
        Case{whole, "good", "[]", "model/slots.json is damaged"}, Case{turned, "good", "{}", none},
        Case{whole.substr(0, 40), "good", "{}", none},
        Case{test::manifest_of_another_format(), "good", "{}",
             fmt::format("MANIFEST: it has snapshot format 1, but this program, of release {}, "
                         "reads format {}",
                         kProgramVersion, snapshot::kSnapshotFormat)},
        Case{"written by a program of one's own", "goop", "[]", ""}}) {
    FakeCluster fake(1);
    ClusterSession session = fake.session();
    fake.node(0).hashes = true;
    const std::string there = "jobs/j/output/pass-00002/";
    fake.node(0).files[there + "MANIFEST"] = one.manifest;
    fake.node(0).files[there + "model/w"] = one.w;
    fake.node(0).files[there + "model/slots.json"] = one.model;
    const test::TemporaryFolder folder;
    for (const int time : {1, 2}) {
      const auto stats = fetch_results(fake.context, session, "j", folder.path(), PassChoice{});
      EXPECT_EQ(test::TemporaryFolder::read(folder / "j/pass-00002/model/w"), one.w);
      ASSERT_EQ(static_cast<bool>(stats), one.said.empty()) << one.said << time;
      if (stats) continue;
      EXPECT_EQ(stats.error().code, Errc::kData);
      EXPECT_EQ(stats.error().message, "pass-00002 of node n-0 is not whole there: " + one.said +
                                           "; it was fetched as it is")
          << time;
    }
  }
}

TEST(FetchResults, EachNodesLogsHaveAFolderAndTheirIndexStaysThere) {
  FakeCluster fake(2);
  ClusterSession session = fake.session();
  for (const char* name : {"train.log", "train.log.base", "train.log.times", "train.log.times.1"}) {
    fake.node(1).files["jobs/j/node_1/" + std::string(name)] = "x";
  }
  fake.node(1).files["jobs/j/output/pass-00000/w"] = "weights";
  const test::TemporaryFolder folder;
  const auto logs = fetch_results(fake.context, session, "j", folder.path(), std::nullopt);
  ASSERT_TRUE(logs);
  EXPECT_EQ(logs->files, 1U);
  EXPECT_TRUE(fs::exists(folder / "j/node_1/train.log"));
  EXPECT_FALSE(fs::exists(folder / "j/pass-00000"));
  EXPECT_FALSE(fetch_results(fake.context, session, "../j", folder.path(), std::nullopt));
}

// A job of two trainers on two nodes that saved three passes; trainer 0 is on the second node.
class FetchPasses : public testing::Test {
 protected:
  FetchPasses() {
    for (const char* name : {"pass-00000", "pass-00001", "pass-00001-000007", "pass-00002"}) {
      save(1, std::string(name) + "/MANIFEST", manifest_);
      save(1, std::string(name) + "/w", name);
    }
    for (const std::size_t trainer : {0, 1}) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = "trainer-" + std::to_string(trainer);
      status.state = remote::ProcessState::kExited;
      status.started_unix_ms = 7;
      status.log = "jobs/j/node_1/train.log";
      fake_.node(1 - trainer).processes.push_back(status);
    }
    fake_.context.directory = folder_.path();
  }
  void save(std::size_t node, const std::string& file, const std::string& text) {
    fake_.node(node).files["jobs/j/output/" + file] = text;
  }
  void tested(int pass, const std::string& numbers) {
    fake_.node(1).files["jobs/j/node_1/metrics.jsonl"] +=
        "{\"kind\":\"test\",\"pass\":" + std::to_string(pass) + ",\"samples\":1," + numbers + "}\n";
  }
  Result<FetchStats> fetch(const std::string& passes) {
    ClusterSession session = fake_.session();
    return fetch_results(fake_.context, session, "j", folder_.path(), *parse_pass_choice(passes));
  }
  std::string here(const std::string& name) {
    return test::TemporaryFolder::read(folder_ / ("j/" + name));
  }
  // The snapshots that a fetch of `passes` brings.
  std::string brought(const std::string& passes) {
    fs::remove_all(folder_ / "j");
    const auto stats = fetch(passes);
    if (!stats) return stats.error().message;
    std::string names;
    for (const char* name : {"pass-00000", "pass-00001", "pass-00001-000007", "pass-00002"}) {
      if (fs::exists(fs::path(folder_ / "j") / name / "w")) names += std::string(name + 9) + " ";
    }
    return names;
  }
  bool said(const std::string& text) { return fake_.err.str().find(text) != std::string::npos; }

  const std::string manifest_ = test::snapshot_manifest(1, 9);
  FakeCluster fake_{2};
  test::TemporaryFolder folder_;
};

TEST_F(FetchPasses, BringsThePassesAskedFor) {
  EXPECT_EQ(brought("last"), "2 ");
  EXPECT_EQ(brought("all"), "0 1 1-000007 2 ");
  EXPECT_EQ(brought("pass-00001"), "1 1-000007 ");
  EXPECT_EQ(brought("pass-00007"), "the nodes have no snapshot of pass 8 (pass-00007) of job j");
  EXPECT_EQ(brought("best"), "job j has no test results, so the best pass is unknown");
  const auto stats = fetch("last");
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->left,
            (std::vector<std::string>{"pass-00000", "pass-00001-000007", "pass-00001"}));
}

TEST_F(FetchPasses, SnapshotsThatAreHereAreNotToBeFetched) {
  const auto noted = [this](const Result<FetchStats>& stats) {
    fake_.err.str("");
    note_left_snapshots(fake_.context, "j", folder_.path(), *stats);
    return fake_.err.str();
  };
  EXPECT_EQ(noted(fetch("last"))
                .find("3 snapshots (" + std::to_string(3 * manifest_.size() + 37) +
                      " B) stay on the nodes; to fetch: paddlectl "
                      "fetch --pass all --job j"),
            0U)
      << fake_.err.str();
  ASSERT_TRUE(fetch("all"));
  const auto again = fetch("last");
  EXPECT_EQ(noted(again), "");
  EXPECT_EQ(again->left.size(), 3U) << "they do stay there";
  fs::remove(folder_ / "j/pass-00001/w");
  EXPECT_EQ(noted(fetch("last")).find("1 snapshot (10 B) stays on the nodes; "), 0U)
      << fake_.err.str();
}

TEST_F(FetchPasses, TheBestIsThatOfTheLowestHeldOutCost) {
  tested(0, "\"cost\":0.5,\"auc\":0.9");
  tested(1, "\"cost\":0.1,\"auc\":0.9");  // in the middle of the pass
  tested(1, "\"cost\":0.7,\"auc\":0.9");
  tested(2, "\"cost\":0.6,\"auc\":0.9");
  EXPECT_EQ(brought("best"), "0 ");
  EXPECT_EQ(brought(""), "0 2 ") << "as train does";
  std::erase_if(fake_.node(1).files, [](const auto& file) {
    return file.first.starts_with("jobs/j/output/pass-00000/");
  });
  EXPECT_EQ(brought(""), "2 ");
  EXPECT_EQ(brought("best"), "2 ");
  EXPECT_TRUE(said(
      "the snapshot of the best pass, pass 1 (pass-00000), is no longer on the nodes; fetching "
      "pass-00002, the best that is left; "))
      << fake_.err.str();
}

TEST_F(FetchPasses, TheBestIsWhatTheJobTakesForIt) {
  tested(0, "\"cost\":0.5,\"auc\":0.7");
  tested(1, "\"cost\":0.7,\"auc\":0.9");
  save(1, "BEST", "pass-00001\n");
  save(0, "BEST", "pass-00000\n");  // of copies
  save(1, "TESTS", "pass=0\n");
  save(0, "TESTS", "pass=1\n");
  EXPECT_EQ(brought("best"), "1 ");
  EXPECT_EQ(brought(""), "1 2 ");
  EXPECT_EQ(here("BEST"), "pass-00001\n");
  EXPECT_EQ(here("TESTS"), "pass=0\n");
  EXPECT_FALSE(said("BEST")) << fake_.err.str();
  save(1, "BEST", "no pass\n");
  EXPECT_EQ(brought("best"), "0 ");
}

TEST_F(FetchPasses, WithoutACostTheFirstEvaluatorDecides) {
  for (const int pass : {0, 1, 2}) tested(pass, pass == 1 ? "\"auc\":0.9" : "\"auc\":0.8");
  EXPECT_EQ(brought("best"), "1 ");
  fake_.node(1).files["jobs/j/node_1/metrics.jsonl"].clear();
  for (const int pass : {0, 1, 2}) tested(pass, pass == 0 ? "\"rmse\":0.8" : "\"rmse\":0.9");
  EXPECT_EQ(brought("best"), "0 ");
  fake_.node(1).files["jobs/j/node_1/metrics.jsonl"].clear();
  for (const int pass : {0, 1, 2}) {
    tested(pass, fmt::format(R"("clicks":0.{},"higher_is_better":"clicks")", pass == 1 ? 9 : 8));
  }
  EXPECT_EQ(brought("best"), "1 ");
}

TEST_F(FetchPasses, ADeltaComesWithTheSnapshotItIsBasedOn) {
  save(1, "pass-00002/MANIFEST", test::snapshot_manifest(3, 9, "pass-00000"));
  EXPECT_EQ(brought("last"), "0 2 ");
}

TEST_F(FetchPasses, AFileOfSeveralNodesIsThatOfTheLowestTrainer) {
  save(0, "model.pt", "of trainer 1");
  save(1, "model.pt", "of trainer 0");
  save(0, "pass-00002/w", "without a MANIFEST");
  save(0, "scores-1.txt", "1");
  const auto stats = fetch("last");
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(here("model.pt"), "of trainer 0");
  EXPECT_EQ(here("scores-1.txt"), "1");
  EXPECT_EQ(here("pass-00002/w"), "pass-00002");
  EXPECT_TRUE(said("1 file saved on several nodes under one name")) << fake_.err.str();
  EXPECT_TRUE(said(": model.pt;")) << fake_.err.str();
}

TEST_F(FetchPasses, ANodeWritesUnderItsOwnNamesOnly) {
  ASSERT_TRUE(fetch("all"));
  folder_.write("j/report.html", "report");
  folder_.write("j/node_1/train.log", "log");
  folder_.write("j/tensorboard/train/e.paddlectl", "scalars");
  for (const char* name : {"report.html", "node_1/train.log", "node_7/x", ".bashrc", "a/.b/c",
                           "job.toml", "processes.jsonl", "tensorboard/train/e.paddlectl"}) {
    save(0, name, "a lie");
  }
  save(0, "tensorboard/train/own", "of the program");
  save(0, "pass-00001/MANIFEST", "a lie");
  save(0, "pass-00009/MANIFEST", "a lie");
  const auto stats = fetch("all");
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(here("report.html"), "report");
  EXPECT_EQ(here("node_1/train.log"), "log");
  EXPECT_EQ(here("tensorboard/train/e.paddlectl"), "scalars");
  EXPECT_EQ(here("tensorboard/train/own"), "of the program");
  EXPECT_NE(here("pass-00001/MANIFEST"), "a lie");
  for (const char* name : {"node_7", ".bashrc", "a", "job.toml", "pass-00009"})
    EXPECT_FALSE(fs::exists(fs::path(folder_ / "j") / name)) << name;
  EXPECT_TRUE(said("8 files not fetched: .bashrc of node n-0, a/.b/c of node n-0, "))
      << fake_.err.str();
}

// As Lightning's last.ckpt and the `latest` of many scripts.
TEST_F(FetchPasses, ALinkToAFetchedFileIsFetchedAndOthersAreNamed) {
  using Kind = remote::FileEntry::Kind;
  const auto add = [&](std::size_t node, const std::string& path, Kind kind,
                       const std::string& link = "") {
    fake_.node(node).other_kinds.push_back({"jobs/j/output/" + path, 0, "", false, kind, link});
  };
  save(1, "ckpt/deep/w.pt", "weights");
  save(0, "ckpt/w-1.pt", "of the other node");
  add(1, "last.ckpt", Kind::kLink, "ckpt/deep/w.pt");
  add(1, "ckpt/latest", Kind::kLink, "./deep/");
  add(1, "ckpt/deep/up", Kind::kLink, "../../ckpt/deep/w.pt");
  add(0, "last.ckpt", Kind::kLink, "ckpt/w-1.pt");
  add(1, "logs/empty", Kind::kEmptyFolder);
  add(0, "logs/empty", Kind::kEmptyFolder);
  add(1, "ckpt/deep", Kind::kEmptyFolder);
  add(1, ".cache", Kind::kEmptyFolder);
  for (const char* target :
       {"/scratch/w.pt", "/etc/passwd", "../../outside", "ckpt/deep/../deep/w.pt", "ckpt/w-1.pt",
        "nowhere", ".", "..", "", "pass-00000/w", "a\x1b[2J", "ckpt//deep/w.pt", "node_1"}) {
    add(1, "away/" + std::to_string(fake_.node(1).other_kinds.size()), Kind::kLink, target);
  }
  add(1, "pass-00000/old", Kind::kLink, "w");
  add(1, "pass-00002/own", Kind::kLink, "w");
  add(1, "node_1/train.log", Kind::kLink, "../ckpt/deep/w.pt");
  add(1, "a\\x0ab", Kind::kOddName);
  for (const int time : {1, 2}) {
    const auto stats = fetch("last");
    ASSERT_TRUE(stats) << time << stats.error().message;
    const fs::path job = folder_ / "j";
    EXPECT_EQ(fs::read_symlink(job / "last.ckpt"), "ckpt/deep/w.pt");
    EXPECT_EQ(here("last.ckpt"), "weights");
    EXPECT_EQ(here("ckpt/latest/w.pt"), "weights");
    EXPECT_EQ(here("ckpt/deep/up"), "weights");
    EXPECT_EQ(here("pass-00002/own"), "pass-00002");
    EXPECT_TRUE(fs::is_directory(job / "logs/empty"));
    for (const char* name : {".cache", "away", "pass-00000", "node_1", "a\\x0ab"})
      EXPECT_FALSE(fs::exists(fs::symlink_status(job / name))) << name;
  }
  EXPECT_TRUE(said("13 links not fetched: away/")) << fake_.err.str();
  EXPECT_TRUE(said(" of node n-1 to /scratch/w.pt, ")) << fake_.err.str();
  EXPECT_TRUE(said("2 files not fetched: node_1/train.log of node n-1, a\\x0ab of node n-1; "))
      << fake_.err.str();
  EXPECT_TRUE(said("1 file saved on several nodes under one name")) << fake_.err.str();
}

TEST_F(FetchPasses, AProgramThatWasSavedStaysExecutable) {
  save(1, "run.sh", "#!/bin/sh\n");
  fake_.node(1).executable = {"jobs/j/output/run.sh"};
  ASSERT_TRUE(fetch("last"));
  std::map<std::string, bool> executable;
  for (const remote::FetchItem& item : fake_.node(1).fetched)
    executable[item.local_path] = item.executable;
  EXPECT_TRUE(executable.at("run.sh"));
  EXPECT_FALSE(executable.at("pass-00002/w"));
}

// A workspace that was sent to us may bring an output folder of its own.
TEST_F(FetchPasses, NothingIsWrittenThroughALinkOfTheWorkspace) {
  const test::TemporaryFolder outside;
  const auto output = [&](const std::string& name) {
    ClusterSession session = fake_.session();
    return fetch_results(fake_.context, session, "j", folder_ / name, *parse_pass_choice("all"));
  };
  save(1, "keys/authorized_keys", "a key");
  fs::create_directory(folder_ / "in");
  fs::create_directories(folder_ / "deep/j");
  fs::create_directory_symlink(outside.path(), folder_ / "out");
  fs::create_directory_symlink(outside.path(), folder_ / "in/j");
  fs::create_directory_symlink(outside.path(), folder_ / "deep/j/keys");
  fs::create_directories(folder_ / "logs/j");
  fs::create_directory_symlink(outside.path(), folder_ / "logs/j/node_1");
  fake_.node(1).files["jobs/j/node_1/train.log"] = "log";
  for (const char* const name : {"out", "in", "deep", "logs"}) {
    const auto stats = output(name);
    ASSERT_FALSE(stats) << name;
    EXPECT_NE(stats.error().message.find("is a link, and results are not written through links"),
              std::string::npos)
        << stats.error().message;
  }
  EXPECT_TRUE(fs::is_empty(outside.path()));
  // One that the user names outright is his own.
  const test::TemporaryFolder own;
  fs::create_directory_symlink(outside.path(), own / "link");
  ClusterSession session = fake_.session();
  EXPECT_TRUE(fetch_results(fake_.context, session, "j", own / "link", *parse_pass_choice("all")));
  EXPECT_EQ(test::TemporaryFolder::read(outside / "j/keys/authorized_keys"), "a key");
}

// In a folder that all may write to, another user may make the output folder first.
TEST_F(FetchPasses, NothingIsWrittenIntoAFolderOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  constexpr uid_t kNobody = 65534;
  for (const char* const name : {"j", "j/node_1"}) {
    fs::create_directories(folder_ / name);
    ASSERT_EQ(::chown((folder_ / name).c_str(), kNobody, kNobody), 0);
    fake_.node(1).files["jobs/j/node_1/train.log"] = "log";
    const auto stats = fetch("last");
    ASSERT_FALSE(stats) << name;
    EXPECT_NE(stats.error().message.find("belongs to another user"), std::string::npos)
        << stats.error().message;
    EXPECT_FALSE(fs::exists(folder_ / "j/node_1/train.log"));
    // The user behind sudo is no stranger.
    ::setenv("SUDO_UID", "65534", 1);
    EXPECT_TRUE(fetch("last")) << name;
    ::unsetenv("SUDO_UID");
    fs::remove_all(folder_ / "j");
  }
}

TEST_F(FetchPasses, NothingIsWrittenBelowAFolderThatOthersMayWriteTo) {
  fake_.node(1).files["jobs/j/node_1/train.log"] = "log";
  const test::TemporaryFolder shared;
  const auto fetch_into = [&](const std::string& output) {
    ClusterSession session = fake_.session();
    return fetch_results(fake_.context, session, "j", output, *parse_pass_choice("last"));
  };
  const auto refused = [&](const std::string& output, const char* why) {
    const auto stats = fetch_into(output);
    ASSERT_FALSE(stats) << output;
    EXPECT_EQ(stats.error().code, Errc::kAuth);
    EXPECT_NE(stats.error().message.find(why), std::string::npos) << stats.error().message;
    EXPECT_NE(stats.error().hint.find("--output"), std::string::npos);
  };
  // Its owner, and whoever may write there, could exchange the job's folder for a link.
  const std::string open = shared.make("open");
  ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
  refused(open, "can be written by all users");
  refused(open + "/not/there/yet", "can be written by all users");
  EXPECT_TRUE(fs::is_empty(open));
  fs::create_directory_symlink(open, shared / "link");
  refused(shared / "link", "can be written by all users");
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  EXPECT_TRUE(fetch_into(open)) << "as in /tmp, nobody may touch what is another's";
  EXPECT_TRUE(fs::exists(open + "/j/node_1/train.log"));
  if (::geteuid() != 0) return;  // only root gives folders away
  const std::string group = shared.make("group");
  ASSERT_EQ(::chown(group.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(group.c_str(), 0775), 0);
  refused(group, "can be written by its group");
  const std::string theirs = shared.make("theirs");
  ASSERT_EQ(::chown(theirs.c_str(), 65534, 65534), 0);
  refused(theirs, "belongs to user 65534");
}

TEST_F(FetchPasses, NoHiddenFileComesAmongTheLogs) {
  auto& files = fake_.node(1).files;
  files["jobs/j/node_1/train.log"] = "log";
  files["jobs/j/node_1/.paddlectl/current"] = "a lie";
  files["jobs/j/node_1/.git/config"] = "a lie";
  files["jobs/j/node_1/a/.b"] = "a lie";
  ASSERT_TRUE(fetch("last"));
  EXPECT_EQ(here("node_1/train.log"), "log");
  for (const char* name : {"node_1/.paddlectl", "node_1/.git", "node_1/a"})
    EXPECT_FALSE(fs::exists(fs::path(folder_ / "j") / name)) << name;
}

TEST_F(FetchPasses, ANodeCannotPutAFolderWhereAnotherHasAFile) {
  save(1, "model", "of trainer 0");
  save(0, "model/inside", "a lie");
  save(1, "folder/inside", "of trainer 0");
  save(0, "folder", "a lie");
  const auto stats = fetch("last");
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(here("model"), "of trainer 0");
  EXPECT_EQ(here("folder/inside"), "of trainer 0");
}

TEST_F(FetchPasses, TwoNodesThatClaimOneTrainerGiveNoResults) {
  save(0, "model.pt", "a lie");
  fake_.node(0).processes.push_back(fake_.node(1).processes[0]);
  const auto stats = fetch("last");
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().message, "nodes n-0 and n-1 both report that they run trainer-0");
  EXPECT_FALSE(fs::exists(folder_ / "j/model.pt"));
}

TEST_F(FetchPasses, WhileANodeIsSilentTheOthersReplaceNothing) {
  save(1, "model.pt", "of trainer 0");
  ASSERT_TRUE(fetch("last"));
  save(0, "model.pt", "a lie");
  save(0, "scores-1.txt", "1");
  save(0, "pass-00002/MANIFEST", "a lie");
  fake_.node(1).unreachable = true;
  std::ignore = fetch("last");
  EXPECT_EQ(here("model.pt"), "of trainer 0");
  EXPECT_EQ(here("scores-1.txt"), "1") << "but what is new is welcome";
  EXPECT_NE(here("pass-00002/MANIFEST"), "a lie");
}

TEST_F(FetchPasses, ANameThatIsTooLongForAFileHereIsAnError) {
  save(0, std::string(300, 'n'), "too long");
  fake_.node(1).unreachable = true;
  EXPECT_FALSE(fetch("last")) << "an error, and no exception";
}

TEST_F(FetchPasses, AProgramsOwnFoldersOfPassesNeedNoManifest) {
  std::erase_if(fake_.node(1).files,
                [](const auto& file) { return file.first.ends_with("/MANIFEST"); });
  EXPECT_EQ(brought("last"), "2 ");
}

TEST_F(FetchPasses, WithoutRoomNothingIsFetched) {
  fake_.node(1).claimed_sizes["jobs/j/output/pass-00002/w"] = 1ULL << 60U;
  const auto stats = fetch("last");
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Errc::kResource);
  EXPECT_EQ(stats.error().message.find("node n-1: no room for its 1153 PB: j has "), 0U)
      << stats.error().message;
  EXPECT_NE(
      stats.error().message.find(" too little; the largest file is pass-00002/w with 1153 PB"),
      std::string::npos)
      << stats.error().message;
  for (const char* file : {"pass-00002/w", "pass-00002/MANIFEST"})
    fake_.node(1).claimed_sizes["jobs/j/output/" + std::string(file)] = (1ULL << 63U) + 5;
  EXPECT_FALSE(fetch("last")) << "their sum does not wrap around";
  EXPECT_FALSE(fs::exists(folder_ / "j/pass-00002/w"));
  ASSERT_TRUE(fetch("pass-00001"));
  EXPECT_TRUE(said("fetching 4 files, ")) << fake_.err.str();
}

TEST_F(FetchPasses, AFetchOfAnEndedJobIsRecordedOnItsNode) {
  ASSERT_TRUE(fetch("last"));
  ASSERT_TRUE(fetch("pass-00000"));
  EXPECT_EQ(fake_.node(1).files["jobs/j/fetched"],
            fmt::format("7\n{0} pass-00000/MANIFEST\n10 pass-00000/w\n"
                        "{0} pass-00002/MANIFEST\n10 pass-00002/w\n",
                        manifest_.size()));
  EXPECT_FALSE(fake_.node(0).files.contains("jobs/j/fetched")) << "it had nothing to give";
  fake_.node(1).processes[0].state = remote::ProcessState::kRunning;
  ASSERT_TRUE(fetch("pass-00001"));
  EXPECT_EQ(fake_.node(1).files["jobs/j/fetched"].find("pass-00001"), std::string::npos)
      << "its files may still change";
}

// The other node has copies, of a delta as a full one, and one that was never fetched.
TEST_F(FetchPasses, ACopyOnAnotherNodeIsFetchedWithTheSnapshot) {
  for (const char* file : {"pass-00001/MANIFEST", "pass-00001/w", "pass-00002/MANIFEST"})
    save(0, file, "of the copy");
  save(0, "pass-00002/full", "of the copy");
  ASSERT_TRUE(fetch("last"));
  EXPECT_EQ(here("pass-00002/w"), "pass-00002");
  EXPECT_FALSE(fs::exists(folder_ / "j/pass-00002/full"));
  EXPECT_EQ(fake_.node(0).files["jobs/j/fetched"],
            "7\n11 pass-00002/MANIFEST\n11 pass-00002/full\n");
  EXPECT_FALSE(said("under one name")) << fake_.err.str();
  EXPECT_FALSE(said("taken from")) << fake_.err.str();
}

TEST_F(FetchPasses, TheCopiesOfAnotherNodeAreNamed) {
  save(0, "pass-00002/MANIFEST", test::snapshot_manifest(1, 9));
  fake_.node(1).files.clear();
  ASSERT_TRUE(fetch("last"));
  EXPECT_TRUE(
      said("snapshots are taken from node n-0: node n-1 of trainer 0 has no complete snapshot as "
           "new as this one"))
      << fake_.err.str();
  fake_.node(1).processes.clear();
  ASSERT_TRUE(fetch("last"));
  EXPECT_TRUE(said("no node has trainer 0")) << fake_.err.str();
}

TEST(SnapshotName, IsOrderedByProgressAndStrict) {
  EXPECT_LT(*parse_snapshot_name("pass-00001-000009"), *parse_snapshot_name("pass-00001"));
  EXPECT_LT(*parse_snapshot_name("pass-00001"), *parse_snapshot_name("pass-00002-000001"));
  EXPECT_LT(*parse_snapshot_name("pass-99999"), *parse_snapshot_name("pass-100000"));
  for (const char* name : {"pass-1", "pass-00001.tmp", "pass-00001-", "pass-", "best"})
    EXPECT_FALSE(parse_snapshot_name(name)) << name;
  for (const char* text : {"first", "-1", "1x", "99999999999999999999"})
    EXPECT_FALSE(parse_pass_choice(text)) << text;
}

TEST(PassChoice, IsANameAndNoNumberWhichMayMeanTwoPasses) {
  EXPECT_EQ(parse_pass_choice("pass-00002")->pass, 2U);
  EXPECT_EQ(parse_pass_choice("pass-00002-000040")->pass, 2U);
  const std::map<std::string, std::string> hints{
      {"0", "write pass-00000 for pass 1"},
      {"2", "write pass-00001 for pass 2, or pass-00002 for pass 3"},
      {"00002", "write pass-00001 for pass 2, or pass-00002 for pass 3"},
      {"100000", "write pass-99999 for pass 100000, or pass-100000 for pass 100001"}};
  for (const auto& [number, hint] : hints) {
    const auto refused = parse_pass_choice(number);
    ASSERT_FALSE(refused) << number;
    EXPECT_EQ(refused.error().message,
              "--pass " + number + " is ambiguous: a number may mean two passes");
    EXPECT_EQ(refused.error().hint, hint);
  }
}

TEST(ShownPath, IsRelativeBelowTheCurrentDirectoryExceptInJson) {
  FakeCluster fake(1);
  fake.context.directory = "/home/me";
  EXPECT_EQ(shown_path(fake.context, "/home/me/output/j"), "output/j");
  EXPECT_EQ(shown_path(fake.context, "/home/other/../j"), "/home/j");
  fake.console.set_json(true);
  EXPECT_EQ(shown_path(fake.context, "/home/me/output/j"), "/home/me/output/j");
}

TEST_F(FetchPasses, WhatCannotBeRecordedIsALineForEachNode) {
  save(0, "scores-1.txt", "1");
  for (const char* const node : {"n-0", "n-1"})
    fs::create_directories(folder_ / ("j/.fetched-" + std::string(node)));
  ASSERT_TRUE(fetch("last"));
  EXPECT_FALSE(said("\\x0a")) << fake_.err.str();
  EXPECT_NE(fake_.err.str().find("not recorded as fetched: "),
            fake_.err.str().rfind("not recorded as fetched: "))
      << fake_.err.str();
}

}  // namespace
}  // namespace paddle::cli
