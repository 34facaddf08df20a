// metrics: the state of all jobs for Prometheus, printed once or kept in a file for node_exporter.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/tree.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/console/time_text.h"
#include "cli/dashboard/cluster_watch.h"
#include "cli/dashboard/reconnection.h"
#include "cli/job/settings.h"
#include "cli/report/prometheus.h"
#include "cli/watch/process_state.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

struct MetricsOptions {
  JobTarget target;
  std::string textfile;                   // a folder; "": prints the text once
  std::optional<std::uint32_t> interval;  // seconds
};

constexpr std::uint32_t kInterval = 15;  // seconds, without --interval

OptionList metrics_options(MetricsOptions& options) {
  return {cluster_option(options.target.cluster),
          on_option(options.target.on),
          job_option(options.target),
          {.name = "job",
           .help = "only this job; default: all",
           .target = &options.target.job,
           .value_name = "JOB",
           .excludes = {"--job"}},
          {"--textfile", "keep DIR/paddlectl-CLUSTER.prom for node_exporter until Ctrl-C",
           &options.textfile, "DIR"},
          {"--interval", "time between two writes of that file; default: 15s", &options.interval,
           kDuration, 1, 3600}};
}

// The jobs of the cluster, as the nodes know them. A job that has ended is read once.
class JobsOfCluster {
 public:
  // only: a job's name; "": all jobs.
  JobsOfCluster(Context& context, ClusterSession& session, std::string only)
      : context_(context), session_(session), only_(std::move(only)) {}

  // Nodes that fail keep their errors.
  void look() {
    std::map<std::string, std::vector<ProcessOnNode>> found;
    for (ProcessOnNode& process : session_.processes(only_))
      found[process.status.job].push_back(std::move(process));
    std::erase_if(jobs_, [&](const auto& job) { return !found.contains(job.first); });
    for (const auto& [name, processes] : found) {
      auto& known = jobs_.try_emplace(name, Known{JobView(name)}).first->second;
      const auto starts = starts_of(processes);
      const bool is_changed = known.starts != starts;
      if (is_changed) known.record = record_of(processes);
      const bool runs = std::ranges::any_of(processes, is_running, &ProcessOnNode::status);
      known.are_all_seen = size_of_job(processes).all_seen;
      if (is_changed || runs || known.view.any_running()) known.view.look(context_, session_);
      known.starts = starts;
    }
    ask_for_facts();
  }

  std::string text(const ClusterSpec& cluster) const {
    std::vector<JobMetrics> jobs;
    const bool sees_all = session_.unreachable() == 0;
    for (const auto& [name, job] : jobs_)
      jobs.push_back({&job.view, job.record, !sees_all && !job.are_all_seen});
    std::vector<NodeMetrics> nodes = nodes_;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Member& member = session_.members()[i];
      nodes[i].node = member.spec.name;
      nodes[i].is_up = member.client && !member.error;
    }
    return prometheus_text(cluster.name, jobs, nodes);
  }

 private:
  // The number of starts of each process, by name.
  using Starts = std::map<std::string, std::pair<std::uint64_t, std::uint32_t>>;
  struct Known {
    JobView view;
    RunRecord record = {};
    Starts starts = {};
    bool are_all_seen = false;  // its processes
  };

  static Starts starts_of(const std::vector<ProcessOnNode>& processes) {
    Starts starts;
    for (const ProcessOnNode& process : processes)
      starts[process.status.name] = {process.status.run, process.status.incarnation};
    return starts;
  }

  RunRecord record_of(const std::vector<ProcessOnNode>& processes) const {
    for (const ProcessOnNode& process : processes) {
      const Member& member = session_.members()[process.member];
      if (process.status.name == "trainer-0" && member.client)
        return record_on_node(*member.client, process.status.job);
    }
    return {};
  }

  // The facts of a node do not change while it lives, so each node is asked once.
  void ask_for_facts() {
    nodes_.resize(session_.members().size());
    (void)session_.each([&](Member& member) -> Status {
      NodeMetrics& node = nodes_[session_.index_of(member)];
      if (node.cores) return {};
      PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
      node.cores = facts.cores();
      node.memory_bytes = static_cast<double>(facts.memory_bytes());
      return {};
    });
  }

  Context& context_;
  ClusterSession& session_;
  const std::string only_;
  std::map<std::string, Known> jobs_;
  std::vector<NodeMetrics> nodes_;  // by member
};

