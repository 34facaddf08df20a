#include "cli/job/removal.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/job/passes.h"
#include "cli/job/results.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kNamesOfALossMax = 3;
constexpr std::string_view kOutput = "output/";

// The files of a job on the nodes, below its folder.
struct JobFiles {
  std::map<std::size_t, std::map<std::string, std::uint64_t>> of_member;  // sizes by path
  std::string newest;                                                     // snapshot, or ""
};

std::string newest_snapshot(const JobFiles& files) {
  std::set<std::string> results;
  for (const auto& [member, sizes] : files.of_member) {
    for (const auto& [path, size] : sizes) {
      if (path.starts_with(kOutput)) results.insert(path.substr(kOutput.size()));
    }
  }
  const auto snapshots = snapshots_among(results);
  return snapshots.empty() ? "" : snapshots.back();
}

// Whether losing the file matters. Older snapshots do not: training continues from the newest.
bool counts(const std::string& result, const std::string& newest) {
  const std::string snapshot = snapshot_of(result);
  return snapshot.empty() || snapshot == newest;
}

JobPart part_of(std::size_t member, const std::map<std::string, std::uint64_t>& sizes,
                const std::string& newest, const FetchRecord& record) {
  JobPart part;
  part.member = member;
  std::set<std::string> unfetched;
  for (const auto& [path, size] : sizes) {
    ++part.files;
    part.bytes += size;
    if (!path.starts_with(kOutput)) continue;
    const std::string result = path.substr(kOutput.size());
    if (!counts(result, newest)) continue;
    const auto fetched = record.sizes.find(result);
    if (fetched != record.sizes.end() && fetched->second == size) continue;
    unfetched.insert(snapshot_of(result).empty() ? result : newest);
    part.unfetched_bytes += size;
  }
  part.unfetched.assign(unfetched.begin(), unfetched.end());
  return part;
}

std::string names(const std::vector<std::string>& all) {
  const std::size_t shown = std::min(kNamesOfALossMax, all.size());
  std::string text = fmt::format(
      "{}", fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == all.size() ? text : fmt::format("{} and {} more", text, all.size() - shown);
}

// The hint: commands that keep these jobs from being lost.
std::string hint_of_loss(const std::vector<const JobOnNodes*>& lost) {
  const std::string job = lost.size() == 1 ? lost.front()->job : "<job>";
  std::string hint;
  if (std::ranges::any_of(lost, &JobOnNodes::is_running))
    hint += fmt::format("end it: paddlectl stop --job {}; ", job);
  if (std::ranges::any_of(lost, &JobOnNodes::is_unfetched))
    hint += fmt::format("fetch it: paddlectl fetch --job {}; ", job);
  return hint + "or discard it: --yes --discard";
}

}  // namespace

bool JobOnNodes::is_running() const {
  return std::ranges::any_of(parts, [](const JobPart& part) { return !part.running.empty(); });
}

bool JobOnNodes::is_unfetched() const {
  return std::ranges::any_of(parts, [](const JobPart& part) { return !part.unfetched.empty(); });
}

Status list_jobs_on_nodes(ClusterSession& session, std::vector<JobOnNodes>& jobs) {
  const auto processes = session.processes("");
  std::vector<std::vector<remote::FileEntry>> listings(session.members().size());
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(listings[session.index_of(member)], member.client->list_sizes("jobs"));
    return {};
  });
  for (const Member& member : session.members()) {
    if (member.client && member.error) return *member.error;
  }
  std::map<std::string, JobFiles> all;
  for (const auto& [member, status] : processes) all[status.job].of_member[member];
  for (std::size_t i = 0; i < listings.size(); ++i) {
    for (const remote::FileEntry& file : listings[i]) {
      const std::size_t slash = file.path.find('/');
      if (slash == std::string::npos) continue;
      all[file.path.substr(0, slash)].of_member[i][file.path.substr(slash + 1)] = file.size;
    }
  }
  for (auto& [job, files] : all) files.newest = newest_snapshot(files);
  std::vector<std::map<std::string, JobPart>> parts(listings.size());
  (void)session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    for (const auto& [job, files] : all) {
      const auto sizes = files.of_member.find(index);
      if (sizes == files.of_member.end()) continue;
      const FetchRecord record =
          read_fetch_record(*member.client, job, latest_start(processes, index, job));
      parts[index][job] = part_of(index, sizes->second, files.newest, record);
    }
    return {};
  });
  for (const auto& [member, status] : processes) {
    if (is_running(status)) parts[member][status.job].running.push_back(status.name);
  }
  for (const auto& [job, files] : all) {
    JobOnNodes found{job, {}};
    for (auto& of_member : parts) {
      if (const auto part = of_member.find(job); part != of_member.end())
        found.parts.push_back(std::move(part->second));
    }
    jobs.push_back(std::move(found));
  }
  return {};
}

