// The provider of kind "kubernetes": pods of a StatefulSet that wait for work, reached by the
// user's own `kubectl exec`. Field names and reasons are those of the Kubernetes API (v1.20 and
// later): https://kubernetes.io/docs/reference/kubernetes-api/.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_reader.h"
#include "base/secret.h"
#include "base/text.h"
#include "cli/cluster/program.h"
#include "cli/cluster/provider.h"
#include "cli/console/console.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

constexpr std::chrono::seconds kPodsTimeout{600};
constexpr std::chrono::seconds kCallTimeout{60};
constexpr Duration kLook = std::chrono::seconds(1);
constexpr std::int64_t kFirstUserOfPeople = 1000;
constexpr std::int64_t kUsersMax = 2'000'000'000;
constexpr std::int64_t kGpusMax = 64;
constexpr std::size_t kListMax = 64;
// A pod's name, "<cluster>-<number>", and those of its claims are DNS labels.
constexpr std::size_t kNameMax = 40;
constexpr const char* kManager = "paddlectl";
constexpr const char* kManagedBy = "app.kubernetes.io/managed-by";
constexpr const char* kClusterLabel = "paddlectl-cluster";
constexpr const char* kIdLabel = "paddlectl-id";
constexpr const char* kImage = "debian:12-slim";
constexpr const char* kWork = "/work";  // the pod's own volume: home of the node's user
// Waits for work as process 1: it must take SIGTERM, and reap the processes that agents leave.
constexpr const char* kWait = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";
// The options that EFS recommends to NFS clients: https://docs.aws.amazon.com/efs/latest/ug/
// mounting-fs-nfs-mount-settings.html.
const std::vector<Json> kNfsOptions{"nfsvers=4.1", "hard",          "timeo=600",
                                    "retrans=2",   "rsize=1048576", "wsize=1048576"};

bool is_dns_label(std::string_view name) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= kNameMax && name.front() >= 'a' && name.front() <= 'z' &&
         name.back() != '-' && std::ranges::all_of(name, is_inner);
}

// The member of an object; null for another value, and for an object without it.
const JsonValue& member(const JsonValue& value, std::string_view name) {
  static const JsonValue kNull;
  if (!value.is_object()) return kNull;
  const JsonValue* key = value.items();
  for (std::size_t i = 0; i < value.size(); ++i, key = key->next()->next()) {
    if (key->text() == name) return *key->next();
  }
  return kNull;
}

std::string text_of(const JsonValue& value) {
  return value.is_text() || value.is_number() ? std::string(value.text()) : "";
}

std::vector<const JsonValue*> items_of(const JsonValue& list) {
  std::vector<const JsonValue*> items;
  if (!list.is_list()) return items;
  const JsonValue* item = list.items();
  for (std::size_t i = 0; i < list.size(); ++i, item = item->next()) items.push_back(item);
  return items;
}

// "Reason: message", without what is missing.
std::string words_of(const JsonValue& status) {
  const std::string reason = text_of(member(status, "reason"));
  const std::string message = text_of(member(status, "message"));
  if (reason.empty() || message.empty()) return reason + message;
  return fmt::format("{}: {}", reason, message);
}

// The state of a pod, read from its status.
struct Pod {
  std::string name;
  bool ready = false;
  std::string cause;      // why it is not ready; "": it is starting
  bool has_run = false;   // its container has started at least once
  bool hopeless = false;  // it will not start before its description is changed
};

const JsonValue& condition(const JsonValue& pod, std::string_view type) {
  for (const JsonValue* one : items_of(member(member(pod, "status"), "conditions"))) {
    if (text_of(member(*one, "type")) == type) return *one;
  }
  return member(JsonValue(), "");
}

bool restarts(const JsonValue& container) {
  const JsonValue& count = member(container, "restartCount");
  return count.is_number() && count.number() > 0;
}

