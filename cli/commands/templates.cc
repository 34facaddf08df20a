// init and render: files made from the examples and templates beside paddlectl.
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cluster/cluster_file.h"
#include "cli/cluster/hostfile.h"
#include "cli/options/command.h"
#include "cli/options/shared_options.h"
#include "cli/workspace/share_folder.h"
#include "cli/workspace/text_template.h"
#include "cli/workspace/workspace.h"
#include "engine/config/job_config.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClusterFile = "cluster.toml";

struct InitOptions {
  std::string target;              // the file or folder to write; "": by default
  std::string workspace_template;  // "": a cluster file
  std::string hostfile;            // source of the cluster file; "": the example
  bool local = false;              // the example with nodes on this machine
  bool list = false;
};

OptionList init_options(InitOptions& options) {
  return {
      {"target",
       "the file or folder to write: a cluster file (cluster.toml), or with --template a workspace",
       &options.target},
      {"--template", "write a workspace from this template", &options.workspace_template},
      {.name = "--hostfile",
       .help = "write a cluster file from mpirun's or DeepSpeed's hostfile",
       .target = &options.hostfile,
       .value_name = "FILE",
       .excludes = {"--template"}},
      {.name = "--local",
       .help = "write a cluster file for nodes on this machine",
       .target = &options.local,
       .excludes = {"--template", "--hostfile"}},
      {"--list", "list the templates", &options.list},
  };
}

// Consecutive hosts "node01" ... "node16" with equal slots and user, written as one [[node]].
struct HostRun {
  HostfileEntry first;
  std::string head, tail;  // around the number; head is the whole host without one
  std::uint64_t number = 0;
  std::size_t digits = 0, count = 1;

  explicit HostRun(const HostfileEntry& entry) : first(entry), head(entry.host) {
    const std::size_t dot = entry.host.find('.');
    const std::string name = entry.host.substr(0, dot);
    std::size_t begin = name.size();
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
    digits = name.size() - begin;
    constexpr std::size_t kDigitsMax = 9;
    if (digits == 0 || digits > kDigitsMax || begin == 0) {  // no number, or an IP address
      digits = 0;
      return;
    }
    head = name.substr(0, begin);
    number = std::stoull(name.substr(begin));
    tail = entry.host.substr(name.size());
  }
  bool takes(const HostRun& next) const {
    return digits > 0 && next.digits == digits && next.head == head && next.tail == tail &&
           next.number == number + count && next.first.slots == first.slots &&
           next.first.user == first.user;
  }
  std::string pattern() const {
    if (count == 1) return first.host;
    return fmt::format("{}[{:0{}}-{:0{}}]{}", head, number, digits, number + count - 1, digits,
                       tail);
  }
};

std::string cluster_of(const std::vector<HostfileEntry>& entries, const std::string& hostfile) {
  std::vector<HostRun> runs;
  for (const HostfileEntry& entry : entries) {
    HostRun next(entry);
    if (!runs.empty() && runs.back().takes(next)) {
      ++runs.back().count;
    } else {
      runs.push_back(std::move(next));
    }
  }
  std::string text = fmt::format(
      "# Made from the hostfile {}. docs/cluster.md has every key.\n"
      "name = \"lab\"                       # our folder on every server is <workdir>/<name>\n"
      "workdir = \"~/.paddlectl\"\n"
      "port = {}                         # first port of a server's first pserver\n"
      "\n"
      "[ssh]                              # defaults; ~/.ssh/config is honoured\n"
      "# user = \"train\"\n"
      "# identity = \"~/.ssh/id_ed25519\"\n"
      "# jump = \"bastion.lab\"\n",
      escape_control(hostfile), kDefaultPort);
  for (const HostRun& run : runs) {
    text += fmt::format("\n[[node]]\nhost = \"{}\"\n", run.pattern());
    if (!run.first.user.empty()) text += fmt::format("user = \"{}\"\n", run.first.user);
    if (run.first.slots > 0) {
      text += fmt::format("capacity = {}  # trainers; the hostfile's slots\n", run.first.slots);
    }
  }
  return text;
}

Status write_cluster(Context& context, const InitOptions& options) {
  const std::string name = options.target.empty() ? kClusterFile : options.target;
  const std::string path = (fs::path(context.directory) / name).lexically_normal().string();
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    return Error{Errc::kUsage, name + " is there already",
                 "name another file: paddlectl init lab.toml"};
  }
  std::string text;
  if (!options.hostfile.empty()) {
    const auto hosts =
        read_file((fs::path(context.directory) / options.hostfile).string(), kHostfileBytesMax);
    if (!hosts) return Error{Errc::kUsage, hosts.error().message, "name a hostfile that is there"};
    PADDLE_TRY(const auto entries, parse_hostfile(*hosts, options.hostfile));
    text = cluster_of(entries, fs::path(options.hostfile).filename().string());
  } else {
    auto found = read_file(
        fmt::format("{}/clusters/{}.toml", context.share, options.local ? "local" : "ssh"));
    if (!found || context.share.empty()) {
      return Error{Errc::kUsage, "no example clusters beside this paddlectl",
                   "they are in share/paddlectl of an installation, and in a source tree"};
    }
    text = *std::move(found);
  }
  PADDLE_TRY(const ClusterSpec cluster, parse_cluster(text, name));
  PADDLE_TRY_STATUS(replace_file(path, as_bytes(text), 0644));
  context.console.result(
      Json::object({{"file", path}, {"nodes", cluster.nodes.size()}}),
      fmt::format("wrote {} with {}", name, counted(cluster.nodes.size(), "node")));
  context.console.note(fmt::format("next: {}, then: paddlectl up {}",
                                   options.local ? "look at it" : "put your servers into it",
                                   name));
  return {};
}