std::string describe_loss(ClusterSession& session, const JobOnNodes& job) {
  std::vector<std::string> running, unfetched;
  for (const JobPart& part : job.parts) {
    const std::string& node = session.members()[part.member].spec.name;
    for (const std::string& process : part.running) running.push_back(process + " on " + node);
    if (!part.unfetched.empty()) {
      unfetched.push_back(fmt::format("{} on {} ({})", names(part.unfetched), node,
                                      human_bytes(part.unfetched_bytes)));
    }
  }
  std::string text = job.job + ": ";
  if (!running.empty()) text += "running, " + names(running);
  if (!unfetched.empty())
    text += fmt::format("{}never fetched, {}", running.empty() ? "" : "; ", names(unfetched));
  return running.empty() && unfetched.empty() ? text + "ended, and fetched" : text;
}

Table removal_table(ClusterSession& session, const std::vector<JobOnNodes>& jobs) {
  Table table{{{"job", "job"},
               {"node", "node"},
               {"running", "running"},
               {"files", "files", 0, true},
               {"size", "bytes", 0, true},
               {"never fetched", "unfetched"},
               {"size", "unfetched_bytes", 0, true}},
              {}};
  const auto list_cell = [](const std::vector<std::string>& all) {
    return Cell{all.empty() ? "-" : names(all), Json::list({all.begin(), all.end()})};
  };
  for (const JobOnNodes& job : jobs) {
    for (const JobPart& part : job.parts) {
      table.rows.push_back({text_cell(job.job), text_cell(session.members()[part.member].spec.name),
                            list_cell(part.running), number_cell(part.files),
                            bytes_cell(part.bytes), list_cell(part.unfetched),
                            bytes_cell(part.unfetched_bytes)});
    }
  }
  return table;
}

Status ask_for_consent(Context& context, ClusterSession& session,
                       const std::vector<JobOnNodes>& jobs, const RemovalConsent& consent,
                       bool keeps_results) {
  if (jobs.empty() || (consent.yes && consent.discard)) return {};
  std::string losses, list;
  std::vector<const JobOnNodes*> lost;
  for (const JobOnNodes& job : jobs) {
    const std::string line = "\n  " + describe_loss(session, job);
    list += line;
    if (!job.is_running() && (!job.is_unfetched() || keeps_results)) continue;
    losses += line;
    lost.push_back(&job);
  }
  if (consent.yes) {
    if (losses.empty()) return {};
    return Error{Errc::kUsage, "nothing was removed: this would be lost:" + losses,
                 hint_of_loss(lost)};
  }
  if (!context.console.json()) {
    context.console.note("this removes from the nodes:");
    for (const JobOnNodes& job : jobs) context.console.note("  " + describe_loss(session, job));
  }
  const auto answer = context.ask ? context.ask("remove it? [y/N] ", false) : std::nullopt;
  if (answer && (*answer == "y" || *answer == "yes")) return {};
  if (answer) {
    return Error{Errc::kUsage, "cancelled; nothing was removed",
                 "run the command again and answer y to remove it"};
  }
  const std::string what = context.console.json() ? "; this would be removed:" + list : "";
  return Error{Errc::kUsage, "nothing was removed, because it was not confirmed" + what,
               losses.empty() ? "in a script, add --yes; --dry-run lists what would be removed"
                              : "in a script, add --yes, and --discard if running jobs and results "
                                "never fetched may be lost; --dry-run lists what would be removed"};
}

}  // namespace paddle::cli
