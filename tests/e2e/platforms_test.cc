// The output of `paddlectl render`, on the platforms it is for.
#include <sys/stat.h>

#include "tests/e2e/platforms_test_fixture.h"
#include "tests/e2e/tables_program.h"

namespace paddle::test {
namespace {

// Its column is prepared by statistics, and no file of them is named.
constexpr const char* kScaledJob = R"([data]
train = "data/x.csv"
format = "csv"
columns = ["x", "y"]
[[data.slot]]
name = "x"
type = "float"
normalize = "standard"
[[data.slot]]
name = "y"
type = "float"
[[layer]]
name = "out"
type = "fc"
input = ["x"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["out"]
label = "y"
[optimizer]
learning_rate = 0.01
)";

class PlatformsTest : public PlatformsFixture {
 protected:
  void SetUp() override { job_.write_ngram(2, 60); }
  void write_scaled_job() {
    folder().write("job.toml", kScaledJob);
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += fmt::format("{},{}\n", 500 + i % 7, i % 7);
    folder().write("data/x.csv", lines);
  }
  // The statistics that the run's trainers had are those of its folder.
  void expect_statistics(const std::string& prefix) {
    for (const auto& run : fs::directory_iterator(folder() / "output")) {
      if (!run.path().filename().string().starts_with(prefix)) continue;
      const std::string text = TemporaryFolder::read(run.path() / "statistics.json");
      EXPECT_NE(text.find("\"records\":100,"), text.npos) << text;
      EXPECT_EQ(TemporaryFolder::read(run.path() / "pass-00000/model/statistics.json"), text);
    }
  }
};

TEST_F(PlatformsTest, OpenMpiRunsTheJob) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "no mpirun here: scripts/deps optional";
  const std::string script = render("openmpi", {"--pservers=2", "--set=train.passes=2"});
  const auto [code, text] = run_under_openmpi(script, 4);
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("trainer 0 of 2"), text.npos) << text;
  EXPECT_NE(text.find("trainer 1 of 2"), text.npos) << text;
  EXPECT_NE(text.find("READY pserver 1"), text.npos) << text;
  expect_trained("openmpi-", 1);
}

TEST_F(PlatformsTest, OpenMpiTellsAProgramWhereItsTablesAre) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "no mpirun here: scripts/deps optional";
  write_tables_program(folder());
  const auto [code, text] =
      run_under_openmpi(render("openmpi", {"--set=optimizer.learning_rate=0.5"}), 4);
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("user 3 is -1.5"), text.npos) << text;
  expect_trained("openmpi-", 0);
}

TEST_F(PlatformsTest, SlurmTellsAProgramWhereItsTablesAre) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  write_tables_program(folder());
  const auto [code, text] =
      run_under_slurm(render("slurm", {"--pservers=2", "--set=optimizer.learning_rate=0.5"}), 6);
  if (code == 77) GTEST_SKIP() << text;
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("user 3 is -1.5"), text.npos) << text;
  expect_trained("slurm-", 0);
}

TEST_F(PlatformsTest, OpenMpiMakesStatisticsFirst) {
  if (!fs::exists("/usr/bin/mpirun")) GTEST_SKIP() << "no mpirun here: scripts/deps optional";
  write_scaled_job();
  const auto [code, text] = run_under_openmpi(render("openmpi", {"--pservers=1"}), 2);
  EXPECT_EQ(code, 0) << text;
  expect_trained("openmpi-", 0);
  expect_statistics("openmpi-");
}

TEST_F(PlatformsTest, SlurmMakesStatisticsFirst) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  write_scaled_job();
  const auto [code, text] = run_under_slurm(render("slurm", {"--pservers=1"}), 2);
  if (code == 77) GTEST_SKIP() << text;
  EXPECT_EQ(code, 0) << text;
  expect_trained("slurm-1", 0);
  expect_statistics("slurm-1");
}

