#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/secret.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/selection.h"
#include "cli/commands/command.h"
#include "cli/commands/shared_options.h"
#include "cli/console/base64.h"
#include "cli/job/share_folder.h"
#include "cli/job/text_template.h"
#include "cli/job/workspace.h"
#include "engine/config/job_config.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kTemplateBytesMax = 1U << 20U;
// The image contains a shell, awk and getent; the engine itself is static.
constexpr const char* kImage = "debian:12-slim";

struct RenderOptions {
  std::string platform;
  std::string workspace = ".";
  std::string cluster;  // cluster file with the ports; "": none
  std::uint32_t trainers = 1;
  std::optional<std::uint32_t> pservers;  // nothing: 1, or 0 for an own program without [[table]]
  std::vector<std::string> overrides;
  std::string job;  // "": the workspace's name
  KubernetesJob kubernetes{.image = kImage};
};

OptionList render_options(RenderOptions& options) {
  return {
      {.name = "platform",
       .help = "kubernetes, slurm or openmpi",
       .target = &options.platform,
       .choices = {"kubernetes", "slurm", "openmpi"},
       .required = true},
      workspace_argument(options.workspace),
      {"--trainers", "number of trainers; default: 1", &options.trainers, "", 1, kProcessesMax},
      {"--pservers",
       "number of parameter servers (default: 1; for a program of your own without [[table]] "
       "none); 0 is for dense = \"collective\"",
       &options.pservers, "", 0, kProcessesMax},
      {"--cluster",
       "cluster file whose port, ports_num, ports_num_for_sparse and transport to use; default: "
       "7164, 1, 1 and sealed",
       &options.cluster, "FILE"},
      overrides_option(options.overrides),
      {"--name,--job", "the job's name; default: the workspace's", &options.job, "JOB"},
      {"--image",
       "kubernetes: container image with a shell, awk and getent; default: debian:12-slim",
       &options.kubernetes.image, "IMAGE"},
      {"--nfs", "kubernetes: print a volume and its claim for this NFS server, such as EFS",
       &options.kubernetes.nfs, "SERVER:/PATH"},
      {.name = "--claim",
       .help = "kubernetes: an existing volume claim; default: the job's name",
       .target = &options.kubernetes.claim,
       .value_name = "NAME",
       .excludes = {"--nfs"}},
      {"--secret", "kubernetes: an existing Secret with job.key; default: print one with a new key",
       &options.kubernetes.secret, "NAME"},
      {"--cpu", "kubernetes: cores that each pod requests; default: 1", &options.kubernetes.cpu,
       "CPU"},
      {"--memory", "kubernetes: memory of each pod, request and limit; default: 2Gi",
       &options.kubernetes.memory, "MEMORY"},
      {"--prepare", "kubernetes: print a Job that runs the workspace's prepare once on the volume",
       &options.kubernetes.has_data_job},
  };
}

// Nothing for other platforms. A manifest is printed with a key of its own for the job.
Result<KubernetesJob> kubernetes_job(const RenderOptions& options, const std::string& workspace,
                                     const std::string& folder) {
  KubernetesJob job = options.kubernetes;
  if (options.platform != "kubernetes") return job;
  PADDLE_TRY(job.pod, read_file(folder + "kubernetes_pod.sh", kTemplateBytesMax));
  std::error_code ignored;
  if (job.has_data_job && !std::filesystem::is_regular_file(workspace + "/prepare", ignored)) {
    return Error{Errc::kUsage, fmt::format("--prepare, but {} has no program prepare", workspace),
                 "leave it out, and copy the data to the volume"};
  }
  if (!job.secret.empty()) return job;
  PADDLE_TRY(const Secret key, Secret::generate());
  job.new_key = base64(key.reveal());
  return job;
}

