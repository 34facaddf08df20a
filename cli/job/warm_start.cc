#include "cli/job/warm_start.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/job/folders.h"
#include "cli/job/passes.h"
#include "cli/job/result_files.h"
#include "cli/job/results.h"
#include "cli/job/whole_snapshot.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> snapshots_here(const fs::path& folder) {
  std::set<std::string> manifests;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "MANIFEST", error))
      manifests.insert(entry.path().filename().string() + "/MANIFEST");
  }
  return snapshots_among(manifests);
}

// The snapshot in `folder` and, if it is a delta, its base beside it.
Result<StartSnapshot> local_snapshot(const Context& context, fs::path folder, bool is_own_program) {
  folder = folder.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string shown = shown_path(context, folder.string());
  std::error_code ignored;
  if (!fs::exists(folder / "MANIFEST", ignored)) {
    const auto names = snapshots_here(folder);
    return Error{Errc::kUsage,
                 fmt::format("--from {} is not a snapshot: it has no file MANIFEST", shown),
                 names.empty() ? "name the folder of a pass, such as output/<job>/pass-00002"
                               : fmt::format("use a snapshot in it, {}: --from {}/{}",
                                             fmt::join(names, ", "), shown, names.back())};
  }
  StartSnapshot start{"", {folder.string()}};
  if (is_own_program) return start;
  auto manifest = snapshot::decode_manifest(manifest_here(folder.string()));
  if (!manifest) {
    Error error = std::move(manifest).error().with("--from " + shown);
    if (error.hint.empty()) error.hint = "fetch it again: paddlectl fetch --pass all";
    return error;
  }
  const std::string base = base_snapshot_of(manifest);
  if (base.empty()) return start;
  const fs::path full = folder.parent_path() / base;
  if (!fs::exists(full / "MANIFEST")) {
    return Error{Errc::kUsage,
                 fmt::format("--from {} is a delta of {}, which is not beside it", shown, base),
                 "fetch both: paddlectl fetch --pass all"};
  }
  start.folders.push_back(full.string());
  return start;
}

struct JobAndPass {
  std::string job;
  PassChoice pass;
};

Result<JobAndPass> split(const std::string& from) {
  const std::size_t colon = from.rfind(':');
  JobAndPass named{from.substr(0, colon), {}};
  if (colon != std::string::npos) {
    PADDLE_TRY(named.pass, parse_pass_choice(from.substr(colon + 1)));
  }
  if (check_job_name(named.job)) return named;
  return Error{
      Errc::kUsage,
      fmt::format("--from {}: the folder does not exist, and this is not a valid job name", from),
      "name the folder of a snapshot, or a job: --from word2vec-20260101-120000:pass-00002"};
}

}  // namespace

Result<StartSnapshot> find_start_snapshot(Context& context, const ClusterSpec& cluster,
                                          const std::string& from, std::size_t trainer_node,
                                          const std::string& output, bool is_own_program) {
  std::error_code ignored;
  const fs::path folder = fs::path(context.directory) / from;
  if (fs::is_directory(folder, ignored)) return local_snapshot(context, folder, is_own_program);
  PADDLE_TRY(const JobAndPass named, split(from));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  const auto processes = session.processes(named.job);
  ResultFiles found;
  PADDLE_TRY_STATUS(list_results(session, named.job, processes, found));
  LeftSnapshots left;
  PADDLE_TRY_STATUS(keep_passes(context, session, named.job, processes, named.pass, found, left));
  std::set<std::string> files;
  for (const auto& of_member : found.of_member) {
    for (const remote::FileEntry& file : of_member) files.insert(file.path);
  }
  const auto snapshots = snapshots_among(files);
  if (snapshots.empty() || !files.contains(snapshots.back() + "/MANIFEST")) {
    const auto here = snapshots_here(fs::path(output) / named.job);
    const std::string at = shown_path(context, output + "/" + named.job);
    return Error{Errc::kUsage,
                 fmt::format("--from {}: the nodes have no snapshot of a job '{}', and the folder "
                             "does not exist here",
                             from, named.job),
                 here.empty()
                     ? "list the jobs: paddlectl jobs"
                     : fmt::format("use the fetched snapshot: --from {}/{}", at, here.back())};
  }
  for (Member& member : session.members()) {
    if (member.node != trainer_node) continue;
    const auto& of_member = found.of_member[session.index_of(member)];
    const std::string manifest = snapshots.back() + "/MANIFEST";
    if (std::ranges::find(of_member, manifest, &remote::FileEntry::path) != of_member.end())
      return StartSnapshot{output_folder(named.job) + "/" + snapshots.back(), {}};
  }
  const auto fetched = fetch_results(context, session, named.job, output, named.pass);
  if (!fetched) return fetched.error();
  return local_snapshot(context, fs::path(output) / named.job / snapshots.back(), is_own_program);
}

}  // namespace paddle::cli