Pod pod_of(const JsonValue& object) {
  const JsonValue& status = member(object, "status");
  Pod pod;
  pod.name = text_of(member(member(object, "metadata"), "name"));
  const bool is_leaving = !member(member(object, "metadata"), "deletionTimestamp").is_null();
  pod.ready = !is_leaving && text_of(member(condition(object, "Ready"), "status")) == "True";
  if (pod.ready) return pod;
  const std::string phase = text_of(member(status, "phase"));
  const JsonValue& scheduled = condition(object, "PodScheduled");
  if (is_leaving) pod.cause = "is being deleted";
  if (phase == "Failed" || phase == "Succeeded") {
    pod.cause = words_of(status).empty() ? phase : words_of(status);
  } else if (text_of(member(scheduled, "status")) == "False") {
    pod.cause = words_of(scheduled);
  }
  pod.has_run = phase != "Pending" && !phase.empty();
  for (const JsonValue* container : items_of(member(status, "containerStatuses"))) {
    if (restarts(*container)) pod.has_run = true;
    const JsonValue& waiting = member(member(*container, "state"), "waiting");
    const std::string reason = text_of(member(waiting, "reason"));
    if (reason.empty() || reason == "ContainerCreating") continue;
    pod.cause = words_of(waiting);
    pod.hopeless = reason == "InvalidImageName" || reason == "ErrImageNeverPull";
  }
  return pod;
}

struct PodKeys {
  std::string context, kubeconfig, name_space;
  std::uint32_t nodes = 1;
  std::string image;
  std::string cpu, memory;
  std::int64_t gpus = 0;
  std::vector<std::pair<std::string, std::string>> selector;
  std::vector<Json> tolerations;
  std::int64_t user = kFirstUserOfPeople;
  std::string storage, storage_class;  // a claim of each node; "": an emptyDir
  std::string volume, nfs, mount;      // data that all nodes see: an existing claim, or NFS
  bool results_on_volume = false;
  Duration timeout{};
};

// "key=value:Effect", "key:Effect" or "key=value", as `kubectl taint` writes them.
Json toleration(std::string_view text) {
  const std::string_view pair = text.substr(0, text.find(':'));
  const std::size_t equals = pair.find('=');
  Json::Fields fields{{"key", std::string(pair.substr(0, equals))}};
  if (equals == std::string_view::npos) {
    fields.emplace_back("operator", "Exists");
  } else {
    fields.emplace_back("operator", "Equal");
    fields.emplace_back("value", std::string(pair.substr(equals + 1)));
  }
  if (pair.size() < text.size())
    fields.emplace_back("effect", std::string(text.substr(pair.size() + 1)));
  return Json::object(fields);
}

bool has_volume(const PodKeys& keys) {
  return !keys.volume.empty() || !keys.nfs.empty();
}

void read_volume(config::TomlTable& table, PodKeys& keys) {
  keys.volume = table.string("volume");
  keys.nfs = table.string("nfs");
  keys.mount = table.string("mount", "/data");
  if (!keys.volume.empty() && !keys.nfs.empty())
    table.fail("nfs", "`volume` and `nfs` exclude each other", "keep one of them");
  if (!keys.nfs.empty() && keys.nfs.find(":/") == std::string::npos)
    table.fail("nfs", "'nfs' is no NFS folder", "write nfs = \"fs-1234.efs...amazonaws.com:/\"");
  constexpr std::array<std::string_view, 2> kPlaces{"nodes", "volume"};
  keys.results_on_volume = table.choice("results", kPlaces.front(), kPlaces) == kPlaces.back();
  if (keys.results_on_volume && !has_volume(keys))
    table.fail("results", "results = \"volume\" needs a volume", "write `volume` or `nfs`");
  // Patterns of data files begin with it.
  const bool is_plain = keys.mount.find_first_of("*?[]{}\\'\"\n") == std::string::npos;
  if (!keys.mount.starts_with('/') || keys.mount.ends_with('/') || keys.mount == kWork || !is_plain)
    table.fail("mount", "'mount' is no folder for a volume", "write mount = \"/data\"");
}

