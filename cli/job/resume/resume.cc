#include "cli/job/resume/resume.h"

#include <algorithm>
#include <atomic>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/unknown_nodes.h"
#include "cli/job/end_of_job.h"
#include "cli/job/folders.h"
#include "cli/job/passes.h"
#include "cli/job/start.h"
#include "cli/logs/reader.h"
#include "cli/watch/broken_start.h"
#include "cli/watch/lost_nodes.h"
#include "cli/watch/process_state.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

// Its pservers wait for trainers that nobody is about to start.
Status end_broken_start(Context& context, ClusterSession& session, const std::string& job,
                        const BrokenStart& broken) {
  context.console.note(describe(broken, job));
  return broken.running.empty() ? Status() : stop_job(session, job);
}

// "continuing after pass 2", from the snapshot that was chosen or, without a name, the newest.
void note_progress(Context& context, const std::vector<remote::FileEntry>& files,
                   std::string snapshot) {
  std::set<std::string> names;
  for (const remote::FileEntry& file : files) names.insert(file.path);
  const auto snapshots = snapshots_among(names);
  if (snapshot.empty() && !snapshots.empty()) snapshot = snapshots.back();
  const auto newest = parse_snapshot_name(snapshot);
  if (!newest) return;
  context.console.note(newest->is_whole ? fmt::format("continuing after pass {}", newest->pass + 1)
                                        : fmt::format("continuing in pass {}, after batch {}",
                                                      newest->pass + 1, newest->batch));
}

// Gives the damaged snapshots in whose places others come a name that no training reads.
Status set_aside(Context& context, Member& leader, const std::string& job,
                 const std::vector<std::string>& damaged) {
  if (damaged.empty()) return {};
  PADDLE_TRY(const auto files, leader.client->list_sizes(output_folder(job)));
  std::set<std::string> taken;
  for (const remote::FileEntry& file : files)
    taken.insert(file.path.substr(0, file.path.find('/')));
  for (const std::string& name : damaged) {
    std::string aside = name + ".damaged";
    for (int i = 2; taken.contains(aside); ++i) aside = fmt::format("{}.damaged-{}", name, i);
    PADDLE_TRY_STATUS(leader.client->move(fmt::format("{}/{}", output_folder(job), name),
                                          fmt::format("{}/{}", output_folder(job), aside)));
    context.console.note(
        fmt::format("{} of node {} is renamed to {}", name, leader.spec.name, aside));
  }
  return {};
}

// Nothing is seen of a node that was renamed: its processes of the job go on.
void note_unknown_nodes(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                        const std::string& job) {
  const auto processes = session.processes(job);
  if (!processes.empty() && missing_processes(processes).empty()) return;
  const std::string unknown =
      describe_unknown_nodes(context, session, cluster, AskedMachines::kFew);
  if (unknown.empty()) return;
  context.console.note(
      fmt::format("warning: {}; if {} still runs there, it goes on beside this run", unknown, job));
  context.console.note(hint_of_unknown_nodes(cluster));
}

}  // namespace

Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked, const std::string& output) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();  // the job never ran there, or was torn down
  PADDLE_TRY_STATUS(session.all_well());
  PreviousRun previous{asked, 0, {}};
  if (asked.empty()) {
    PADDLE_TRY(previous.job, choose_job(session, ""));
  }
  PADDLE_TRY_STATUS(check_job_name(previous.job));
  previous.settings = read_settings(session, previous.job, output + "/" + previous.job);
  if (!previous.settings) previous.settings = settings_of_processes(session, previous.job);
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    if (previous.settings)
      previous.settings->run = std::max(previous.settings->run, process.status.run);
  }
  previous.variables = variables_on_nodes(session, previous.job);
  if (const auto broken = find_broken_start(context, session, previous.job)) {
    PADDLE_TRY_STATUS(end_broken_start(context, session, previous.job, *broken));
    previous.trainers = broken->trainers;
    previous.pservers = broken->pservers;
    return previous;
  }
  std::uint32_t pservers = 0;
  bool is_told = false;  // how many the whole job had
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    if (is_running(process.status)) {
      return Error{Errc::kUsage, fmt::format("job {} still runs", previous.job),
                   fmt::format("follow it: paddlectl attach --job {0}; or end it: paddlectl stop "
                               "--job {0}",
                               previous.job)};
    }
    ++(is_pserver(process.status) ? pservers : previous.trainers);
  }
  // A node that is gone had some of them.
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    previous.trainers = std::max(previous.trainers, process.status.trainers);
    pservers = std::max(pservers, process.status.pservers);
    is_told = is_told || process.status.trainers > 0;
  }
  if (is_told || pservers > 0) previous.pservers = pservers;
  note_unknown_nodes(context, session, cluster, previous.job);
  PADDLE_TRY_STATUS(session.all_well());
  return previous;
}

