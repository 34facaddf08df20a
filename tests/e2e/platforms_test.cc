// The output of `paddlectl render`, on the platforms it is for.
#include "tests/e2e/platforms_test_fixture.h"

namespace paddle::test {
namespace {

class PlatformsTest : public PlatformsFixture {
 protected:
  void SetUp() override { job_.write_ngram(2, 60); }
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
    EXPECT_NE(text.find("exec \"$PADDLE_ENGINE\" train"), text.npos) << text;
  }
  fs::remove(planted);
  fs::create_directory_symlink(folder() / "data", planted);
  EXPECT_EQ(run_script().first, 0);
  EXPECT_FALSE(fs::exists(folder() / "data/task")) << "through a link";
}

TEST_F(PlatformsTest, KubernetesManifestFitsThePublishedSchema) {
  const std::string manifest =
      render("kubernetes", {"--pservers=2", "--set=train.passes=2", "--image=debian:12"});
  if (run({"/usr/bin/python3", "-c", "import kubernetes, yaml"}).first != 0)
    GTEST_SKIP() << "no python3-kubernetes here: scripts/deps optional";
  const auto faults = [&](const std::string& file) {
    return run({"/usr/bin/python3", KUBERNETES_FAULTS, file});
  };
  const auto [code, text] = faults(manifest);
  EXPECT_EQ(code, 0) << text;
  std::string spoilt = TemporaryFolder::read(manifest);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"backoffLimit: 0", "backoffLimit: \"0\""}, {"restartPolicy", "restart"}}) {
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
  const std::string manifest = render(
      "kubernetes", {"--pservers=2", "--set=train.passes=2", "--image=registry.lab/\"x\":1"});
  if (run({"/usr/bin/python3", "-c", "import yaml"}).first != 0)
    GTEST_SKIP() << "no python3-yaml here: scripts/deps optional";
  const auto [code, text] = run({"/usr/bin/python3", "-c", R"(
import subprocess, sys, yaml
service, job = yaml.safe_load_all(open(sys.argv[1]))
assert (service["apiVersion"], service["kind"]) == ("v1", "Service"), service
assert service["spec"]["clusterIP"] == "None", "headless"
assert service["spec"]["publishNotReadyAddresses"] is True
assert [p["port"] for p in service["spec"]["ports"]] == [7164, 7165]
assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job"), job
spec = job["spec"]
assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
pod = spec["template"]["spec"]
assert pod["subdomain"] == service["metadata"]["name"] == "ngram"
assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] == 0
container, = pod["containers"]
assert container["image"] == 'registry.lab/"x":1'
assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
secret, = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
assert secret == "ngram-key"
assert "env" not in container, "no secret in the environment"
shell, = container["args"]
assert "--num_gradient_servers=2" in shell and "'--set=train.passes=2'" in shell, shell
subprocess.run(["/bin/sh", "-n", "-c", shell], check=True)
open(sys.argv[2], "w").write(shell)
)",
                                 manifest, folder() / "pod.sh"});
  ASSERT_EQ(code, 0) << text;
  // A pod's own command, with what the cluster would give it: an index, a name service, a secret.
  std::string shell = TemporaryFolder::read(folder() / "pod.sh");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"/secret/job.key", folder() / "job.key"}, {"/run/paddle", folder().path()}}) {
    for (std::size_t at = 0; (at = shell.find(from, at)) != shell.npos; at += to.size())
      shell.replace(at, from.size(), to);
  }
  folder().write("bin/getent", "#!/bin/sh\necho \"127.0.0.1 STREAM $2\"\n");
  folder().write("bin/paddle", "#!/bin/sh\necho paddle \"$@\"\n");
  folder().write("job.key", std::string(32, 'k'));
  for (const char* const tool : {"bin/getent", "bin/paddle"})
    fs::permissions(folder() / tool, fs::perms::owner_all);
  const auto pod = [&](const std::string& index) {
    return run({"/usr/bin/env", "--chdir=" + folder().path(),
                "PATH=" + (folder() / "bin") + ":/usr/bin:/bin", "JOB_COMPLETION_INDEX=" + index,
                "/bin/sh", "-c", shell})
        .second;
  };
  const std::string common =
      "--rank_from=kubernetes --pservers=127.0.0.1:7164,127.0.0.1:7164 --key_file=";
  EXPECT_TRUE(pod("1").starts_with("paddle pserver " + common)) << pod("1");
  EXPECT_TRUE(pod("2").starts_with("paddle train " + common)) << pod("2");
  EXPECT_TRUE(pod("2").ends_with("--save_dir=output/ngram --set=train.passes=2\n")) << pod("2");
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
  EXPECT_NE(wrong({"slurm", workspace, "--set=train.pases=2"}).find("pases"), std::string::npos);
}

}  // namespace
}  // namespace paddle::test