PodKeys read_keys(config::TomlTable& table, const ProvidedCluster& cluster) {
  PodKeys keys;
  if (!is_dns_label(cluster.name)) {
    table.fail("kind",
               fmt::format("'{}' cannot be the name of a cluster on Kubernetes", cluster.name),
               fmt::format("at the top of the file, write name = \"...\": lower-case letters, "
                           "digits and '-', at most {}",
                           kNameMax));
  }
  keys.context = table.string("context");
  keys.kubeconfig = table.string("kubeconfig");
  keys.name_space = table.string("namespace");
  keys.nodes = read_nodes_wanted(table);
  keys.image = table.string("image", kImage);
  keys.cpu = table.string("cpu");
  keys.memory = table.string("memory");
  keys.gpus = table.integer("gpus", 0, 0, kGpusMax);
  for (const std::string& pair : table.strings("node_selector", kListMax)) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      table.fail("node_selector", fmt::format("'{}' is no label", pair),
                 "write node_selector = [\"pool=train\"]");
    } else {
      keys.selector.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    }
  }
  for (const std::string& text : table.strings("tolerations", kListMax)) {
    if (text.empty() || text.front() == ':' || text.front() == '=')
      table.fail("tolerations", fmt::format("'{}' is no taint", text),
                 "write tolerations = [\"nvidia.com/gpu:NoSchedule\"]");
    keys.tolerations.push_back(toleration(text));
  }
  keys.user = table.integer("user", kFirstUserOfPeople, 1, kUsersMax);
  keys.storage = table.string("storage");
  keys.storage_class = table.string("storage_class");
  if (!keys.storage_class.empty() && keys.storage.empty())
    table.fail("storage_class", "`storage_class` needs `storage`", "write storage = \"50Gi\"");
  read_volume(table, keys);
  keys.timeout = read_create_timeout(table, kPodsTimeout);
  return keys;
}

// An error of kubectl, with the next step for those that people meet.
Error kubectl_error(const ProgramEnd& end, std::string_view doing) {
  Error error{Errc::kFailed, fmt::format("{}: {}", doing, end.cause("kubectl")), ""};
  const auto has = [&](std::string_view words) {
    return end.errors.find(words) != std::string::npos;
  };
  if (has("Unauthorized") || has("must be logged in") ||
      has("the server has asked for the client "
          "to provide credentials")) {
    error.code = Errc::kAuth;
    error.hint =
        "your login has expired or is not known: log in again as your cluster wants it (EKS: aws "
        "eks update-kubeconfig), and try: kubectl get pods";
  } else if (has("Forbidden") || has("forbidden")) {
    error.code = Errc::kAuth;
    error.hint = "docs/kubernetes.md lists the rights that paddlectl needs in the namespace";
  } else if (has("was refused") || has("no such host") || has("i/o timeout") ||
             has("Unable to connect")) {
    error.code = Errc::kUnreachable;
    error.hint = "check [provider] context, and that kubectl get pods works";
  } else if (has("context") && (has("does not exist") || has("was not found"))) {
    error.code = Errc::kUsage;
    error.hint = "kubectl config get-contexts lists them; set [provider] context";
  } else if (has("namespaces") && has("not found")) {
    error.code = Errc::kUsage;
    error.hint = "make it: kubectl create namespace NAME; or set [provider] namespace";
  } else if (has("unknown flag")) {
    error.code = Errc::kVersion;
    error.hint = "this kubectl is too old: install 1.20 or later";
  }
  return error;
}

class KubernetesProvider final : public Provider {
 public:
  KubernetesProvider(PodKeys keys, const ProvidedCluster& cluster)
      : keys_(std::move(keys)), name_(cluster.name), folder_(cluster.folder) {}

  std::string describe() const override {
    return fmt::format(
        "{} of {}{}", counted(keys_.nodes, "pod"),
        keys_.name_space.empty() ? "the current namespace" : "namespace " + keys_.name_space,
        keys_.context.empty() ? "" : ", context " + keys_.context);
  }

