#include "cli/report/prometheus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

// Indices in kFamilyTable.
enum class Family : std::size_t {
  kNodeUp,
  kNodeCores,
  kNodeMemory,
  kJobInfo,
  kJobRunning,
  kJobFailed,
  kJobProgress,
  kJobLeft,
  kJobStalled,
  kUp,
  kStarted,
  kRestarts,
  kMemory,
  kCores,
  kReceived,
  kSent,
  kSilent,
  kPass,
  kBatch,
  kTrainingCost,
  kEvaluator,
  kRate,
  kSlow,
  kTestCost,
  kTestEvaluator,
  kRows,
  kBytes,
  kPushes,
  kLag
};
constexpr std::size_t kFamilies = static_cast<std::size_t>(Family::kLag) + 1;

constexpr std::string_view kNodeLabels = "cluster, node";
constexpr std::string_view kJobLabels = "cluster, job_name";
constexpr std::string_view kProcessLabels = "cluster, job_name, node, role";
constexpr std::string_view kEvaluatorLabels = "cluster, job_name, node, role, evaluator";
constexpr std::string_view kPortLabels = "cluster, job_name, node, role, port";

// The samples of a job have the label job_name, because Prometheus gives each sample a label `job`
// of its own. No name ends with _total that can fall while its process lives: a pserver's pushes do
// when the job goes back to a savepoint.
constexpr std::array<MetricFamily, kFamilies> kFamilyTable{{
    {"paddle_node_up", "gauge", kNodeLabels, "1 while the agent of the node answers, else 0"},
    {"paddle_node_cores", "gauge", kNodeLabels, "processor cores of the node"},
    {"paddle_node_memory_bytes", "gauge", kNodeLabels, "memory of the node"},
    {"paddle_job_info", "gauge", "cluster, job_name, tags, commit, branch, changed",
     "always 1; the record of the run as labels"},
    {"paddle_job_running", "gauge", kJobLabels, "1 while a process of the job runs, else 0"},
    {"paddle_job_failed", "gauge", kJobLabels,
     "1 once a process of the job has failed for good, else 0"},
    {"paddle_job_progress_ratio", "gauge", kJobLabels,
     "part of all passes that is trained, 0 to 1"},
    {"paddle_job_time_left_seconds", "gauge", kJobLabels, "time to the end at the present pace"},
    {"paddle_job_stalled_processes", "gauge", kJobLabels,
     "processes that make no progress or give no sign of life"},
    {"paddle_process_up", "gauge", kProcessLabels, "1 while the process runs, else 0"},
    {"paddle_process_start_time_seconds", "gauge", kProcessLabels, "Unix time of its last start"},
    {"paddle_process_restarts_total", "counter", kProcessLabels, "its starts after the first"},
    {"paddle_process_resident_memory_bytes", "gauge", kProcessLabels,
     "memory in use, with all that it started"},
    {"paddle_process_cpu_cores", "gauge", kProcessLabels,
     "processor cores in use since the look before, or since its start"},
    {"paddle_process_network_received_bytes", "gauge", kProcessLabels,
     "received through the TCP connections that are open now"},
    {"paddle_process_network_sent_bytes", "gauge", kProcessLabels,
     "sent through the TCP connections that are open now"},
    {"paddle_process_silent_seconds", "gauge", kProcessLabels,
     "time since its last report, line of log or line of metrics"},
    {"paddle_trainer_pass", "gauge", kProcessLabels, "the pass that it trains, from 0"},
    {"paddle_trainer_batch", "gauge", kProcessLabels, "batches of that pass that it has trained"},
    {"paddle_trainer_cost", "gauge", kProcessLabels,
     "mean cost of the training since the pass began"},
    {"paddle_trainer_evaluator", "gauge", kEvaluatorLabels,
     "value of an evaluator on the training data since the pass began"},
    {"paddle_trainer_examples_per_second", "gauge", kProcessLabels,
     "training speed; 0 while it stalls or waits"},
    {"paddle_trainer_slow_ratio", "gauge", kProcessLabels,
     "speed of a slow trainer divided by the median of the others"},
    {"paddle_test_cost", "gauge", kProcessLabels, "mean cost of the last test on held-out data"},
    {"paddle_test_evaluator", "gauge", kEvaluatorLabels, "value of an evaluator of the last test"},
    {"paddle_pserver_rows", "gauge", kPortLabels, "rows in the sparse tables of a port"},
    {"paddle_pserver_table_bytes", "gauge", kPortLabels,
     "memory of the parameters and the optimizer's state of a port"},
    {"paddle_pserver_pushes", "gauge", kPortLabels,
     "pushes that a port has applied; falls when the job goes back to a savepoint"},
    {"paddle_pserver_lag", "histogram", kPortLabels,
     "batches that a port applied between a trainer's pull and its push"},
}};