Status run_render(Context& context, const RenderOptions& options) {
  PADDLE_TRY(const std::string_view name, platform_file(options.platform));
  const std::string workspace = (std::filesystem::path(context.directory) / options.workspace / "")
                                    .lexically_normal()
                                    .parent_path();
  PADDLE_TRY_STATUS(check_workspace(workspace));
  PADDLE_TRY(const config::JobConfig job,
             config::read_job(workspace + "/job.toml", options.overrides));
  const bool needs_pservers = job.command.empty() || !job.tables.empty();
  const std::uint32_t pservers = options.pservers.value_or(needs_pservers ? 1 : 0);
  PADDLE_TRY_STATUS(check_pservers(job, pservers));
  if (!job.requirements.empty()) {
    context.console.note(fmt::format(
        "[trainer] requirements is for paddlectl train only: here {} must be installed already",
        job.requirements));
  }
  if (job.notify) {
    context.console.note(
        "[notify] is for paddlectl train only: a rendered job has no supervisor that runs the "
        "command; see docs/notify.md");
  }
  const bool has_node_groups = job.has_node_groups() && job.command.empty();
  if (has_node_groups && options.platform == "kubernetes") {
    return Error{Errc::kUsage,
                 "[strategy] node_groups has no effect on kubernetes: pods of one node share "
                 "neither address nor memory, so each trainer would be its own group",
                 "leave it out: --set strategy.node_groups=false"};
  }
  const std::string folder = context.share + "/templates/platforms/";
  const auto text = read_file(folder + std::string(name), kTemplateBytesMax);
  if (!text || context.share.empty()) {
    return Error{Errc::kUsage, "cannot find templates/platforms of this paddlectl",
                 "they are in share/paddlectl of an installation, and in a source tree"};
  }
  std::string own_program;
  if (!job.command.empty()) {
    PADDLE_TRY(own_program, read_file(folder + "own_program.sh", kTemplateBytesMax));
  }
  PADDLE_TRY(const std::string endpoints, read_file(folder + "endpoints.sh", kTemplateBytesMax));
  PADDLE_TRY(KubernetesJob kubernetes, kubernetes_job(options, workspace, folder));
  PlatformJob rendered{
      .name =
          options.job.empty() ? std::filesystem::path(workspace).filename().string() : options.job,
      .workspace = workspace,
      .engine = context.engine,
      .trainers = options.trainers,
      .pservers = pservers,
      .overrides = options.overrides,
      .kubernetes = std::move(kubernetes),
      .command = job.command,
      .own_program = own_program,
      .endpoints = endpoints,
      .has_group = job.has_group() && job.command.empty(),
      .has_node_groups = has_node_groups,
      .lacks_statistics = job.command.empty() && config::lacks_statistics(job.data)};
  if (!options.cluster.empty()) {
    PADDLE_TRY(const ClusterSpec cluster, choose_cluster_file(context.directory, options.cluster));
    rendered.has_cluster = true;
    rendered.first_port = first_port_of(cluster);
    rendered.ports_num = cluster.ports_num;
    rendered.ports_num_for_sparse = cluster.ports_num_for_sparse;
    rendered.transport = cluster.transport;
  }
  // Pservers have no dense parameters.
  if (rendered.has_group || !job.tables.empty()) rendered.ports_num = 0;
  PADDLE_TRY(const std::string made, fill_template(name, *text, rendered));
  context.console.raw(Json::object({{"platform", options.platform}, {"text", made}}), made);
  return {};
}

}  // namespace

Command render_command() {
  return {"render", "print a manifest or script that starts a job on kubernetes, slurm or openmpi",
          "  paddlectl render slurm --trainers 8 --pservers 2 templates/word2vec > job.sh\n"
          "  paddlectl render openmpi --trainers 4 > run.sh; HOSTS=node1,node2 sh run.sh\n"
          "  paddlectl render kubernetes --nfs nfs.lab:/export > job.yaml\n"
          "  paddlectl render kubernetes --claim data --prepare --memory 8Gi > job.yaml",
          [] { return invocation(render_options, run_render); }};
}

}  // namespace paddle::cli
