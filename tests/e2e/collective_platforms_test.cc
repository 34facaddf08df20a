// `paddlectl render` of jobs whose trainers keep dense parameters among themselves.
#include "tests/e2e/platforms_test_fixture.h"

namespace paddle::test {
namespace {

const std::string kCollective = "--set=strategy.dense=collective";

class CollectivePlatforms : public PlatformsFixture {
 protected:
  // The words' tables are sparse, and so on pservers.
  void write_job(bool has_table) {
    if (has_table)
      job_.write_ngram(2, 60);
    else
      job_.write_dense_ngram({70, 25});
  }
  // The values of a run's second pass, which has a secret no more.
  std::string values(const std::string& prefix) {
    expect_trained(prefix, 1);
    std::string found;
    for (const auto& entry : fs::recursive_directory_iterator(folder() / "output")) {
      if (entry.path().filename() != "_output.w0") continue;
      if (entry.path().parent_path().filename() == "pass-00001")
        found = TemporaryFolder::read(entry.path());
    }
    fs::rename(folder() / "output", folder() / fmt::format("output-{}", ++runs_));
    return found;
  }
  void write_program(const std::string& path, const std::string& text) {
    folder().write(path, text);
    fs::permissions(folder() / path, fs::perms::owner_all);
  }

  int runs_ = 0;
};

TEST_F(CollectivePlatforms, OpenMpiRunsThemWithTheBitsOfSync) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "no mpirun here: scripts/deps optional";
  for (const bool has_table : {false, true}) {
    write_job(has_table);
    const auto train = [&](const std::string& pservers, const std::string& strategy) {
      const std::string script =
          render("openmpi", {"--pservers=" + pservers, "--set=train.passes=2", strategy});
      const auto [code, text] = run_under_openmpi(script, 6);
      EXPECT_EQ(code, 0) << text;
      EXPECT_NE(text.find("trainer 1 of 2"), text.npos) << text;
      return values("openmpi-");
    };
    const std::string sync = train("2", "--set=strategy.dense=sync");
    EXPECT_FALSE(sync.empty());
    EXPECT_EQ(train(has_table ? "2" : "0", kCollective), sync) << has_table;
  }
}

const std::string kNodeGroups = "--set=strategy.node_groups=true";
constexpr const char* kOneSum = "trainers 0, 1 of this node push one sum";

// On one machine these are the bits of sync.
TEST_F(CollectivePlatforms, OpenMpiRunsNodeGroups) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "no mpirun here: scripts/deps optional";
  write_job(true);
  const auto train = [&](const std::string& groups) {
    const std::string script =
        render("openmpi", {"--pservers=2", "--set=train.passes=2", "--set=strategy.dense=sync",
                           "--set=strategy.node_groups=" + groups});
    const auto [code, text] = run_under_openmpi(script, 7);
    EXPECT_EQ(code, 0) << text;
    EXPECT_EQ(text.find(kOneSum) != text.npos, groups == "true") << text;
    return values("openmpi-");
  };
  const std::string sync = train("false");
  EXPECT_FALSE(sync.empty());
  EXPECT_EQ(train("true"), sync);
}

TEST_F(CollectivePlatforms, SlurmRunsNodeGroups) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  write_job(true);
  const std::string script =
      render("slurm", {"--pservers=1", "--set=train.passes=2", "--set=data.test=''",
                       "--set=strategy.dense=sync", kNodeGroups});
  const auto [code, text] = run_under_slurm(script, 5);
  if (code == 77) GTEST_SKIP() << text;
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find(kOneSum), text.npos) << text;
  EXPECT_FALSE(values("slurm-").empty());
}

// Trainers of a node share an address; the dense ports stay with the pservers.
TEST_F(CollectivePlatforms, TrainersOfANodeGroupAreKnownByTheirHost) {
  write_job(true);
  write_program("bin/mpirun", "#!/bin/sh\necho mpirun \"$@\"\n");
  write_program("bin/getent", "#!/bin/sh\necho \"10.0.0.${2#h} STREAM $2\"\n");
  const std::string script =
      render("openmpi", {"--pservers=1", "--set=strategy.dense=sync", kNodeGroups}, 4);
  const auto [code, text] = run({"/usr/bin/env", "PATH=" + (folder() / "bin") + ":/usr/bin:/bin",
                                 "HOSTS=h1,h2", "/bin/sh", script});
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find(" --trainers=10.0.0.2:7164,10.0.0.1:7166,10.0.0.2:7165,10.0.0.1:7167 "),
            text.npos)
      << text;
  EXPECT_NE(text.find(" --ports_num=1 --ports_num_for_sparse=1 --job_tag=ngram "), text.npos)
      << text;
  const auto [refused, why] =
      run({PADDLECTL_PROGRAM, "render", "kubernetes", folder().path(), "--trainers=4",
           "--pservers=1", "--set=strategy.dense=sync", kNodeGroups});
  EXPECT_EQ(refused, 2) << why;
  EXPECT_NE(why.find("pods of one node share neither address nor memory"), why.npos) << why;
}

TEST_F(CollectivePlatforms, SlurmRunsOneWithTablesOnPservers) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  write_job(true);
  const std::string script =
      render("slurm", {"--pservers=2", "--set=train.passes=2", "--set=data.test=''", kCollective});
  const auto [code, text] = run_under_slurm(script, 4);
  if (code == 77) GTEST_SKIP() << text;
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("trainer 0 of 2"), text.npos) << text;
  EXPECT_NE(text.find("trainer 1 of 2"), text.npos) << text;
  EXPECT_FALSE(values("slurm-").empty());
}