Status check_changes(const std::string& job, const std::string& snapshot,
                     const std::vector<SettingChange>& changes, const std::string& workspace) {
  const auto from = parse_snapshot_name(snapshot);
  if (!from || from->is_whole) return {};
  const std::vector<SettingChange> refused = changes_of_order(changes);
  if (refused.empty()) return {};
  std::vector<std::string> named;
  std::string back;
  for (const SettingChange& change : refused) {
    named.push_back(describe(change));
    if (change.is_content) continue;
    back += change.key.starts_with("--") ? fmt::format(" {} {}", change.key, change.before)
                                         : fmt::format(" --set {}={}", change.key, change.before);
  }
  if (!workspace.empty()) back += " " + workspace;
  const bool has_content = std::ranges::any_of(refused, &SettingChange::is_content);
  return Error{
      Errc::kUsage,
      fmt::format("{} goes on in the middle of pass {}, where this may not change, or records "
                  "would be left out or trained twice: {}",
                  job, from->pass + 1, fmt::join(named, ", ")),
      fmt::format("{}end the pass as it began: paddlectl train --resume --name {}{}; change it "
                  "between two passes",
                  has_content ? "bring the former files back, and " : "", job, back)};
}

Result<bool> forget_broken_start(Context& context, const ClusterSpec& cluster,
                                 const std::string& job) {
  ClusterSession session = ClusterSession::find_all(context, cluster);
  session.forgive_absent();
  const auto broken = find_broken_start(context, session, job);
  if (!broken) return false;
  std::atomic<bool> has_results = false;
  PADDLE_TRY_STATUS(session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list_sizes(output_folder(job)));
    if (!files.empty()) has_results = true;
    return {};
  }));
  if (has_results) return false;
  PADDLE_TRY_STATUS(end_broken_start(context, session, job, *broken));
  PADDLE_TRY_STATUS(claim_old_name(context, session, job));
  PADDLE_TRY_STATUS(session.each(
      [&](Member& member) { return member.client->remove(job_folder(job) + "/proc"); }));
  PADDLE_TRY_STATUS(end_claims(session));
  return true;
}

Result<std::size_t> prepare_to_resume(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes, const JobPlan& plan,
                                      const SnapshotToPush& snapshot) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  Member& leader = *session.find_node(plan.trainers.front().node);
  PADDLE_CHECK(leader.client);
  if (!snapshot.items.empty()) {
    PADDLE_TRY_STATUS(set_aside(context, leader, plan.job, snapshot.replaced));
    remote::PushSource source(context.hash_cache);
    PADDLE_TRY(const remote::PushStats stats, leader.client->push(snapshot.items, source, nullptr));
    context.console.note(
        fmt::format("{} brought to {}: {} files", snapshot.name, leader.spec.name, stats.files));
  }
  PADDLE_TRY(const auto files, leader.client->list_sizes(output_folder(plan.job)));
  note_progress(context, files, snapshot.name);
  const auto metrics =
      read_metrics(*leader.client, plan.trainers.front().metrics, kMetricsBytesMax);
  return static_cast<std::size_t>(std::ranges::count(metrics, "test", &MetricsLine::kind));
}

Status forget_ended_processes(Context& context, const ClusterSpec& cluster,
                              const std::vector<std::size_t>& nodes, const std::string& job) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  return session.each(
      [&](Member& member) { return member.client->remove(job_folder(job) + "/proc"); });
}

}  // namespace paddle::cli
