// The stand-in for a Kubernetes cluster does what tests with it rely on: real kubectl takes it for
// one, pods are as their manifests say, faults have Kubernetes' own words, and nothing is left.
#include "tests/support/kubernetes_standin.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNodes = R"(
apiVersion: v1
kind: Service
metadata: {name: train, labels: {app: train}}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: train}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train, labels: {app: train}}
spec:
  serviceName: train
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
      containers:
        - name: node
          image: debian:12-slim
          command: [/bin/sh, -c, "echo I am $HOSTNAME; trap 'exit 0' TERM; while :; do sleep 9 & wait; done"]
          env: [{name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
          securityContext: {readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          resources: {limits: {cpu: "1", memory: 64Mi}}
          volumeMounts: [{name: work, mountPath: /work}, {name: kept, mountPath: /kept}]
      volumes: [{name: work, emptyDir: {}}]
  volumeClaimTemplates:
    - metadata: {name: kept}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
)";

class KubernetesStandinTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = KubernetesStandin::obstacle();
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static void start_nodes(const KubernetesStandin& cluster) {
    cluster.apply(kNodes);
    cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});
  }
  static std::string in_pod(const KubernetesStandin& cluster, const std::string& pod,
                            const std::string& script) {
    return cluster.must({"exec", "-i", pod, "--", "/bin/sh", "-c", script});
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// Every kubectl of this machine: streams are SPDY up to 1.29 and WebSockets from 1.30 on, and 1.20
// wants a schema before it applies.
TEST_F(KubernetesStandinTest, EveryClientTakesItForACluster) {
  for (const std::string& client : KubernetesStandin::clients()) {
    SCOPED_TRACE(client);
    KubernetesStandin cluster;
    cluster.use_client(client);
    start_nodes(cluster);
    EXPECT_TRUE(has(cluster.apply(kNodes), "service/train unchanged"));
    cluster.must({"wait", "--for=condition=Ready", "pod", "-l", "app=train", "--timeout=20s"});
    EXPECT_TRUE(has(cluster.must({"get", "pods"}), "1/1     Running"));
    EXPECT_EQ(cluster.must({"get", "pods", "-l", "app=train", "-o", "name"}),
              "pod/train-0\npod/train-1\n");
    EXPECT_EQ(cluster.must({"logs", "train-1"}), "I am train-1\n");
    const auto [code, text] = cluster.run(
        {"/bin/sh", "-c", "printf 'some bytes' | \"$0\" exec -i train-0 -- sh -c 'cat; exit 7'",
         client});
    EXPECT_EQ(code, 7);
    EXPECT_TRUE(has(text, "some bytes")) << text;
    cluster.must({"create", "secret", "generic", "key", "--from-literal=job=secret"});
    EXPECT_EQ(cluster.must({"get", "secret", "key", "-o", "jsonpath={.data.job}"}), "c2VjcmV0");
    cluster.must({"delete", "statefulset,service", "-l", "app=train", "--timeout=30s"});
    EXPECT_TRUE(cluster.prints({"get", "pods"}, "No resources found"));
  }
}

TEST_F(KubernetesStandinTest, PodsAreAsTheirManifestSays) {
  KubernetesStandin cluster;
  start_nodes(cluster);
  EXPECT_EQ(in_pod(cluster, "train-0", "id -u; id -g; id -G"), "1000\n1000\n1000\n");
  EXPECT_EQ(in_pod(cluster, "train-0", "stat -c '%a %u %g' /work /kept"),
            "2777 0 1000\n2775 0 1000\n");
  EXPECT_EQ(in_pod(cluster, "train-0", "df -B1M --output=size /dev/shm | tail -n 1 | tr -d ' '"),
            "64\n");
  EXPECT_EQ(in_pod(cluster, "train-0", "grep CapBnd /proc/self/status"),
            "CapBnd:\t0000000000000000\n");
  EXPECT_TRUE(has(cluster.kubectl({"exec", "train-0", "--", "touch", "/file"}).second,
                  "Read-only file system"));
  const std::string of_other = in_pod(cluster, "train-1", "echo $ADDRESS");
  for (const char* const name : {"train-1.train", "train-1.train.default.svc.cluster.local"})
    EXPECT_TRUE(has(in_pod(cluster, "train-0", std::string("getent hosts ") + name),
                    of_other.substr(0, of_other.size() - 1)));
  if (has(cluster.fault("facts"), "true")) {
    EXPECT_TRUE(
        has(in_pod(cluster, "train-0",
                   "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes "
                   "2>/dev/null; true"),
            "67108864\n"));
    const std::string too_much = "x=$(head -c 99m /dev/zero | tr '\\0' x)";
    EXPECT_EQ(cluster.kubectl({"exec", "train-0", "--", "sh", "-c", too_much}).first, 137);
  }
  cluster.must({"delete", "pod", "train-0", "--timeout=30s"});
  EXPECT_TRUE(cluster.prints({"get", "pods"}, "train-0   1/1     Running"));
}

TEST_F(KubernetesStandinTest, ReplacedPodHasANewAddressAndItsClaim) {
  KubernetesStandin cluster;
  start_nodes(cluster);
  const std::string before = in_pod(cluster, "train-0", "echo $ADDRESS");
  in_pod(cluster, "train-0", "echo mine >/kept/file; echo gone >/work/file");
  cluster.fault("evict", R"({"pod": "train-0"})");
  EXPECT_TRUE(cluster.prints({"get", "events", "--field-selector", "reason=Evicted"},
                             "The node was low on resource: memory"));
  cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});
  EXPECT_EQ(in_pod(cluster, "train-0", "cat /kept/file; ls /work"), "mine\n");
  EXPECT_NE(in_pod(cluster, "train-0", "echo $ADDRESS"), before);
  EXPECT_TRUE(has(in_pod(cluster, "train-1", "getent hosts train-0.train"),
                  in_pod(cluster, "train-0", "printf $ADDRESS")));
}