Status write_workspace(Context& context, const InitOptions& options) {
  const std::string name = options.target.empty() ? options.workspace_template : options.target;
  const std::string path = (fs::path(context.directory) / name).lexically_normal().string();
  PADDLE_TRY(const auto files, copy_template(context.share, options.workspace_template, path));
  context.console.result(
      Json::object({{"folder", path}, {"files", Json::list({files.begin(), files.end()})}}),
      fmt::format("wrote {} into {}", counted(files.size(), "file"), name));
  context.console.note(
      fmt::format("next: {0}/README.md says what it is; {0}/prepare makes its data; then: "
                  "paddlectl train {0}",
                  name));
  return {};
}

Status list_templates(Context& context) {
  PADDLE_TRY(const auto names, template_names(context.share));
  Table table{{{"template", "template"}, {"what it is", "summary"}}, {}};
  for (const std::string& name : names) {
    table.rows.push_back({text_cell(name), text_cell(template_summary(context.share, name))});
  }
  context.console.table(table);
  return {};
}

Status run_init(Context& context, const InitOptions& options) {
  if (options.list) return list_templates(context);
  return options.workspace_template.empty() ? write_cluster(context, options)
                                            : write_workspace(context, options);
}

constexpr std::size_t kTemplateBytesMax = 1U << 20U;
// Has a shell, awk and getent; the engine itself is static.
constexpr const char* kImage = "debian:12-slim";

struct RenderOptions {
  std::string platform;
  std::string workspace = ".";
  std::uint32_t trainers = 1, pservers = 1;
  std::vector<std::string> overrides;
  std::string job;             // "": the workspace's name
  std::string image = kImage;  // for kubernetes
};

OptionList render_options(RenderOptions& options) {
  return {
      {.name = "platform",
       .help = "kubernetes, slurm or openmpi",
       .target = &options.platform,
       .choices = {"kubernetes", "slurm", "openmpi"}},
      workspace_argument(options.workspace),
      {"--trainers", "number of trainers; default: 1", &options.trainers, "", 1, kProcessesMax},
      {"--pservers", "number of parameter servers; default: 1", &options.pservers, "", 1,
       kProcessesMax},
      overrides_option(options.overrides),
      {"--name", "the job's name; default: the workspace's", &options.job},
      {"--image", "container image for kubernetes, with a shell, awk and getent", &options.image},
  };
}

Status run_render(Context& context, const RenderOptions& options) {
  PADDLE_TRY(const std::string_view name, platform_file(options.platform));
  const std::string workspace =
      (fs::path(context.directory) / options.workspace / "").lexically_normal().parent_path();
  PADDLE_TRY_STATUS(check_workspace(workspace));
  PADDLE_TRY(const config::JobConfig job,
             config::read_job(workspace + "/job.toml", options.overrides));
  const auto text =
      read_file(fmt::format("{}/templates/platforms/{}", context.share, name), kTemplateBytesMax);
  if (!text || context.share.empty()) {
    return Error{Errc::kUsage, "no templates/platforms beside this paddlectl",
                 "they are in share/paddlectl of an installation, and in a source tree"};
  }
  const PlatformJob rendered{
      .name = options.job.empty() ? fs::path(workspace).filename().string() : options.job,
      .workspace = workspace,
      .engine = context.engine,
      .trainers = options.trainers,
      .pservers = options.pservers,
      .overrides = options.overrides,
      .image = options.image};
  PADDLE_TRY(const std::string made, fill_template(name, *text, rendered));
  context.console.raw(Json::object({{"platform", options.platform}, {"text", made}}), made);
  return {};
}

}  // namespace

Command init_command() {
  return {"init", "write a cluster file to edit, or a workspace from a template",
          "  paddlectl init\n"
          "  paddlectl init lab.toml --hostfile hosts\n"
          "  paddlectl init --template word2vec my-vectors",
          [] { return invocation(init_options, run_init); }};
}

Command render_command() {
  return {"render", "print a manifest or script that starts a job on kubernetes, slurm or openmpi",
          "  paddlectl render slurm --trainers 8 --pservers 2 templates/word2vec > word2vec.sh\n"
          "  paddlectl render openmpi --trainers 4 > run.sh; HOSTS=node1,node2 sh run.sh\n"
          "  paddlectl render kubernetes --image debian:12-slim --name vectors > vectors.yaml",
          [] { return invocation(render_options, run_render); }};
}

}  // namespace paddle::cli
