#include "cli/job/resume.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/fd.h"
#include "cli/job/end_of_job.h"
#include "cli/job/folders.h"
#include "cli/job/passes.h"
#include "cli/job/results.h"
#include "cli/job/start.h"
#include "cli/logs/reader.h"
#include "cli/watch/broken_start.h"
#include "cli/watch/process_state.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kManifestBytesMax = 64U << 20U;

struct FetchedSnapshot {
  std::string name;                  // "pass-00002"
  std::uint64_t pass = 0, step = 0;  // its progress in the job
  std::string base;                  // the snapshot it is a delta of; "": it is complete
};

// The snapshot with the most progress; without a name when there is none. Says which it passes
// over.
FetchedSnapshot newest_fetched(Context& context, const std::string& folder) {
  FetchedSnapshot newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    FetchedSnapshot found;
    found.name = entry.path().filename().string();
    if (!parse_snapshot_name(found.name)) continue;
    const auto text = read_file((entry.path() / "MANIFEST").string(), kManifestBytesMax);
    if (!text) {
      context.console.note(fmt::format("{} is passed over: its MANIFEST cannot be read",
                                       shown_path(context, entry.path().string())));
      continue;
    }
    found.pass = std::strtoull(manifest_field(*text, "progress", "pass").c_str(), nullptr, 10);
    found.step = std::strtoull(manifest_field(*text, "progress", "step").c_str(), nullptr, 10);
    found.base = manifest_field(*text, "base", "name");
    const bool is_newer = std::pair(found.pass, found.step) >= std::pair(newest.pass, newest.step);
    if (newest.name.empty() || is_newer) newest = found;
  }
  return newest;
}

void add_files(const std::string& folder, const std::string& name, const std::string& job,
               std::vector<remote::PushItem>& items) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / name, error)) {
    if (!entry.is_regular_file(error)) continue;
    const fs::path file = entry.path().lexically_relative(folder);
    items.push_back(
        {entry.path().string(), fmt::format("{}/{}", output_folder(job), file.string())});
  }
}

// By member, its newest snapshot with a MANIFEST; "" when it has none.
Result<std::vector<std::string>> newest_snapshots(ClusterSession& session, const std::string& job) {
  std::vector<std::string> newest(session.members().size());
  PADDLE_TRY_STATUS(session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list_sizes(output_folder(job)));
    std::set<std::string> names;
    for (const remote::FileEntry& file : files) names.insert(file.path);
    const auto snapshots = snapshots_among(names);
    if (!snapshots.empty() && names.contains(snapshots.back() + "/MANIFEST"))
      newest[session.index_of(member)] = snapshots.back();
    return {};
  }));
  return newest;
}

// The member of a trainer whose snapshot has more progress than that of `leader`.
std::optional<std::size_t> member_ahead(const std::vector<ProcessOnNode>& processes,
                                        const std::vector<std::string>& newest,
                                        std::size_t leader) {
  std::size_t best = leader;
  for (const ProcessOnNode& process : processes) {
    if (is_pserver(process.status)) continue;
    if (parse_snapshot_name(newest[process.member]) > parse_snapshot_name(newest[best]))
      best = process.member;
  }
  return best == leader ? std::nullopt : std::optional(best);
}

void note_copy(Context& context, const std::vector<ProcessOnNode>& processes, const Member& leader,
               std::size_t index) {
  const bool was_here = std::ranges::any_of(processes, [&](const ProcessOnNode& process) {
    return process.status.name == "trainer-0" && process.member == index;
  });
  if (processes.empty() || was_here) return;
  context.console.note(
      fmt::format("going on from the copy on node {}; trainer 0 was on another", leader.spec.name));
}

// Its pservers wait for trainers that nobody is about to start.
Status end_broken_start(Context& context, ClusterSession& session, const std::string& job,
                        const BrokenStart& broken) {
  context.console.note(describe(broken, job));
  return broken.running.empty() ? Status() : stop_job(session, job);
}

void note_progress(Context& context, const std::vector<remote::FileEntry>& files) {
  std::set<std::string> names;
  for (const remote::FileEntry& file : files) names.insert(file.path);
  const auto snapshots = snapshots_among(names);
  const auto newest = snapshots.empty() ? std::nullopt : parse_snapshot_name(snapshots.back());
  if (!newest) return;
  context.console.note(newest->is_whole ? fmt::format("continuing after pass {}", newest->pass + 1)
                                        : fmt::format("continuing in pass {}, after batch {}",
                                                      newest->pass + 1, newest->batch));
}

}  // namespace

Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();  // the job never ran there, or was torn down
  PADDLE_TRY_STATUS(session.all_well());
  PreviousRun previous{asked, 0, {}};
  if (asked.empty()) {
    PADDLE_TRY(previous.job, choose_job(session, ""));
  }
  if (const auto broken = find_broken_start(context, session, previous.job)) {
    PADDLE_TRY_STATUS(end_broken_start(context, session, previous.job, *broken));
    return PreviousRun{previous.job, broken->trainers, broken->pservers};
  }
  std::uint32_t pservers = 0;
  bool is_told = false;  // how many the whole job had
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    if (is_running(process.status)) {
      return Error{Errc::kUsage, fmt::format("job {} still runs", previous.job),
                   "follow it: paddlectl attach; or end it: paddlectl stop"};
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
  PADDLE_TRY_STATUS(session.all_well());
  return previous;
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
  PADDLE_TRY_STATUS(claim_old_name(session, job));
  PADDLE_TRY_STATUS(session.each(
      [&](Member& member) { return member.client->remove(job_folder(job) + "/proc"); }));
  PADDLE_TRY_STATUS(end_claims(session));
  return true;
}

Result<SnapshotToPush> find_snapshot_to_resume(Context& context, const ClusterSpec& cluster,
                                               const std::vector<std::size_t>& nodes,
                                               const std::string& job, std::size_t node,
                                               const std::string& output, bool has_copies) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  Member& leader = *session.find_node(node);
  const std::size_t index = session.index_of(leader);
  const auto processes = session.processes(job);
  PADDLE_TRY(const auto on_nodes, newest_snapshots(session, job));
  const auto ahead = has_copies ? member_ahead(processes, on_nodes, index) : std::nullopt;
  if (!on_nodes[index].empty() && !ahead) {
    note_copy(context, processes, leader, index);
    return SnapshotToPush();
  }
  const std::string folder = output + "/" + job;
  const bool was_here = fs::exists(folder);
  const auto fetched = fetch_results(context, session, job, output, PassChoice{}, ahead);
  if (!fetched) return fetched.error();
  const FetchedSnapshot newest = newest_fetched(context, folder);
  if (newest.name.empty()) {
    std::error_code ignored;
    if (!was_here && fetched->files == 0) fs::remove(folder, ignored);
    return Error{Errc::kUsage,
                 fmt::format("job {} has no snapshot, on its nodes or in {}", job,
                             shown_path(context, folder)),
                 "paddlectl jobs lists the jobs; start it again, without --resume"};
  }
  SnapshotToPush found{newest.name, {}};
  if (!newest.base.empty()) add_files(folder, newest.base, job, found.items);
  add_files(folder, newest.name, job, found.items);
  return found;
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
    remote::PushSource source(context.hash_cache);
    PADDLE_TRY(const remote::PushStats stats, leader.client->push(snapshot.items, source, nullptr));
    context.console.note(
        fmt::format("{} brought to {}: {} files", snapshot.name, leader.spec.name, stats.files));
  }
  PADDLE_TRY(const auto files, leader.client->list_sizes(output_folder(plan.job)));
  note_progress(context, files);
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