TEST_F(KubernetesStandinTest, FaultsHaveTheWordsOfKubernetes) {
  KubernetesStandin cluster;
  cluster.fault("unschedulable", R"({"match": "train-1"})");
  cluster.apply(kNodes);
  EXPECT_TRUE(cluster.prints({"get", "events"}, "0/1 nodes are available: 1 Insufficient cpu."));
  cluster.fault("clear");
  cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});

  cluster.fault("kill", R"({"pod": "train-0"})");
  EXPECT_TRUE(cluster.prints({"get", "pod", "train-0", "-o",
                              "jsonpath={.status.containerStatuses[0].lastState.terminated}"},
                             "OOMKilled"));
  cluster.fault("image");
  cluster.must({"delete", "pod", "train-0", "--timeout=30s"});
  EXPECT_TRUE(cluster.prints({"get", "pods"}, "ImagePullBackOff"));
  EXPECT_TRUE(cluster.prints({"get", "events"}, "Failed to pull image \"debian:12-slim\""));
  cluster.fault("clear");

  cluster.fault("quota", R"({"hard": {"pods": 2}})");
  cluster.must({"scale", "statefulset/train", "--replicas=3"});
  EXPECT_TRUE(cluster.prints({"get", "events", "--field-selector", "reason=FailedCreate"},
                             "pods \"train-2\" is forbidden: exceeded quota: standin, requested: "
                             "pods=1, used: pods=2, limited: pods=2"));
  cluster.must({"scale", "statefulset/train", "--replicas=2"});
  cluster.fault("clear");
  cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});

  cluster.fault("lose", R"({"pod": "train-1"})");
  EXPECT_TRUE(has(cluster.kubectl({"exec", "train-1", "--", "true"}).second, "no route to host"));
  EXPECT_TRUE(has(cluster.must({"get", "pods"}), "Terminating"));
  cluster.must({"delete", "pod", "train-1", "--force", "--grace-period=0"});
  cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});

  cluster.fault("token", R"({"valid": false})");
  const auto [code, text] = cluster.kubectl({"get", "pods"});
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(has(text, "You must be logged in to the server")) << text;
}