// The text between the quotes of a label. Control characters and bytes that are not UTF-8 are
// written as \xNN, so no value can end its line, or make Prometheus refuse the whole text.
std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text.substr(0, kLabelBytesMax))) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string label(std::string_view name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, label_value(value));
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Also while other processes of the job wait for the one that failed.
bool has_failed(const JobView& view) {
  std::vector<ProcessOnNode> processes;
  for (const ProcessView& process : view.processes()) processes.push_back({0, process.status});
  return first_failure(processes) != nullptr && !is_stopped_job(processes);
}

std::int64_t newest_start(const JobView& view) {
  std::int64_t newest = 0;
  for (const ProcessView& process : view.processes())
    newest = std::max(newest, process.status.started_unix_ms);
  return newest;
}

// The running jobs, then the newest of the others.
std::vector<const JobMetrics*> shown_jobs(std::span<const JobMetrics> jobs) {
  std::vector<const JobMetrics*> running, ended;
  for (const JobMetrics& job : jobs) (job.view->any_running() ? running : ended).push_back(&job);
  std::ranges::stable_sort(ended, std::ranges::greater(),
                           [](const JobMetrics* job) { return newest_start(*job->view); });
  ended.resize(std::min(ended.size(), kEndedJobsMax));
  running.insert(running.end(), ended.begin(), ended.end());
  return running;
}

class Exposition {
  using enum Family;

 public:
  explicit Exposition(std::string_view cluster) : cluster_(label("cluster", cluster)) {}

  void add(const NodeMetrics& node) {
    const std::string own = cluster_ + "," + label("node", node.node);
    add(kNodeUp, own, node.is_up ? 1 : 0);
    add(kNodeCores, own, node.cores);
    add(kNodeMemory, own, node.memory_bytes);
  }

  void add(const JobMetrics& job) {
    const JobView& view = *job.view;
    const std::string own = cluster_ + "," + label("job_name", view.job());
    const bool runs = view.any_running();
    add(kJobInfo, own + "," + labels_of(job.record), 1);
    if (!runs && job.may_run) return;
    add(kJobRunning, own, runs ? 1 : 0);
    add(kJobFailed, own, has_failed(view) ? 1 : 0);
    if (!runs) return;
    const auto progress = view.progress();
    if (progress && progress->passes > 0) {
      const double done = progress->position() / static_cast<double>(progress->passes);
      add(kJobProgress, own, std::clamp(done, 0.0, 1.0));
    }
    if (const auto left = view.left_ms(); left && view.stalls().empty())
      add(kJobLeft, own, static_cast<double>(*left) / 1000);
    add(kJobStalled, own,
        static_cast<double>(std::ranges::count_if(
            view.processes(), [](const ProcessView& one) { return hangs(one.pace.pace); })));
    for (const ProcessView& process : view.processes())
      add(process, of_process(own, process.node, process.status.name));
    for (const SlowTrainer& slow : slow_trainers(view.processes()))
      add(kSlow, of_process(own, slow.node, slow.role), slow.rate / slow.median);
  }