// The file for node_exporter. Readers see a whole text at any time, and no file after the end; one
// that another writer has put there stays.
class TextFile {
 public:
  static Result<TextFile> open(const std::string& folder, const std::string& name) {
    TextFile file;
    file.path_ = folder + "/" + name;
    file.name_ = name;
    file.folder_ = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!file.folder_ && (errno == ENOENT || errno == ENOTDIR)) {
      return Error{
          Errc::kUsage, fmt::format("{} is no folder", folder),
          "make it, and start node_exporter with --collector.textfile.directory=" + folder};
    }
    if (!file.folder_ || ::faccessat(file.folder_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
      return not_writable(folder);
    remove_old_drafts(file.folder_.get());
    return file;
  }
  TextFile(TextFile&&) = default;
  TextFile& operator=(TextFile&&) = default;
  ~TextFile() { remove(); }

  // False if there is none, or if it is another writer's.
  bool remove() {
    struct stat info {};
    if (!folder_ || !written_ ||
        ::fstatat(folder_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return false;
    return mark_of(info) == *written_ && ::unlinkat(folder_.get(), name_.c_str(), 0) == 0;
  }

  const std::string& path() const { return path_; }

  // The mode is 0644 whatever the umask is, because node_exporter runs as another user.
  Status write(std::string_view text) {
    PADDLE_TRY(DraftFile draft, DraftFile::create(folder_.get()));
    PADDLE_TRY_STATUS(write_all(draft.fd(), as_bytes(text), TimePoint::max()));
    struct stat info {};
    if (::fstat(draft.fd(), &info) != 0) return not_writable(path_);
    PADDLE_TRY_STATUS(draft.commit(name_, 0644));
    written_ = mark_of(info);
    return {};
  }

 private:
  // The inode and the time of the write: another paddlectl's file has others.
  using Mark = std::tuple<dev_t, ino_t, std::int64_t, std::int64_t>;

  TextFile() = default;
  static Mark mark_of(const struct stat& info) {
    return {info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  }
  static Error not_writable(const std::string& folder) {
    Error error = system_error(Errc::kResource, "write into " + folder);
    error.hint = "let this user write there (chown or setfacl), or name another folder";
    return error;
  }

  UniqueFd folder_;
  std::string path_, name_;
  std::optional<Mark> written_;
};

Status keep_file(Context& context, JobsOfCluster& jobs, ClusterSession& session,
                 const ClusterSpec& cluster, const MetricsOptions& options) {
  session.set_patience(kWatchPatience);
  // Outlives the file, because its end waits for attempts to connect.
  Reconnection reconnection(context, kWatchPatience);
  PADDLE_TRY(TextFile file,
             TextFile::open(options.textfile, fmt::format("paddlectl-{}.prom", cluster.name)));
  const std::uint32_t interval = options.interval.value_or(kInterval);
  context.console.note(fmt::format("writing {} every {} until Ctrl-C", file.path(),
                                   span_text(std::int64_t{interval} * 1000)));
  if (context.note_interrupts) context.note_interrupts(false);  // the last note says enough
  while (!context.interrupted()) {
    jobs.look();
    if (auto written = file.write(jobs.text(cluster)); !written)
      return std::move(written).error().with("write " + file.path());
    context.pause(std::chrono::seconds(interval));
    reconnection.round(session, context.clock.now());
  }
  if (file.remove()) context.console.note(file.path() + " is removed");
  return {};
}

Status run_metrics(Context& context, const MetricsOptions& options) {
  if (options.interval && options.textfile.empty()) {
    return Error{Errc::kUsage, "--interval does nothing without --textfile",
                 "paddlectl metrics prints the text once; --textfile DIR keeps it in a file"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.target.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.target.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  (void)leave_out_as_up_did(context, session, cluster, options.target);
  const std::string& job = options.target.job;
  if (!job.empty() && session.unreachable() == 0) PADDLE_TRY_STATUS(choose_job(session, job));
  JobsOfCluster jobs(context, session, job);
  if (!options.textfile.empty()) return keep_file(context, jobs, session, cluster, options);
  jobs.look();
  const std::string text = jobs.text(cluster);
  context.console.raw(Json::object({{"cluster", cluster.name}, {"text", text}}), text);
  session.forgive_absent();
  return session.all_well();
}

}  // namespace

Command metrics_command() {
  return {"metrics", "print the state of all jobs for Prometheus, or keep it in a file",
          "  paddlectl metrics\n"
          "  paddlectl metrics --textfile /var/lib/prometheus/node-exporter",
          [] { return invocation(metrics_options, run_metrics); }};
}

}  // namespace paddle::cli