TEST_F(PlatformsTest, SlurmRunsTheJob) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  const std::string script = render("slurm", {"--pservers=2", "--set=train.passes=2"});
  const auto [code, text] = run_under_slurm(script, 4);
  if (code == 77) GTEST_SKIP() << text;
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("trainer 0 of 2"), text.npos) << text;
  EXPECT_NE(text.find("trainer 1 of 2"), text.npos) << text;
  expect_trained("slurm-1", 1);
}

// Two minutes before its limit, Slurm sends the batch script a signal; here it is sent at once.
TEST_F(PlatformsTest, SlurmTakesTheJobBackToTheQueueAndItContinues) {
  if (const std::string why = slurm_obstacle(); !why.empty()) GTEST_SKIP() << why;
  job_.write_ngram(2, 400);
  const std::string script =
      render("slurm", {"--pservers=2", "--set=train.passes=4000", "--set=data.test=''",
                       "--set=train.saving_period=100000"});
  EXPECT_NE(TemporaryFolder::read(script).find("#SBATCH --signal=B:TERM@120\n"), std::string::npos);
  const std::string commands = folder().write("commands", R"(
job=$(sbatch --parsable --output="$2" "$1") || exit
has() { for i in $(seq 600); do grep -q "$1" "$2" 2>/dev/null && return; sleep 0.1; done; exit 1; }
is() { for i in $(seq 600); do squeue -h -o %T | grep -q "$1" && return; sleep 0.1; done; exit 1; }
has 'Pass=1 ' "$2"
scancel --signal=TERM --batch "$job"
is PENDING
# Slurm waits two minutes before it starts one again, at least until the last run is forgotten.
sleep 3
for i in $(seq 60); do
  squeue -h -o %T | grep -q RUNNING && break
  scontrol update "JobId=$job" StartTime=now
  sleep 0.5
done
has 'Loading parameters from' "$2"
scancel "$job"
for i in $(seq 600); do squeue -h | grep -q . || exit 0; sleep 0.1; done
)");
  const std::string log = folder() / "slurm.log";
  const auto [code, text] =
      run({"/bin/bash", SLURM_SCRIPT, folder() / "slurm-daemons", "1", "/bin/sh", commands, script,
           log},
          {fmt::format("PORT={}", free_ports(4)), fmt::format("CONTROL_PORTS={}", free_ports(2))});
  if (code == 77) GTEST_SKIP() << text;
  const std::string printed = TemporaryFolder::read(log);
  EXPECT_EQ(code, 0) << text << printed;
  EXPECT_NE(printed.find("Saving parameters to"), printed.npos) << printed;
  EXPECT_NE(printed.find("stopped on request"), printed.npos) << printed;
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(folder() / "output"))
    runs += entry.path().filename().string().starts_with("slurm-") ? 1 : 0;
  EXPECT_EQ(runs, 1) << "the second run continues in the folder of the first";
}

// The batch script by itself, with the exit codes of its tasks.
TEST_F(PlatformsTest, SlurmExitsWith75AfterAStop) {
  job_.write_dense_ngram({30, 30});
  const std::string script = render("slurm", {"--pservers=0", "--set=strategy.dense=collective"});
  folder().write("bin/srun", R"(#!/bin/sh
for word; do
  case $word in
    -c) echo "0 127.0.0.1"; exit ;;
    */task) SLURM_PROCID=0 SLURMD_NODENAME=n1 sh "$word"; exit ;;
  esac
