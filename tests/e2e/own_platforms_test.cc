// `paddlectl render` of a job whose trainers are a program of the user's own: the scripts, with
// stand-ins for the platforms.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class OwnPlatforms : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("own/job.toml", "[trainer]\ncommand = [\"./say\", \"it's\"]\n");
    write_program(
        "own/say",
        "#!/bin/sh\necho \"$1: $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, "
        "$PADDLE_CURRENT_ENDPOINT of $PADDLE_TRAINER_ENDPOINTS, $MASTER_ADDR $MASTER_PORT,"
        " pservers <$PADDLE_PSERVERS_IP_PORT_LIST>\"\n"
        "echo >> \"$PADDLE_INIT_SAVE_DIR/saved\"\n");
  }
  void write_program(const std::string& path, const std::string& text) {
    folder_.write(path, text);
    fs::permissions(folder_ / path, fs::perms::owner_all);
  }
  std::string run(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/env", "-C", folder_.path(),
                                     "PATH=" + (folder_ / "bin") + ":/usr/bin:/bin"});
    Process process(command, folder_ / fmt::format("run-{}.txt", runs_++));
    EXPECT_EQ(process.wait(), 0) << process.output();
    return process.output();
  }
  std::string render(const std::string& platform, const std::string& pservers,
                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{
        PADDLECTL_PROGRAM, "render", platform, "own", "--trainers=3", "--pservers=" + pservers};
    command.insert(command.end(), more.begin(), more.end());
    return folder_.write(platform, run(command));
  }
  // Results of three trainers in one folder of output/.
  int saved() const {
    int lines = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "own/output")) {
      EXPECT_NE(entry.path().filename(), "job.key") << "nobody needs one";
      if (entry.path().filename() == "saved")
        lines += static_cast<int>(fs::file_size(entry.path()));
    }
    return lines;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

constexpr const char* kPlatformOfTwoHosts =
    "it's: 0 of 3, 0 of 2, 10.0.0.1:9000 of 10.0.0.1:9000,10.0.0.2:9000,10.0.0.1:9001, "
    "10.0.0.1 9002, pservers <>\n"
    "it's: 1 of 3, 0 of 1, 10.0.0.2:9000 of 10.0.0.1:9000,10.0.0.2:9000,10.0.0.1:9001, "
    "10.0.0.1 9002, pservers <>\n"
    "it's: 2 of 3, 1 of 2, 10.0.0.1:9001 of 10.0.0.1:9000,10.0.0.2:9000,10.0.0.1:9001, "
    "10.0.0.1 9002, pservers <>\n";

TEST_F(OwnPlatforms, OpenMpiTellsTrainersWhereTheyMeet) {
  // Runs every rank of the one program after the other.
  write_program(
      "bin/mpirun",
      "#!/bin/sh\nwhile [ \"$1\" != -np ]; do shift; done\ncount=$2\nshift 2\n"
      "for rank in $(seq 0 $((count - 1))); do OMPI_COMM_WORLD_RANK=$rank \"$@\"; done\n");
  write_program("bin/getent", "#!/bin/sh\necho \"10.0.0.${2#h} STREAM $2\"\n");
  folder_.write("lab.toml", "port = 9000\nports_num = 2\n[[node]]\nhost = \"h\"\n");
  const std::string script = render("openmpi", "0", {"--cluster=lab.toml"});
  const std::string said = run({"HOSTS=h1,h2", "/bin/sh", script});
  EXPECT_TRUE(said.starts_with(kPlatformOfTwoHosts)) << said;
  EXPECT_EQ(saved(), 3);
}

TEST_F(OwnPlatforms, SlurmTellsTrainersWhereTheyMeet) {
  // Names two nodes, or runs every task after the other.
  write_program(
      "bin/srun",
      "#!/bin/sh\ncase \"$*\" in *hostname*) echo '0 10.0.0.1'; echo '1 10.0.0.2'; exit;; "
      "esac\ncount=${1#--ntasks=}\nshift 3\n"
      "for rank in $(seq 0 $((count - 1))); do SLURM_PROCID=$rank \"$@\"; done\n");
  const std::string said = run(
      {"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=2", "PORT=9000", "/bin/bash", render("slurm", "0")});
  EXPECT_TRUE(said.starts_with(kPlatformOfTwoHosts)) << said;
  EXPECT_EQ(saved(), 3);
}

TEST_F(OwnPlatforms, PodsLearnWhereTrainersMeet) {
  write_program("bin/getent", "#!/bin/sh\nname=${2%%.*}\necho \"10.1.0.${name##*-} STREAM $2\"\n");
  write_program("own/bin/paddle", "#!/bin/sh\necho paddle \"$@\"\n");
  if (Process({"/usr/bin/python3", "-c", "import yaml"}, folder_ / "yaml.txt").wait() != 0)
    GTEST_SKIP() << "no python3-yaml here: scripts/deps optional";
  const auto pod = [&](const std::string& pservers, const std::string& index) {
    const std::string manifest = render("kubernetes", pservers);
    std::string shell = run({"/usr/bin/python3", "-c",
                             "import sys, yaml\n"
                             "job = list(yaml.safe_load_all(open(sys.argv[1])))[-1]\n"
                             "pod = job['spec']['template']['spec']\n"
                             "print(pod['containers'][0]['args'][0])\n",
                             manifest});
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"/secret/job.key", "/dev/null"}, {"/run/paddle", folder_ / "run"}}) {
      for (std::size_t at = 0; (at = shell.find(from)) != shell.npos;)
        shell.replace(at, from.size(), to);
    }
    fs::create_directories(folder_ / "run");
    return run(
        {"JOB_COMPLETION_INDEX=" + index, "JOB_PATH=" + (folder_ / "own"), "/bin/sh", "-c", shell});
  };
  EXPECT_EQ(pod("0", "2"),
            "it's: 2 of 3, 0 of 1, 10.1.0.2:7164 of 10.1.0.0:7164,10.1.0.1:7164,10.1.0.2:7164, "
            "10.1.0.0 7165, pservers <>\n");
  EXPECT_TRUE(fs::exists(folder_ / "own/output/own/node_2/train.log"));
  EXPECT_EQ(pod("1", "1"),
            "it's: 1 of 3, 0 of 1, 10.1.0.1:7166 of 10.1.0.0:7166,10.1.0.1:7166,10.1.0.2:7166, "
            "10.1.0.0 7167, pservers <10.1.0.0:7164>\n");
  const std::string both = pod("1", "0");
  EXPECT_NE(both.find("paddle pserver --job_tag=own 10.1.0.0,"), both.npos) << both;
  EXPECT_NE(both.find("it's: 0 of 3"), both.npos) << both;
}

}  // namespace
}  // namespace paddle::test