  std::string text() const {
    std::string all;
    for (std::size_t i = 0; i < kFamilies; ++i) {
      if (samples_[i].empty()) continue;
      all += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", kFamilyTable[i].name,
                         kFamilyTable[i].help, kFamilyTable[i].type);
      all += samples_[i];
    }
    return all;
  }

 private:
  static std::string of_process(const std::string& job, std::string_view node,
                                std::string_view role) {
    return job + "," + label("node", node) + "," + label("role", role);
  }

  // Tags stand between commas, so that tags=~".*,lr-test,.*" finds one.
  static std::string labels_of(const RunRecord& record) {
    std::string tags = record.tags.empty() ? "" : ",";
    for (const std::string& tag : record.tags) tags += tag + ",";
    const auto& changed = record.git.is_changed;
    return fmt::format("{},{},{},{}", label("tags", tags), label("commit", record.git.commit),
                       label("branch", record.git.branch),
                       label("changed", !changed   ? ""
                                        : *changed ? "true"
                                                   : "false"));
  }

  // Each series once: a node may send a name twice, and Prometheus refuses that.
  void add(Family family, const std::string& labels, std::optional<double> value,
           std::string_view suffix = "") {
    if (!value) return;
    const auto index = static_cast<std::size_t>(family);
    const std::string series = fmt::format("{}{}{{{}}}", kFamilyTable[index].name, suffix, labels);
    if (seen_.insert(series).second)
      samples_[index] += fmt::format("{} {}\n", series, number_text(*value));
  }

  void add(const ProcessView& process, const std::string& own) {
    const remote::ProcessStatus& status = process.status;
    add(kUp, own, is_running(status) ? 1 : 0);
    add(kStarted, own, static_cast<double>(status.started_unix_ms) / 1000);
    add(kRestarts, own, std::max<double>(status.incarnation, 1) - 1);
    if (!is_running(status)) return;
    if (status.usage) {
      add(kMemory, own, static_cast<double>(status.usage->resident_bytes));
      add(kReceived, own, status.usage->received_bytes);
      add(kSent, own, status.usage->sent_bytes);
    }
    add(kCores, own, process.cores);
    if (process.heard_ms_ago) add(kSilent, own, static_cast<double>(*process.heard_ms_ago) / 1000);
    if (is_pserver(status)) return add_ports(process, own);
    if (const auto& progress = process.progress) {
      add(kPass, own, progress->pass);
      add(kBatch, own, static_cast<double>(progress->batch));
      if (progress->has_cost && (progress->batch > 0 || progress->cost != 0))
        add(kTrainingCost, own, progress->cost);
    }
    if (process.last) add_evaluators(kEvaluator, own, *process.last);
    add(kRate, own, process.rate());
    if (!process.last_test) return;
    add(kTestCost, own, process.last_test->cost);
    add_evaluators(kTestEvaluator, own, *process.last_test);
  }

  void add_evaluators(Family family, const std::string& own, const MetricsLine& line) {
    auto values = line.evaluators();
    values.resize(std::min(values.size(), kEvaluatorsShownMax));
    for (const auto& [name, value] : values)
      add(family, own + "," + label("evaluator", name), value);
  }

  void add_ports(const ProcessView& process, const std::string& own) {
    std::size_t ports = 0;
    for (const auto& [port, line] : process.ports) {
      if (++ports > kPortsShownMax) return;
      const std::string labels = own + "," + label("port", std::to_string(port));
      add(kRows, labels, line.number("rows").value_or(0));
      add(kBytes, labels, line.number("bytes").value_or(0));
      add(kPushes, labels, line.number("pushes").value_or(0));
      for (const auto& [key, values] : line.lists) {
        if (key == "lags") add_lags(values, labels);
      }
    }
  }

  // Buckets of lags 0, 1, 2-3, 4-7, ...: the upper bounds are powers of two less one.
  void add_lags(const std::vector<double>& counts, const std::string& own) {
    constexpr std::size_t kBucketsMax = 64;
    double total = 0;
    double sum = 0;  // a lower bound, from the buckets' lower ends
    for (std::size_t i = 0; i < std::min(counts.size(), kBucketsMax); ++i) {
      const double count = std::max(counts[i], 0.0);
      total += count;
      sum += i == 0 ? 0 : count * std::ldexp(1, static_cast<int>(i) - 1);
      const double bound = std::ldexp(1, static_cast<int>(i)) - 1;
      add(kLag, own + "," + label("le", number_text(bound)), total, "_bucket");
    }
    add(kLag, own + "," + label("le", "+Inf"), total, "_bucket");
    add(kLag, own, sum, "_sum");
    add(kLag, own, total, "_count");
  }

  std::string cluster_;
  std::array<std::string, kFamilies> samples_;
  std::set<std::string> seen_;
};

}  // namespace

std::span<const MetricFamily> metric_families() {
  return kFamilyTable;
}

std::string prometheus_text(std::string_view cluster, std::span<const JobMetrics> jobs,
                            std::span<const NodeMetrics> nodes) {
  Exposition page(cluster);
  for (const NodeMetrics& node : nodes) page.add(node);
  for (const JobMetrics* job : shown_jobs(jobs)) page.add(*job);
  return page.text();
}

}  // namespace paddle::cli