done
)");
  folder().write("bin/scontrol", "#!/bin/sh\necho scontrol \"$@\"\n");
  for (const char* const tool : {"bin/srun", "bin/scontrol"})
    fs::permissions(folder() / tool, fs::perms::owner_all);
  const auto run_script = [&](const std::string& engine, const std::vector<std::string>& more) {
    folder().write("engine", "#!/bin/sh\n" + engine);
    fs::permissions(folder() / "engine", fs::perms::owner_all);
    std::string text = TemporaryFolder::read(script);
    const std::size_t at = text.find("engine='");
    text.replace(at, text.find('\n', at) - at, "engine=" + (folder() / "engine"));
    std::vector<std::string> command{"/usr/bin/env",
                                     "PATH=" + (folder() / "bin") + ":/usr/bin:/bin",
                                     "SLURM_JOB_ID=777", "SLURM_JOB_NUM_NODES=1"};
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"/bin/bash", folder().write("batch", text)});
    return run(command);
  };
  const auto [stopped, text] = run_script("exit 75\n", {});
  EXPECT_EQ(stopped, 75) << text;
  EXPECT_EQ(text.find("scontrol"), text.npos) << "Slurm did not ask for it: " << text;
  EXPECT_EQ(run_script("exit 6\n", {}).first, 6);
  EXPECT_EQ(run_script("exit 0\n", {}).first, 0);
  fs::remove_all(folder() / "output");
  // The next run of the same job, and a run with the folder to continue in.
  const std::string own = folder() / "output/slurm-777-abcdef";
  fs::create_directories(own);
  fs::create_directory_symlink(folder() / "data", folder() / "output/slurm-777-zzzzzz");
  for (const std::string variable : {"SLURM_RESTART_COUNT=1", "RESUME=output/slurm-777-abcdef"}) {
    fs::remove(own + "/task");
    const auto [code, printed] = run_script("echo \"$@\"\n", {variable});
    EXPECT_EQ(code, 0) << printed;
    EXPECT_NE(printed.find("--save_dir=" + own + " --resume"), printed.npos) << printed;
  }
}

// The name of a folder can be foretold from the job's number, so somebody may have made it first.
TEST_F(PlatformsTest, SlurmPutsNoKeyIntoAFolderThatSomebodyMadeFirst) {
  const std::string script = render("slurm");
  const std::string planted = folder() / "output/slurm-777";
  fs::create_directories(planted);
  fs::permissions(planted, fs::perms::all);
  // An srun that names addresses, or shows where the key and the task are.
  folder().write("bin/srun", R"(#!/bin/sh
for word; do
  case $word in
    -c) echo "0 127.0.0.1"; exit ;;
    --key_file=*) file=${word#--key_file=}; wc -c "$file"; stat -c 'mode %a' "${file%/*}" "$file" ;;
    */task) cat "$word" ;;
  esac
done
)");
  fs::permissions(folder() / "bin/srun", fs::perms::owner_all);
  const auto run_script = [&] {
    return run({"/usr/bin/env", "PATH=" + (folder() / "bin") + ":/usr/bin:/bin", "SLURM_JOB_ID=777",
                "SLURM_JOB_NUM_NODES=1", "/bin/bash", script});
  };
  for (int again = 0; again < 2; ++again) {  // Slurm runs a job again under its number
    const auto [code, text] = run_script();
    EXPECT_EQ(code, 0) << text;
    EXPECT_TRUE(fs::is_empty(planted));
    EXPECT_NE(text.find("32 " + (folder() / "output/slurm-777-")), text.npos) << text;
    EXPECT_NE(text.find("mode 700\nmode 600\n"), text.npos) << text;
    EXPECT_NE(text.find("\"$PADDLE_ENGINE\" train"), text.npos) << text;
  }
  fs::remove(planted);
  fs::create_directory_symlink(folder() / "data", planted);
  EXPECT_EQ(run_script().first, 0);
  EXPECT_FALSE(fs::exists(folder() / "data/task")) << "through a link";
}

TEST_F(PlatformsTest, KubernetesManifestFitsThePublishedSchema) {
  const std::string manifest =
      render("kubernetes", {"--pservers=2", "--set=train.passes=2", "--nfs=fs-1.lab:/"});
  if (run({"/usr/bin/python3", "-c", "import kubernetes, yaml"}).first != 0)
    GTEST_SKIP() << "no python3-kubernetes here: scripts/deps optional";
  const auto faults = [&](const std::string& file) {
    return run({"/usr/bin/python3", KUBERNETES_FAULTS, file});
  };
  const auto [code, text] = faults(manifest);
  EXPECT_EQ(code, 0) << text;
  std::string spoilt = TemporaryFolder::read(manifest);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"backoffLimit: 20", "backoffLimit: \"0\""}, {"restartPolicy", "restart"}}) {
    ASSERT_NE(spoilt.find(from), spoilt.npos);
    spoilt.replace(spoilt.find(from), from.size(), to);
  }
  const auto [refused, reasons] = faults(folder().write("spoilt.yaml", spoilt));
  EXPECT_EQ(refused, 1);
  EXPECT_NE(reasons.find("Job.spec.backoffLimit: '0' is no int"), reasons.npos) << reasons;
  EXPECT_NE(reasons.find("Job.spec.template.spec.restart: V1PodSpec has no"), reasons.npos);
}