// On two hosts, with the ports of a cluster file: those of pservers, none of them dense, then those
// of trainers.
TEST_F(CollectivePlatforms, TrainersListenAfterThePserversOfTheirHost) {
  write_job(true);
  write_program("bin/mpirun", "#!/bin/sh\necho mpirun \"$@\"\n");
  write_program("bin/getent", "#!/bin/sh\necho \"10.0.0.${2#h} STREAM $2\"\n");
  const std::string cluster = folder().write(
      "lab.toml",
      "port = 9000\nports_num = 3\nports_num_for_sparse = 2\ntransport = \"always\"\n"
      "[[node]]\nhost = \"h\"\n");
  const std::string script =
      render("openmpi", {"--pservers=1", "--cluster=" + cluster, kCollective}, 3);
  const auto [code, text] = run({"/usr/bin/env", "PATH=" + (folder() / "bin") + ":/usr/bin:/bin",
                                 "HOSTS=h1,h2", "/bin/sh", script});
  EXPECT_EQ(code, 0) << text;
  const std::string both =
      " --ports_num=0 --ports_num_for_sparse=2 --job_tag=ngram --transport=always";
  EXPECT_NE(text.find(" -np 1 "), text.npos) << text;
  EXPECT_NE(text.find(" pserver --rank_from=openmpi --pservers=10.0.0.1:9000 --key_file="),
            text.npos)
      << text;
  EXPECT_NE(text.find(both + " : -np 3 "), text.npos) << text;
  EXPECT_NE(text.find(" train --rank_from=openmpi --pservers=10.0.0.1:9000 --key_file="), text.npos)
      << text;
  EXPECT_NE(text.find(both + " --connect_timeout=60 "), text.npos) << text;
  EXPECT_NE(text.find(" --trainers=10.0.0.2:9000,10.0.0.1:9002,10.0.0.2:9001 "), text.npos) << text;
}

TEST_F(CollectivePlatforms, PodsKnowEachOther) {
  write_job(false);
  if (run({"/usr/bin/python3", "-c", "import kubernetes, yaml"}).first != 0)
    GTEST_SKIP() << "no python3-kubernetes here: scripts/deps optional";
  write_program("bin/getent", "#!/bin/sh\nname=${2%%.*}\necho \"10.1.0.${name##*-} STREAM $2\"\n");
  write_program("bin/paddle", "#!/bin/sh\necho paddle \"$@\"\n");
  const std::string key = folder().write("job.key", std::string(32, 'k'));
  const auto pod = [&](const std::string& pservers, const std::string& index) {
    const std::string manifest = render("kubernetes", {"--pservers=" + pservers, kCollective});
    const auto [faults, why] = run({"/usr/bin/python3", KUBERNETES_FAULTS, manifest});
    EXPECT_EQ(faults, 0) << why;
    auto [code, shell] = run({"/usr/bin/python3", "-c", R"(
import sys, yaml
secret, service, job = yaml.safe_load_all(open(sys.argv[1]))
pod = job["spec"]["template"]["spec"]
container, = pod["containers"]
ports = [7164] if sys.argv[2] == "0" else [7164, 7165]
assert [p["port"] for p in service["spec"]["ports"]] == ports, service
assert [p["containerPort"] for p in container["ports"]] == ports, container
assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
assert any("secret" in v for v in pod["volumes"])
print(container["args"][0])
)",
                              manifest, pservers});
    EXPECT_EQ(code, 0) << shell;
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"/secret/job.key", key}, {"/run/paddle", folder() / "run"}}) {
      for (std::size_t at = 0; (at = shell.find(from, at)) != shell.npos; at += to.size())
        shell.replace(at, from.size(), to);
    }
    fs::create_directories(folder() / "run");
    return run({"/usr/bin/env", "--chdir=" + folder().path(),
                "PATH=" + (folder() / "bin") + ":/usr/bin:/bin", "JOB_COMPLETION_INDEX=" + index,
                "JOB_PATH=" + folder().path(), "/bin/sh", "-c", shell})
        .second;
  };
  const std::string alone = pod("0", "1");
  EXPECT_TRUE(alone.starts_with("paddle train --job_tag=ngram 10.1.0.0,10.1.0.1 ")) << alone;
  EXPECT_NE(alone.find(" --trainer_id=1 --pservers= "), alone.npos) << alone;
  EXPECT_NE(alone.find(" --ports_num=0 "), alone.npos) << alone;
  EXPECT_NE(alone.find(" --trainers=10.1.0.0:7164,10.1.0.1:7164 "), alone.npos) << alone;
  write_job(true);
  const std::string beside = pod("1", "1");
  EXPECT_NE(beside.find(" --pservers=10.1.0.0:7164 "), beside.npos) << beside;
  EXPECT_NE(beside.find(" --trainers=10.1.0.0:7165,10.1.0.1:7165 "), beside.npos) << beside;
  EXPECT_EQ(beside.find("paddle pserver "), beside.npos) << beside;
  const std::string both = pod("1", "0");
  const std::size_t server = both.find("paddle pserver ");
  ASSERT_NE(server, both.npos) << both;
  const std::string line = both.substr(server, both.find('\n', server) - server);
  EXPECT_EQ(line.find("--trainers"), line.npos) << both;
}

}  // namespace
}  // namespace paddle::test