TEST_F(KubernetesStandinTest, LinksReadinessAndTheServerFailWhenAsked) {
  KubernetesStandin cluster;
  cluster.fault("unready", R"({"match": "train-1"})");
  cluster.apply(kNodes);
  EXPECT_TRUE(cluster.prints({"get", "pods"}, "train-0   1/1     Running"));
  EXPECT_TRUE(cluster.prints({"get", "pods"}, "train-1   0/1     Running"));
  EXPECT_NE(cluster.kubectl({"rollout", "status", "statefulset/train", "--timeout=1s"}).first, 0);
  cluster.fault("clear");
  cluster.must({"rollout", "status", "statefulset/train", "--timeout=60s"});

  // Nothing listens on the port: refused by a pod that is reached, and no answer from any other.
  const std::string reach = "timeout 1 bash -c ': </dev/tcp/train-1.train/9' 2>/dev/null; echo $?";
  EXPECT_EQ(in_pod(cluster, "train-0", reach), "1\n");
  cluster.fault("cut", R"({"pod": "train-1"})");
  EXPECT_EQ(in_pod(cluster, "train-0", reach), "124\n");
  in_pod(cluster, "train-1", "true");
  cluster.fault("connect", R"({"pod": "train-1"})");
  EXPECT_EQ(in_pod(cluster, "train-0", reach), "1\n");

  cluster.fault("freeze", R"({"seconds": 5})");
  EXPECT_NE(cluster.kubectl({"get", "pods", "--request-timeout=1s"}).first, 0);
  EXPECT_TRUE(cluster.prints({"get", "pods"}, "train-0   1/1     Running"));
}

TEST_F(KubernetesStandinTest, WrongManifestsAreRefused) {
  KubernetesStandin cluster;
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string manifest = kNodes;
    const std::size_t at = manifest.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    manifest.replace(at, from.size(), to);
    const auto [code, text] =
        cluster.kubectl({"create", "-f", cluster.folder().write("wrong.yaml", manifest)});
    EXPECT_NE(code, 0) << text;
    cluster.kubectl({"delete", "service", "train"});
    return text;
  };
  EXPECT_TRUE(has(refusal("serviceName:", "servicename:"), "servicename"));
  EXPECT_TRUE(has(refusal("image: debian:12-slim", "imagePullPolicy: Never"), "image: Required"));
  EXPECT_TRUE(has(refusal("replicas: 2", "replicas: two"), "replicas"));
  EXPECT_TRUE(
      has(refusal("name: kept, mountPath", "name: lost, mountPath"), "Not found: \"lost\""));
  EXPECT_TRUE(has(refusal("memory: 64Mi", "memory: 64Mib"), "quantities must match"));
  EXPECT_TRUE(has(refusal("metadata: {labels: {app: train}}", "metadata: {labels: {app: other}}"),
                  "`selector` does not match template `labels`"));
}