  Result<std::string> plan(const ProviderWork& /*work*/) const override {
    std::string text = fmt::format(
        "Service/{0}: gives the pods names\nStatefulSet/{0}: {1} of {2}, user {3}, {4}\n", name_,
        counted(keys_.nodes, "pod"), keys_.image, keys_.user,
        fmt::format("cpu {}, memory {}{}", keys_.cpu.empty() ? "as there is" : keys_.cpu,
                    keys_.memory.empty() ? "as there is" : keys_.memory,
                    keys_.gpus == 0 ? "" : ", " + counted(std::size_t(keys_.gpus), "GPU")));
    text += keys_.storage.empty()
                ? fmt::format("{} in each pod: empty, and lost with the pod\n", kWork)
                : fmt::format("PersistentVolumeClaim/work-{}-N: {} for {} of each pod\n", name_,
                              keys_.storage, kWork);
    if (!keys_.volume.empty())
      text += fmt::format("{} in each pod: claim {}, which stays\n", keys_.mount, keys_.volume);
    if (!keys_.nfs.empty()) {
      text += fmt::format("PersistentVolume and PersistentVolumeClaim/{}: {} on NFS at {}\n",
                          nfs_name(), keys_.nfs, keys_.mount);
    }
    return text;
  }

  Status create(const ProviderWork& work) const override {
    PADDLE_TRY(const std::string id, choose_id(work));
    work.progress(fmt::format("asking Kubernetes for {}", describe()));
    ProgramCall call = call_of({"apply", "--server-side", "--field-manager", kManager,
                                "--force-conflicts", "--validate=true", "-f", "-"},
                               work);
    call.input = manifest(id).text();
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (!end.ok()) return kubectl_error(end, "cannot make the pods");
    return wait_until_ready(work);
  }

