#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"
#include "cli/job/settings.h"
#include "cli/report/comparison.h"
#include "cli/report/report.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kComparedJobsMax = 1000;

struct CompareOptions {
  NodeTarget target;
  std::vector<std::string> jobs, tags;
  std::string output = "output", html, csv;
};

OptionList list_options(CompareOptions& options) {
  return {
      cluster_option(options.target.cluster),
      on_option(options.target.on),
      {"jobs", "the jobs; with --tag, more of them", &options.jobs, "JOB"},
      {"--tag", "all jobs that have this tag, here or on the nodes (repeatable: all of them)",
       &options.tags, "TAG"},
      output_option(options.output),
      {"--html", "write a page with the curves of all jobs over each other", &options.html, "FILE"},
      {"--csv", "write a table with a row for each job; -: to stdout", &options.csv, "FILE"}};
}

bool has_all(const RunRecord& record, const std::vector<std::string>& tags) {
  return std::ranges::all_of(tags, [&](const std::string& tag) { return record.has_tag(tag); });
}

void add_name(const std::string& name, std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// Jobs in the folder of results, by name.
std::vector<std::string> jobs_here(const std::string& output) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output, ignored)) {
    std::string name = entry.path().filename().string();
    if (entry.is_directory(ignored) && check_job_name(name)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

// The processes of jobs that the nodes were asked for, by job.
using SeenJobs = std::map<std::string, std::vector<ProcessOnNode>>;

// Adds the jobs of the cluster's nodes that have the tags, by the time of their start.
Status add_from_nodes(Context& context, const CompareOptions& options, const ClusterSpec& cluster,
                      std::vector<std::string>& names, SeenJobs& seen) {
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.target.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  (void)leave_out_as_up_did(context, session, cluster, options.target);
  for (const ProcessOnNode& process : session.processes("")) {
    const Member& member = session.members()[process.member];
    seen[process.status.job].push_back(process);
    if (process.status.name != "trainer-0" || !member.client) continue;
    if (has_all(record_on_node(*member.client, process.status.job), options.tags))
      add_name(process.status.job, names);
  }
  return session.all_well();
}

// The jobs to compare. kUsage: none is named, or none has the tags.
Result<std::vector<std::string>> names_of(Context& context, const CompareOptions& options,
                                          const std::string& output, SeenJobs& seen) {
  std::vector<std::string> names;
  for (const std::string& job : options.jobs) {
    PADDLE_TRY_STATUS(check_job_name(job));
    add_name(job, names);
  }
  if (options.tags.empty() && names.empty()) {
    return Error{Errc::kUsage, "no job is named",
                 "name jobs, or a tag that they have: paddlectl compare first second, or paddlectl "
                 "compare --tag lr-test"};
  }
  if (options.tags.empty()) return names;
  const std::size_t named = names.size();
  for (const std::string& job : jobs_here(output)) {
    if (has_all(read_run_record(output + "/" + job), options.tags)) add_name(job, names);
  }
  // Without a cluster, the jobs here are all there are.
  const bool has_cluster = !options.target.cluster.empty() || find_current(context.directory);
  Status asked;
  if (has_cluster) {
    const auto cluster = choose_cluster(context.directory, options.target.cluster);
    asked =
        cluster ? add_from_nodes(context, options, *cluster, names, seen) : Status(cluster.error());
  }
  if (names.size() == named) {
    if (!asked) return asked.error();
    return Error{Errc::kUsage,
                 fmt::format("no job has the tag {}", fmt::join(options.tags, " and ")),
                 "paddlectl jobs shows the tags of jobs; train --tag gives them"};
  }
  if (asked) return names;
  std::string nodes = asked.error().message;
  std::ranges::replace(nodes, '\n', ';');
  context.console.note("jobs of these nodes are not compared: " + nodes);
  return names;
}

// Fetches the job's logs and metrics, as `report` does.
Status fetch_job(Context& context, const CompareOptions& options, const std::string& output,
                 const std::string& job) {
  JobTarget target;
  static_cast<NodeTarget&>(target) = options.target;
  target.job = job;
  PADDLE_TRY(FoundJob found, find_job(context, target, Missing::kRefused));
  auto fetched = fetch_results(context, found.session, job, output, std::nullopt);
  if (!fetched) return std::move(fetched).error();
  const auto made = collect_report(context, found.session, job, output);
  return made ? Status() : made.error();
}

// The error for a job that is neither here nor on the nodes.
Error missing_job(const Context& context, const std::string& job, const std::string& output,
                  Error error) {
  const std::vector<std::string> here = jobs_here(output);
  const std::vector<std::string_view> known(here.begin(), here.end());
  const std::string near = nearest(job, known);
  error.message =
      fmt::format("job {} is not in {}{}: {}", job, shown_path(context, output),
                  near.empty() ? "" : fmt::format(", did you mean '{}'?", near), error.message);
  return error;
}

// The job as its folder has it, after a fetch if that is not all.
Result<ComparedJob> find_compared(Context& context, const CompareOptions& options,
                                  const std::string& output, const std::string& job,
                                  SeenJobs& seen) {
  PADDLE_TRY_STATUS(check_output_folder(context, output, job, "choose another --output"));
  const std::string folder = output + "/" + job;
  auto record = read_job_record(folder, job);
  if (record && is_whole_record(folder, *record) && is_record_of(*record, seen[job]))
    return compared_job(*record);
  if (Status fetched = fetch_job(context, options, output, job); !fetched) {
    if (!record) return missing_job(context, job, output, std::move(fetched).error());
    context.console.note(
        fmt::format("{} is compared as of its last fetch: {}", job, fetched.error().message));
    return compared_job(*record);
  }
  PADDLE_TRY(record, read_job_record(folder, job));
  return compared_job(*record);
}

void note_gaps(Context& context, const Comparison& comparison) {
  if (comparison.jobs.size() == 1) {
    context.console.note(
        fmt::format("only one job: no setting differs; name a second one, or see "
                    "its page: paddlectl report {}",
                    comparison.jobs.front().job));
  }
  std::vector<std::string> names;
  for (const ComparedJob& job : comparison.jobs) {
    if (job.evaluators.empty()) names.push_back(job.job);
  }
  if (names.empty()) return;
  context.console.note(fmt::format("no figures yet of {}: metrics begin with the first log point",
                                   fmt::join(names, ", ")));
}

Status write_text(Context& context, const std::string& file, const std::string& text,
                  std::string_view what) {
  const std::string path = (fs::path(context.directory) / file).lexically_normal().string();
  PADDLE_TRY_STATUS(replace_file(path, as_bytes(text), 0644));
  context.console.note(fmt::format("{}: {}", what, shown_path(context, path)));
  return {};
}

Status show(Context& context, const CompareOptions& options, const std::string& output,
            const Comparison& comparison) {
  if (!options.html.empty()) {
    PADDLE_TRY(const std::string page, comparison_page(comparison, context.share));
    PADDLE_TRY_STATUS(write_text(context, options.html, page, "page"));
  }
  const std::string csv = options.csv.empty() ? "" : comparison_csv(comparison);
  if (options.csv == "-") {
    context.console.raw(csv);
    return {};
  }
  if (!csv.empty()) PADDLE_TRY_STATUS(write_text(context, options.csv, csv, "table"));
  if (context.console.json()) {
    context.console.json_line(comparison_json(comparison, output));
    return {};
  }
  context.console.table(comparison_table(comparison));
  const std::string chart = comparison_chart(comparison, context.console.options().columns);
  if (!chart.empty()) context.console.raw("\n" + chart);
  return {};
}

Status run_compare(Context& context, const CompareOptions& options) {
  if (options.csv == "-" && context.console.json())
    return Error{Errc::kUsage, "--csv - and --json both write to stdout", "choose one of them"};
  const std::string output =
      (fs::path(context.directory) / options.output).lexically_normal().string();
  SeenJobs seen;
  PADDLE_TRY(const std::vector<std::string> names, names_of(context, options, output, seen));
  if (names.size() > kComparedJobsMax) {
    return Error{Errc::kUsage, fmt::format("{} jobs are too many to compare", names.size()),
                 fmt::format("name {} at most", kComparedJobsMax)};
  }
  std::vector<ComparedJob> jobs;
  for (const std::string& name : names) {
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    PADDLE_TRY(ComparedJob job, find_compared(context, options, output, name, seen));
    jobs.push_back(std::move(job));
  }
  const Comparison comparison = compare(std::move(jobs));
  note_gaps(context, comparison);
  return show(context, options, output, comparison);
}

}  // namespace

Command compare_command() {
  return {"compare", "compare jobs: settings that differ, best and last figures, curves",
          "  paddlectl compare first second\n"
          "  paddlectl compare --tag lr-test --html lr-test.html\n"
          "  paddlectl compare --tag lr-test --csv -",
          [] { return invocation(list_options, run_compare); }};
}

}  // namespace paddle::cli