// 2 + 1 pods: an Indexed Job on an NFS volume that exists, with secrets as files.
TEST_F(KubernetesStandinTest, JobRunsOnAVolumeAndItsPolicyDecidesAboutFailures) {
  constexpr const char* kJob = R"(
apiVersion: v1
kind: PersistentVolume
metadata: {name: shared}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  mountOptions: [nfsvers=4.1, hard]
  nfs: {server: fs-1, path: /data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: shared, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: job}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {job-name: job}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimit: 0
  podFailurePolicy:
    rules:
      - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
      - {action: Ignore, onExitCodes: {operator: In, values: [75]}}
      - {action: FailJob, onExitCodes: {operator: NotIn, values: [0, 75]}}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      subdomain: job
      securityContext: {runAsUser: 1000, fsGroup: 1000}
      containers:
        - name: work
          image: debian:12-slim
          command: [/bin/sh, -c]
          args:
            - cd /shared; echo start >>$JOB_COMPLETION_INDEX; stat -c %a -L /key/job >>mode;
              while [ ! -e end$JOB_COMPLETION_INDEX ]; do sleep 0.05; done;
              getent hosts job-0.job >>$JOB_COMPLETION_INDEX;
              read code <end$JOB_COMPLETION_INDEX; rm end$JOB_COMPLETION_INDEX; exit $code
          volumeMounts: [{name: shared, mountPath: /shared}, {name: key, mountPath: /key}]
      volumes:
        - {name: shared, persistentVolumeClaim: {claimName: shared}}
        - {name: key, secret: {secretName: key, defaultMode: 0400}}
)";
  KubernetesStandin cluster;
  const std::string shared = cluster.state() + "/nfs/fs-1/data/";
  const auto gets = [&](const std::string& file, const std::string& text) {
    for (int i = 0; i < 600; ++i, ::usleep(50'000))
      if (has(TemporaryFolder::read(shared + file), text)) return true;
    return false;
  };
  cluster.apply(kJob);
  EXPECT_TRUE(cluster.prints({"get", "events", "-o", "jsonpath={.items[*].message}"},
                             "No such file or directory"));
  fs::create_directories(shared);
  ASSERT_EQ(::chown(shared.c_str(), 1000, 1000), 0);
  EXPECT_TRUE(cluster.prints({"get", "events"}, "secret \"key\" not found"));
  cluster.must({"create", "secret", "generic", "key", "--from-literal=job=secret"});
  ASSERT_TRUE(gets("0", "start") && gets("1", "start") && gets("mode", "440\n440\n"));

  // Neither exit code 75 nor an eviction counts.
  std::ofstream(shared + "end0") << "75\n";
  ASSERT_TRUE(gets("0", "job-0.job.default.svc") && gets("mode", "440\n440\n440\n"));
  const std::string of_second = cluster.must(
      {"get", "pods", "-o", "name", "-l", "batch.kubernetes.io/job-completion-index=1"});
  cluster.fault("evict", R"({"pod": ")" + of_second.substr(4, of_second.size() - 5) + R"("})");
  ASSERT_TRUE(gets("1", "start\nstart\n"));
  for (const char* const end : {"end0", "end1"}) std::ofstream(shared + end) << "0\n";
  cluster.must({"wait", "--for=condition=complete", "job/job", "--timeout=60s"});

  // Any other exit code ends the job, and its other pods with it.
  cluster.must({"delete", "job", "job", "--timeout=30s"});
  cluster.must({"apply", "-f", cluster.folder() / "manifest.yaml"});
  std::ofstream(shared + "end1") << "3\n";
  cluster.must({"wait", "--for=condition=failed", "job/job", "--timeout=60s"});
  EXPECT_TRUE(cluster.prints({"get", "job", "job", "-o", "jsonpath={.status.conditions}"},
                             "PodFailurePolicy"));
  EXPECT_TRUE(cluster.prints({"get", "pods", "--field-selector", "status.phase=Running"},
                             "No resources found"));
}

TEST_F(KubernetesStandinTest, NothingOfItIsLeftAlsoAfterAKill) {
  TemporaryFolder folder;
  const std::vector<std::string> environment{KubernetesStandin::path_variable()};
  constexpr const char* kStartAndWait =
      "export KUBECONFIG=\"$0/state/kubeconfig\"; kubectl apply -f \"$0/pod.yaml\" && "
      "kubectl wait --for=condition=Ready pod/pod --timeout=30s";
  const std::string mark = "sleep-of-" + fs::path(folder.path()).filename().string();
  for (const int signal : {SIGTERM, SIGKILL}) {
    Process standin({KUBERNETES_STANDIN, "--dir", folder / "state"}, folder / "started",
                    environment);
    ASSERT_TRUE(standin.prints("kubeconfig")) << standin.output();
    folder.write("pod.yaml",
                 "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: "
                 "[{name: pod, image: debian, command: [sh, -c, \"sleep 99; : " +
                     mark + "\"]}]}\n");
    Process applied({"/bin/sh", "-c", kStartAndWait, folder.path()}, folder / "applied",
                    {KubernetesStandin::path_variable(), "HOME=" + folder.path()});
    EXPECT_EQ(applied.wait(), 0) << applied.output();
    standin.signal(signal);
    EXPECT_EQ(standin.wait(), signal == SIGTERM ? 0 : 128 + signal);
    if (signal == SIGKILL) {
      Process cleaned({KUBERNETES_STANDIN, "--dir", folder / "state", "--clean"},
                      folder / "cleaned", environment);
      EXPECT_EQ(cleaned.wait(), 0) << cleaned.output();
    }
    fs::remove(folder / "started");
    EXPECT_FALSE(fs::exists(folder / "state/pods"));
    EXPECT_FALSE(fs::exists(folder / "state/kubeconfig"));
    EXPECT_EQ(TemporaryFolder::read("/proc/self/mounts").find(folder.path()), std::string::npos);
    for (const auto& process : fs::directory_iterator("/proc")) {
      const std::string command = TemporaryFolder::read(process.path() / "cmdline");
      EXPECT_FALSE(has(command, folder.path()) || has(command, mark)) << command;
    }
    for (const char* const groups : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      for (const auto& group : fs::directory_iterator(groups))
        EXPECT_FALSE(has(group.path(), fs::path(folder.path()).filename())) << group.path();
    }
  }
}

}  // namespace paddle::test