  // Every pod of the StatefulSet, also one that does not run now: `kubectl exec` says why it cannot
  // be reached, and a pod that replaces it has the same name.
  Result<std::vector<ProvidedNode>> list() const override {
    PADDLE_TRY(const Got got, get({"statefulsets,pods", "-l", selector()}, {}));
    std::map<std::string, Pod> pods;
    bool has_set = false;
    for (const JsonValue* item : got.items()) {
      if (text_of(member(*item, "kind")) == "StatefulSet") has_set = true;
      if (text_of(member(*item, "kind")) != "Pod") continue;
      Pod pod = pod_of(*item);
      pods[pod.name] = std::move(pod);
    }
    std::vector<ProvidedNode> nodes;
    for (std::uint32_t i = 0; i < keys_.nodes && has_set; ++i) {
      const Pod& pod = pods[pod_name(i)];
      ProvidedNode node;
      node.name = pod_name(i);
      // A claim may hold what an earlier pod of this name left.
      if (!pod.ready) {
        node.state =
            fmt::format("{}: {}", pod.has_run || !keys_.storage.empty() ? "down" : "pending",
                        pod.cause.empty() ? "it is not ready" : pod.cause);
      }
      node.table = fmt::format("name = {}\nlauncher = {}\n", toml_text(node.name),
                               toml_list(launcher_of(node.name)));
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  Status destroy(const ProviderWork& work) const override {
    work.progress("deleting the pods");
    PADDLE_TRY_STATUS(remove("statefulsets,services,pods,persistentvolumeclaims", work));
    if (keys_.nfs.empty()) return {};
    return remove("persistentvolumes", work);
  }

  std::string cause_of_loss(const std::string& node) const override {
    const auto pod = get({"pod", node}, {});
    std::string cause;
    if (pod && pod->is_object) {
      const Pod known = pod_of(pod->object());
      cause = known.cause;
      for (const JsonValue* container :
           items_of(member(member(pod->object(), "status"), "containerStatuses"))) {
        const std::string last = words_of(member(member(*container, "lastState"), "terminated"));
        if (cause.empty() && !last.empty()) cause = "its container ended: " + last;
      }
    }
    if (cause.empty()) {
      const std::string about = "involvedObject.kind=Pod,involvedObject.name=" + node;
      cause = newest_events(about, {})["Pod/" + node];
    }
    if (cause.empty() && pod && !pod->is_object) cause = "the pod does not exist any more";
    return cause;
  }

  std::string workdir() const override {
    return keys_.results_on_volume ? keys_.mount + "/paddlectl" : "";
  }
  bool keeps(const std::string& folder) const override {
    return has_volume(keys_) && folder.starts_with(keys_.mount + "/");
  }
  std::string shared_folder() const override { return has_volume(keys_) ? keys_.mount : ""; }
  bool shares_workdir() const override { return true; }

 private:
  // An object or a list that kubectl printed; none if it does not exist.
  struct Got {
    std::unique_ptr<JsonReader> reader;
    bool is_object = false;
    const JsonValue& object() const { return reader->object(); }
    std::vector<const JsonValue*> items() const {
      const JsonValue* const list = is_object ? reader->find(0) : nullptr;
      return list == nullptr ? std::vector<const JsonValue*>() : items_of(*list);
    }
  };

  std::string pod_name(std::uint32_t number) const { return fmt::format("{}-{}", name_, number); }
  // A PersistentVolume has no namespace, so its name contains that of the cluster's.
  std::string nfs_name() const {
    return fmt::format("{}-{}-nfs", keys_.name_space.empty() ? "default" : keys_.name_space, name_);
  }

  std::vector<std::string> launcher_of(const std::string& pod) const {
    std::vector<std::string> words = kubectl();
    words.insert(words.end(), {"exec", "-i", pod, "-c", "node", "--"});
    return words;
  }

  // kubectl with the user's credentials: paddlectl reads none of them.
  std::vector<std::string> kubectl() const {
    std::vector<std::string> words{"kubectl"};
    if (!keys_.kubeconfig.empty()) {
      const bool is_relative =
          !keys_.kubeconfig.starts_with('/') && !keys_.kubeconfig.starts_with('~');
      const std::string path = is_relative ? folder_ + "/" + keys_.kubeconfig : keys_.kubeconfig;
      words.insert(words.end(), {"--kubeconfig", path});
    }
    if (!keys_.context.empty()) words.insert(words.end(), {"--context", keys_.context});
    if (!keys_.name_space.empty()) words.insert(words.end(), {"--namespace", keys_.name_space});
    return words;
  }

  ProgramCall call_of(const std::vector<std::string>& words, const ProviderWork& work) const {
    ProgramCall call{
        .arguments = kubectl(), .timeout = kCallTimeout, .interrupted = work.interrupted};
    call.arguments.insert(call.arguments.end(), words.begin(), words.end());
    return call;
  }

  Result<Got> get(const std::vector<std::string>& what, const ProviderWork& work) const {
    std::vector<std::string> words{"get"};
    words.insert(words.end(), what.begin(), what.end());
    words.insert(words.end(), {"-o", "json", "--ignore-not-found"});
    PADDLE_TRY(const ProgramEnd end, run_program(call_of(words, work)));
    if (!end.ok()) return kubectl_error(end, fmt::format("kubectl get {}", what.front()));
    Got got{std::make_unique<JsonReader>(std::vector<std::string>{"items"}), false};
    got.is_object = end.output.find('{') != std::string::npos;
    if (!got.is_object) return got;
    PADDLE_TRY_STATUS(got.reader->read(end.output).with("the answer of kubectl"));
    return got;
  }

  // Labels that all objects carry; destroy() looks for the first two.
  Json labels(const std::string& id) const {
    return Json::object({{kManagedBy, kManager}, {kClusterLabel, name_}, {kIdLabel, id}});
  }
  std::string selector() const {
    return fmt::format("{}={},{}={}", kManagedBy, kManager, kClusterLabel, name_);
  }

  // The id of the StatefulSet that is there, or else a new one. kUsage: it is not ours, or up
  // would take nodes away.
  Result<std::string> choose_id(const ProviderWork& work) const {
    PADDLE_TRY(const Got set, get({"statefulset", name_}, work));
    if (!set.is_object) {
      PADDLE_TRY(const std::string fresh, random_id());
      return fresh;
    }
    const JsonValue& found = member(member(set.object(), "metadata"), "labels");
    if (text_of(member(found, kManagedBy)) != kManager ||
        text_of(member(found, kClusterLabel)) != name_) {
      return Error{Errc::kUsage,
                   fmt::format("StatefulSet {} is there already and is not paddlectl's", name_),
                   "give the cluster another name, at the top of its file"};
    }
    const JsonValue& replicas = member(member(set.object(), "spec"), "replicas");
    if (replicas.is_number() && replicas.number() > keys_.nodes) {
      return Error{
          Errc::kUsage,
          fmt::format("the cluster has {} nodes; up takes none away, because what is on "
                      "them would be lost",
                      text_of(replicas)),
          fmt::format("write nodes = {}, or run paddlectl teardown first", text_of(replicas))};
    }
    return text_of(member(found, kIdLabel));
  }

  static Result<std::string> random_id() {
    std::array<std::byte, 4> bytes{};
    PADDLE_TRY_STATUS(fill_random(bytes));
    return to_hex(bytes);
  }

  Json metadata(const std::string& name, const std::string& id) const {
    return Json::object({{"name", name}, {"labels", labels(id)}});
  }

  Json manifest(const std::string& id) const {
    std::vector<Json> items{
        Json::object(
            {{"apiVersion", "v1"},
             {"kind", "Service"},
             {"metadata", metadata(name_, id)},
             {"spec", Json::object({{"clusterIP", "None"},
                                    {"publishNotReadyAddresses", true},
                                    {"selector", Json::object({{kClusterLabel, name_}})}})}}),
        stateful_set(id)};
    if (!keys_.nfs.empty()) {
      for (Json& one : nfs_volume(id)) items.push_back(std::move(one));
    }
    return Json::object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", Json::list(items)}});
  }

  Json stateful_set(const std::string& id) const {
    Json::Fields spec{
        {"serviceName", name_},
        {"replicas", keys_.nodes},
        {"podManagementPolicy", "Parallel"},
        // A changed file never restarts pods in which a job may run.
        {"updateStrategy", Json::object({{"type", "OnDelete"}})},
        {"selector", Json::object({{"matchLabels", Json::object({{kManagedBy, kManager},
                                                                 {kClusterLabel, name_}})}})},
        {"template", Json::object({{"metadata", Json::object({{"labels", labels(id)}})},
                                   {"spec", pod_spec()}})}};
    if (!keys_.storage.empty()) {
      Json::Fields claim{
          {"accessModes", Json::list({"ReadWriteOnce"})},
          {"resources", Json::object({{"requests", Json::object({{"storage", keys_.storage}})}})}};
      if (!keys_.storage_class.empty()) claim.emplace_back("storageClassName", keys_.storage_class);
      spec.emplace_back("volumeClaimTemplates",
                        Json::list({Json::object(
                            {{"metadata", metadata("work", id)}, {"spec", Json::object(claim)}})}));
    }
    return Json::object({{"apiVersion", "apps/v1"},
                         {"kind", "StatefulSet"},
                         {"metadata", metadata(name_, id)},
                         {"spec", Json::object(spec)}});
  }

  // A pod of the "restricted" standard: https://kubernetes.io/docs/concepts/security/
  // pod-security-standards/.
  Json pod_spec() const {
    Json::Fields spec{
        {"automountServiceAccountToken", false},
        {"enableServiceLinks", false},
        {"terminationGracePeriodSeconds", 30},
        {"securityContext",
         Json::object({{"runAsNonRoot", true},
                       {"runAsUser", keys_.user},
                       {"runAsGroup", keys_.user},
                       {"fsGroup", keys_.user},
                       {"seccompProfile", Json::object({{"type", "RuntimeDefault"}})}})},
        {"containers", Json::list({container()})}};
    std::vector<Json> volumes;
    const Json empty = Json::object({});
    if (keys_.storage.empty())
      volumes.push_back(Json::object({{"name", "work"}, {"emptyDir", empty}}));
    // NCCL and collective jobs on one node use shared memory; a container's default is 64 MB.
    volumes.push_back(
        Json::object({{"name", "shm"}, {"emptyDir", Json::object({{"medium", "Memory"}})}}));
    volumes.push_back(Json::object({{"name", "tmp"}, {"emptyDir", empty}}));
    if (const std::string claim = keys_.nfs.empty() ? keys_.volume : nfs_name(); !claim.empty()) {
      volumes.push_back(Json::object(
          {{"name", "data"}, {"persistentVolumeClaim", Json::object({{"claimName", claim}})}}));
    }
    spec.emplace_back("volumes", Json::list(volumes));
    if (!keys_.selector.empty()) {
      Json::Fields selector;
      for (const auto& [key, value] : keys_.selector) selector.emplace_back(key, value);
      spec.emplace_back("nodeSelector", Json::object(selector));
    }
    if (!keys_.tolerations.empty()) spec.emplace_back("tolerations", Json::list(keys_.tolerations));
    return Json::object(spec);
  }

  Json container() const {
    Json::Fields amounts;
    if (!keys_.cpu.empty()) amounts.emplace_back("cpu", keys_.cpu);
    if (!keys_.memory.empty()) amounts.emplace_back("memory", keys_.memory);
    if (keys_.gpus > 0) amounts.emplace_back("nvidia.com/gpu", std::to_string(keys_.gpus));
    const auto mounted = [](const char* name, std::string_view path) {
      return Json::object({{"name", name}, {"mountPath", path}});
    };
    std::vector<Json> mounts{mounted("work", kWork), mounted("shm", "/dev/shm"),
                             mounted("tmp", "/tmp")};
    if (has_volume(keys_)) mounts.push_back(mounted("data", keys_.mount));
    Json::Fields fields{
        {"name", "node"},
        {"image", keys_.image},
        {"command", Json::list({"/bin/sh", "-c", kWait})},
        {"env", Json::list({Json::object({{"name", "HOME"}, {"value", kWork}})})},
        {"securityContext",
         Json::object({{"allowPrivilegeEscalation", false},
                       {"readOnlyRootFilesystem", true},
                       {"capabilities", Json::object({{"drop", Json::list({"ALL"})}})}})},
        {"volumeMounts", Json::list(mounts)}};
    // Requests equal limits, so that the pod is the last to be evicted.
    if (!amounts.empty()) {
      fields.emplace_back("resources", Json::object({{"requests", Json::object(amounts)},
                                                     {"limits", Json::object(amounts)}}));
    }
    return Json::object(fields);
  }

  std::vector<Json> nfs_volume(const std::string& id) const {
    const std::size_t colon = keys_.nfs.find(":/");
    const Json capacity = Json::object({{"storage", "1Ti"}});  // NFS ignores it, the API wants it
    const Json modes = Json::list({"ReadWriteMany"});
    return {Json::object(
                {{"apiVersion", "v1"},
                 {"kind", "PersistentVolume"},
                 {"metadata", metadata(nfs_name(), id)},
                 {"spec",
                  Json::object({{"capacity", capacity},
                                {"accessModes", modes},
                                {"persistentVolumeReclaimPolicy", "Retain"},
                                {"storageClassName", ""},
                                {"mountOptions", Json::list(kNfsOptions)},
                                {"nfs", Json::object({{"server", keys_.nfs.substr(0, colon)},
                                                      {"path", keys_.nfs.substr(colon + 1)}})}})}}),
            Json::object(
                {{"apiVersion", "v1"},
                 {"kind", "PersistentVolumeClaim"},
                 {"metadata", metadata(nfs_name(), id)},
                 {"spec", Json::object({{"accessModes", modes},
                                        {"storageClassName", ""},
                                        {"volumeName", nfs_name()},
                                        {"resources", Json::object({{"requests", capacity}})}})}})};
  }

  // Pods by number; one that is not there has the StatefulSet's reason.
  Result<std::vector<Pod>> look(const ProviderWork& work) const {
    PADDLE_TRY(const Got list, get({"pods", "-l", selector()}, work));
    std::vector<Pod> pods(keys_.nodes);
    for (std::uint32_t i = 0; i < keys_.nodes; ++i) pods[i].name = pod_name(i);
    std::set<std::string> seen;
    for (const JsonValue* item : list.items()) {
      Pod pod = pod_of(*item);
      const auto place = std::ranges::find(pods, pod.name, &Pod::name);
      if (place == pods.end()) continue;
      seen.insert(pod.name);
      *place = std::move(pod);
    }
    const auto is_unexplained = [](const Pod& pod) { return !pod.ready && pod.cause.empty(); };
    if (std::ranges::none_of(pods, is_unexplained)) return pods;
    std::map<std::string, std::string> warnings = newest_events("type=Warning", work);
    for (Pod& pod : pods) {
      if (!is_unexplained(pod)) continue;
      pod.cause = warnings[seen.contains(pod.name) ? "Pod/" + pod.name : "StatefulSet/" + name_];
    }
    return pods;
  }

  // The newest event about each object ("Pod/train-0") that names a trouble or an end. "Killing"
  // counts only where no other event says why.
  std::map<std::string, std::string> newest_events(const std::string& field_selector,
                                                   const ProviderWork& work) const {
    std::map<std::string, std::string> newest, times;
    const auto list = get({"events", "--field-selector", field_selector}, work);
    if (!list) return newest;
    for (const JsonValue* event : list->items()) {
      const std::string reason = text_of(member(*event, "reason"));
      const bool is_cause = text_of(member(*event, "type")) == "Warning" || reason == "Preempted" ||
                            reason == "Evicted" || reason == "TaintManagerEviction";
      if (!is_cause && reason != "Killing") continue;
      std::string time = text_of(member(*event, "lastTimestamp"));
      if (time.empty()) time = text_of(member(*event, "eventTime"));
      if (!is_cause) time.clear();
      const JsonValue& object = member(*event, "involvedObject");
      const std::string name =
          text_of(member(object, "kind")) + "/" + text_of(member(object, "name"));
      if (newest.contains(name) && time < times[name]) continue;
      times[name] = std::move(time);
      newest[name] = words_of(*event);
    }
    return newest;
  }

  Status wait_until_ready(const ProviderWork& work) const {
    const TimePoint deadline = std::chrono::steady_clock::now() + keys_.timeout;
    for (;;) {
      PADDLE_TRY(const std::vector<Pod> pods, look(work));
      const auto ready = static_cast<std::size_t>(std::ranges::count_if(pods, &Pod::ready));
      if (ready == pods.size()) return {};
      const auto waits = std::ranges::find_if(
          pods, [](const Pod& pod) { return !pod.ready && !pod.cause.empty(); });
      work.progress(fmt::format(
          "{} of {} pods ready{}", ready, pods.size(),
          waits == pods.end() ? "" : fmt::format("; {}: {}", waits->name, waits->cause)));
      const bool is_hopeless = std::ranges::any_of(pods, &Pod::hopeless);
      if (work.interrupted())
        return Error{Errc::kInterrupted, "interrupted; what was made stays",
                     "paddlectl up goes on with it, paddlectl teardown removes it"};
      if (is_hopeless || std::chrono::steady_clock::now() >= deadline) return not_ready(pods);
      work.pause(kLook);
    }
  }

  Error not_ready(const std::vector<Pod>& pods) const {
    std::vector<std::string> lines;
    for (const Pod& pod : pods) {
      if (pod.ready) continue;
      lines.push_back(
          fmt::format("{}: {}", pod.name, pod.cause.empty() ? "it is not ready yet" : pod.cause));
    }
    return {Errc::kUnreachable, fmt::format("{}", fmt::join(lines, "\n")),
            "correct the cause and run paddlectl up again"};
  }

  // kubectl waits until the objects are gone.
  Status remove(std::string_view kinds, const ProviderWork& work) const {
    const auto limit = std::chrono::ceil<std::chrono::seconds>(keys_.timeout);
    ProgramCall call =
        call_of({"delete", std::string(kinds), "-l", selector(), "--ignore-not-found",
                 "--wait=true", fmt::format("--timeout={}s", limit.count())},
                work);
    call.timeout = limit + kCallTimeout;
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (end.ok()) return {};
    Error error = kubectl_error(end, "cannot delete the pods");
    if (end.errors.find("timed out waiting") == std::string::npos) return error;
    error.code = Errc::kUnreachable;
    error.hint = fmt::format(
        "if the machine of a pod is gone for good: kubectl delete pods -l {} --force", selector());
    return error;
  }

  PodKeys keys_;
  std::string name_;
  std::string folder_;
};

}  // namespace

std::shared_ptr<const Provider> read_kubernetes_provider(config::TomlTable& table,
                                                         const ProvidedCluster& cluster) {
  return std::make_shared<KubernetesProvider>(read_keys(table, cluster), cluster);
}

}  // namespace paddle::cli