// Checks beyond the schema: how the parts fit together, and the shell text in it.
TEST_F(PlatformsTest, KubernetesManifestHasTheFieldsOfAnIndexedJob) {
  folder().write("prepare", "#!/bin/sh\n");
  const std::string manifest =
      render("kubernetes", {"--pservers=2", "--set=train.passes=2", "--image=registry.lab/\"x\":1",
                            "--nfs=fs-1.lab:/a b", "--cpu=3", "--memory=5Gi", "--prepare"});
  if (run({"/usr/bin/python3", "-c", "import yaml"}).first != 0)
    GTEST_SKIP() << "no python3-yaml here: scripts/deps optional";
  const auto [code, text] = run({"/usr/bin/python3", "-c", R"(
import base64, subprocess, sys, yaml
secret, volume, claim, service, data, job = yaml.safe_load_all(open(sys.argv[1]))
assert len(base64.b64decode(secret["data"]["job.key"])) == 32 and secret["immutable"], "a key"
assert volume["spec"]["nfs"] == {"server": "fs-1.lab", "path": "/a b"}, volume
assert set(volume["spec"]["mountOptions"]) > {"nfsvers=4.1", "hard", "timeo=600", "retrans=2"}
assert claim["spec"]["volumeName"] == volume["metadata"]["name"] and claim["spec"]["accessModes"] == ["ReadWriteMany"]
assert service["spec"]["clusterIP"] == "None", "headless"
assert service["spec"]["publishNotReadyAddresses"] is True
assert [p["port"] for p in service["spec"]["ports"]] == [7164, 7165]
assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
spec = job["spec"]
assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
actions = [(rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in spec["podFailurePolicy"]["rules"]]
assert actions == [("Ignore", None), ("Count", [75]), ("FailJob", [75])], actions
for one in data, job:
    pod = one["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    container, = pod["containers"]
    assert container["image"] == 'registry.lab/"x":1'
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["resources"] == {"requests": {"cpu": "3", "memory": "5Gi"}, "limits": {"memory": "5Gi"}}
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    subprocess.run(["/bin/sh", "-n", "-c", container["args"][0]], check=True)
assert pod["subdomain"] == service["metadata"]["name"] == "ngram"
assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == [secret["metadata"]["name"]]
assert {e["name"] for e in container["env"]} == {"HOME", "JOB_UID"}, "no secret in the environment"
assert [p["containerPort"] for p in container["ports"]] == [7164, 7165]
open(sys.argv[2], "w").write(container["args"][0])
open(sys.argv[3], "w").write(data["spec"]["template"]["spec"]["containers"][0]["args"][0])
)",
                                 manifest, folder() / "pod.sh", folder() / "data.sh"});
  ASSERT_EQ(code, 0) << text;
}

// A pod's own command, with what the cluster would give it: an index, a name service, a Secret.
class PodTest : public PlatformsTest {
 protected:
  void SetUp() override {
    PlatformsTest::SetUp();
    if (run({"/usr/bin/python3", "-c", "import yaml"}).first != 0)
      GTEST_SKIP() << "no python3-yaml here: scripts/deps optional";
    write_program("bin/getent", "#!/bin/sh\necho \"127.0.0.1 STREAM $2\"\n");
    write_program("bin/paddle", "#!/bin/sh\necho paddle \"$@\"\n");
    folder().write("job.key", std::string(32, 'k'));
    fs::create_directories(folder() / "run");
  }
  void write_program(const std::string& path, const std::string& text) {
    folder().write(path, text);
    fs::permissions(folder() / path, fs::perms::owner_all);
  }
  // The output of a container of the last Job of a manifest, or of the first one.
  std::pair<int, std::string> pod(const std::vector<std::string>& environment,
                                  const std::vector<std::string>& options = {}, int job = -1) {
    std::vector<std::string> render_options{"--pservers=1", "--set=train.passes=2"};
    render_options.insert(render_options.end(), options.begin(), options.end());
    const auto [code, text] = run(
        {"/usr/bin/python3", "-c",
         "import sys, yaml\n"
         "jobs = [one for one in yaml.safe_load_all(open(sys.argv[1])) if one['kind'] == 'Job']\n"
         "print(jobs[int(sys.argv[2])]['spec']['template']['spec']['containers'][0]['args'][0])\n",
         render("kubernetes", render_options), fmt::format("{}", job)});
    EXPECT_EQ(code, 0) << text;
    std::string shell = text;
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"/secret/job.key", folder() / "job.key"}, {"/run/paddle", folder() / "run"}}) {
      for (std::size_t at = 0; (at = shell.find(from, at)) != shell.npos; at += to.size())
        shell.replace(at, from.size(), to);
    }
    std::vector<std::string> command{"/usr/bin/env", "--chdir=" + folder().path(),
                                     "PATH=" + (folder() / "bin") + ":/usr/bin:/bin",
                                     "JOB_PATH=" + folder().path()};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {"/bin/sh", "-c", shell});
    return run(command);
  }
};

TEST_F(PodTest, RunsAPserverATrainerOrBoth) {
  const std::string output = folder() / "output/ngram";
  const std::string common =
      " --job_tag=ngram 127.0.0.1,127.0.0.1 --num_gradient_servers=2 --ports_num=1 "
      "--ports_num_for_sparse=1 --key_file=" +
      (folder() / "run/job.key") + " --transport=sealed ";
  const std::string pserver = "paddle pserver" + common +
                              "--pserver_id=0 --port=7164 --bind=127.0.0.1 --metrics=" + output +
                              "/node_0/server-metrics.jsonl --lost_trainer_ends_job\n";
  const auto trainer = [&](const std::string& rank) {
    return "paddle train" + common + "--trainer_id=" + rank +
           " --pservers=127.0.0.1:7164 --config=job.toml --save_dir=" + output +
           " --resume --metrics=" + output + "/node_" + rank +
           "/metrics.jsonl --connect_timeout=60 --set=train.passes=2\n";
  };
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=1"}), std::pair(0, trainer("1")));
  const auto [code, both] = pod({"JOB_COMPLETION_INDEX=0"});
  EXPECT_EQ(code, 0);
  EXPECT_NE(both.find(pserver), both.npos) << both;
  EXPECT_NE(both.find(trainer("0")), both.npos) << both;
  EXPECT_EQ(TemporaryFolder::read(output + "/node_0/server.log"), pserver);
  EXPECT_EQ(TemporaryFolder::read(output + "/node_0/train.log"), trainer("0"));
  EXPECT_EQ(TemporaryFolder::read(output + "/node_1/train.log"), trainer("1"));
  struct stat info {};
  ASSERT_EQ(::stat((folder() / "run/job.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((output + "/node_0").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0755U) << "the key's umask is for the key alone";
}

TEST_F(PodTest, TheFirstPodMakesStatisticsAndTheOthersWaitForThem) {
  write_scaled_job();
  const std::string file = folder() / "output/ngram/node_0/statistics.json";
  write_program(
      "bin/paddle",
      "#!/bin/sh\necho paddle \"$@\"\n[ \"$1\" != statistics ] || echo made > " + file + "\n");
  write_program("bin/sleep", "#!/bin/sh\nkill -TERM $PPID\n");
  const auto [stopped, waits] = pod({"JOB_COMPLETION_INDEX=1"});
  EXPECT_EQ(stopped, 75);
  EXPECT_EQ(waits, "paddlectl: waiting for statistics of the data, which pod 0 makes\n");
  const std::string make = "paddle statistics --config=job.toml --output=" + file;
  const auto [code, first] = pod({"JOB_COMPLETION_INDEX=0"});
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(first.starts_with(make + " --set=train.passes=2\n")) << first;
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=0"}).second.find(make), std::string::npos) << "once";
  const auto [other, trains] = pod({"JOB_COMPLETION_INDEX=1"});
  EXPECT_EQ(other, 0);
  EXPECT_NE(trains.find(" --set=data.statistics=" + file + "\n"), trains.npos) << trains;
}

TEST_F(PodTest, TakesTheNamesOfEarlierManifests) {
  fs::create_directories(folder() / "old/quick_start");
  fs::copy(folder() / "job.toml", folder() / "old/quick_start/job.toml");
  const auto [code, text] =
      pod({"JOB_COMPLETION_INDEX=0", "JOB_NAME=old", "JOB_NAMESPACE=default",
           "TRAIN_CONFIG_DIR=quick_start", "CONF_PADDLE_NIC=eth7", "CONF_PADDLE_PORT=8000",
           "CONF_PADDLE_PORTS_NUM=3", "CONF_PADDLE_PORTS_NUM_SPARSE=4",
           "CONF_PADDLE_GRADIENT_NUM=2", "TRAINER_COUNT=5"});
  EXPECT_EQ(code, 0) << text;
  for (const std::string part :
       {" --job_tag=old ", " --ports_num=3 --ports_num_for_sparse=4 ", " --bind=eth7 ",
        " --port=8000 ", " --num_gradient_servers=2 ", " --trainer_count=5 "})
    EXPECT_NE(text.find(part), text.npos) << part << text;
  for (const char* const log : {"server.log", "train.log"})
    EXPECT_TRUE(fs::exists(fs::path(folder() / "old/output/node_0") / log)) << log;
}

TEST_F(PodTest, StartsAgainWhenAPeerIsLostAndEndsWithAnyOtherCode) {
  // Its third start ends with the code in the file.
  write_program(
      "bin/paddle",
      "#!/bin/sh\n[ \"$1\" = train ] || exit 0\necho >> starts\n"
      "[ $(wc -l < starts) -ge 3 ] || exit $((3 + $(wc -l < starts)))\nexit $(cat code)\n");
  write_program("bin/sleep", "#!/bin/sh\nexec /bin/sleep 0.2\n");
  for (const char* const wanted : {"0", "6", "75"}) {
    fs::remove(folder() / "starts");
    fs::remove_all(folder() / "output");
    folder().write("code", wanted);
    const auto [code, text] = pod({"JOB_COMPLETION_INDEX=1"});
    EXPECT_EQ(code, std::stoi(wanted)) << text;
    EXPECT_EQ(fs::file_size(folder() / "starts"), 3U);
    const std::string log = TemporaryFolder::read(folder() / "output/ngram/node_1/train.log");
    EXPECT_NE(log.find("paddlectl: start 3\n"), log.npos) << log;
  }
}

TEST_F(PodTest, ASigtermAsksTheTrainerOnceAndMakesCode75) {
  write_program("bin/paddle",
                "#!/bin/sh\n[ \"$1\" = train ] || exit 0\n"
                "trap 'echo asked >> asked; exit 75' TERM\nkill -TERM $PPID\nkill -TERM $PPID\n"
                "while :; do sleep 0.1; done\n");
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=1"}).first, 75);
  EXPECT_EQ(TemporaryFolder::read(folder() / "asked"), "asked\n");
}

TEST_F(PodTest, EndsAtOnceWhileItWaitsForAnotherPod) {
  write_program("bin/getent", "#!/bin/sh\nexit 2\n");
  write_program("bin/sleep", "#!/bin/sh\nkill -TERM $PPID\n");
  const auto [code, text] = pod({"JOB_COMPLETION_INDEX=1"});
  EXPECT_EQ(code, 75);
  EXPECT_EQ(text, "paddlectl: waiting for the address of ngram-0.ngram\n");
}

// Lost in its last moment, when the others have ended and have no address any more.
TEST_F(PodTest, EndsWithItsJobThatHasEnded) {
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=0", "JOB_UID=this"}).first, 0);
  EXPECT_EQ(TemporaryFolder::read(folder() / "output/ngram/.ended"), "this\n");
  write_program("bin/getent", "#!/bin/sh\nexit 2\n");
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=1", "JOB_UID=this"}), std::pair(0, std::string()));
  write_program("bin/sleep", "#!/bin/sh\nkill -TERM $PPID\n");
  EXPECT_EQ(pod({"JOB_COMPLETION_INDEX=1", "JOB_UID=other"}).first, 75) << "a later Job waits";
}

TEST_F(PodTest, ADataJobRunsPrepareOnce) {
  write_program("prepare", "#!/bin/sh\necho \"split into $SPLIT_COUNT\"\n");
  const std::vector<std::string> in_folder{"OUT_DIR=" + folder().path()};
  EXPECT_EQ(pod(in_folder, {"--prepare"}, 0), std::pair(0, std::string("split into 2\n")));
  EXPECT_EQ(pod(in_folder, {"--prepare"}, 0).second,
            "paddlectl: the data is prepared already, in 2 parts\n");
  EXPECT_EQ(pod({in_folder[0], "SPLIT_COUNT=7"}, {"--prepare"}, 0).second, "split into 7\n");
  write_program("prepare", "#!/bin/sh\nexit 6\n");
  EXPECT_EQ(pod(in_folder, {"--prepare"}, 0).first, 6);
  EXPECT_EQ(TemporaryFolder::read(folder() / ".prepared"), "7\n") << "it failed";
}

TEST_F(PlatformsTest, TheTemplatesSplitTheirDataAsADataJobAsks) {
  int asked = 0;
  for (const auto& entry : fs::directory_iterator(TEMPLATES_FOLDER)) {
    const std::string program = entry.path() / "prepare";
    if (!fs::exists(program)) continue;
    ++asked;
    // A wrong number is an error before anything is written.
    const auto [code, text] = run({"/bin/sh", program}, {"SPLIT_COUNT=none"});
    EXPECT_EQ(code, 2) << program;
    EXPECT_NE(text.find("--shards"), text.npos) << program << text;
  }
  EXPECT_GE(asked, 8);
}

TEST_F(PlatformsTest, TheProviderOfAClusterIsNotAskedForItsPorts) {
  const std::string cluster =
      folder().write("made.toml",
                     "port = 9100\n[provider]\nkind = \"command\"\ncreate = [\"/no/program\"]\n"
                     "list = [\"/no/program\"]\ndestroy = [\"/no/program\"]\nnodes = 2\n");
  const std::string script = render("slurm", {"--cluster=" + cluster});
  EXPECT_NE(TemporaryFolder::read(script).find("first_port=${PORT:-9100}\n"), std::string::npos);
}

TEST_F(PlatformsTest, WhatCannotBeRenderedIsNamed) {
  const auto wrong = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {PADDLECTL_PROGRAM, "render"});
    const auto [code, text] = run(more);
    EXPECT_EQ(code, 2) << text;
    EXPECT_NE(text.find("hint: "), text.npos) << text;
    return text;
  };
  const std::string workspace = folder().path();
  EXPECT_NE(wrong({}).find("render needs PLATFORM"), std::string::npos);
  EXPECT_NE(wrong({"nomad"}).find("nomad"), std::string::npos);
  EXPECT_NE(wrong({"slurm", workspace + "/data"}).find("no job.toml"), std::string::npos);
  EXPECT_NE(wrong({"slurm", workspace, "--name=.."}).find("'..' is not a valid job name"),
            std::string::npos);
  EXPECT_NE(wrong({"kubernetes", workspace, "--nfs=server"}).find("is not SERVER:/PATH"),
            std::string::npos);
  EXPECT_NE(wrong({"kubernetes", workspace, "--prepare"}).find("has no program prepare"),
            std::string::npos);
  EXPECT_NE(wrong({"slurm", workspace, "--set=train.pases=2"}).find("pases"), std::string::npos);
}

}  // namespace
}  // namespace paddle::test
