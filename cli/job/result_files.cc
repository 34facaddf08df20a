#include "cli/job/result_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/job/folders.h"
#include "cli/logs/metrics_line.h"
#include "cli/logs/reader.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

using Listings = std::vector<std::vector<remote::FileEntry>>;  // by member

// Members by the lowest trainer of each, then those without a trainer.
std::vector<std::size_t> members_by_trainer(std::size_t count,
                                            const std::vector<ProcessOnNode>& processes) {
  std::vector<std::pair<std::uint32_t, std::size_t>> order;
  for (std::size_t i = 0; i < count; ++i) order.emplace_back(UINT32_MAX, i);
  for (const auto& [member, status] : processes) {
    if (is_pserver(status)) continue;
    std::uint32_t trainer = 0;
    const std::size_t dash = status.name.rfind('-');
    std::from_chars(status.name.data() + dash + 1, status.name.data() + status.name.size(),
                    trainer);
    order[member].first = std::min(order[member].first, trainer);
  }
  std::ranges::sort(order);
  std::vector<std::size_t> members;
  members.reserve(order.size());
  for (const auto& [trainer, member] : order) members.push_back(member);
  return members;
}

std::set<std::string> names_of(const std::vector<remote::FileEntry>& files) {
  std::set<std::string> names;
  for (const remote::FileEntry& file : files) names.insert(file.path);
  return names;
}

std::vector<std::string> snapshots_of(const ResultFiles& found) {
  std::set<std::string> names;
  for (const auto& files : found.of_member) names.merge(names_of(files));
  return snapshots_among(names);
}

// The snapshots with a MANIFEST, which are given by one node as a whole.
std::set<std::string> whole_snapshots(const std::set<std::string>& files) {
  std::set<std::string> whole;
  for (const std::string& file : files) {
    const std::string snapshot = snapshot_of(file);
    if (!snapshot.empty() && file == snapshot + "/MANIFEST") whole.insert(snapshot);
  }
  return whole;
}

ResultFiles one_of_each(const Listings& listings, const std::vector<std::size_t>& members) {
  ResultFiles found;
  found.of_member.resize(listings.size());
  std::vector<std::set<std::string>> whole;
  for (const auto& files : listings) whole.push_back(whole_snapshots(names_of(files)));
  std::set<std::string> all_whole;
  for (const auto& snapshots : whole) all_whole.insert(snapshots.begin(), snapshots.end());
  std::map<std::string, std::size_t> givers;  // of a whole snapshot, or of a file
  for (const std::size_t member : members) {
    for (const remote::FileEntry& file : listings[member]) {
      const std::string snapshot = snapshot_of(file.path);
      const bool in_whole = all_whole.contains(snapshot);
      if (in_whole && !whole[member].contains(snapshot)) continue;  // parts of one
      const auto [giver, first] = givers.try_emplace(in_whole ? snapshot : file.path, member);
      if (giver->second == member) {
        found.of_member[member].push_back(file);
      } else if (!in_whole) {
        found.doubled.push_back(file.path);
      }
    }
  }
  return found;
}

std::vector<std::uint64_t> passes_by_merit(ClusterSession& session,
                                           const std::vector<ProcessOnNode>& processes) {
  const auto leader = std::ranges::find(processes, "trainer-0",
                                        [](const ProcessOnNode& p) { return p.status.name; });
  if (leader == processes.end()) return {};
  Member& member = session.members()[leader->member];
  if (!member.client) return {};
  return ranked_passes(
      read_metrics(*member.client, metrics_path(leader->status.log), kMetricsBytesMax));
}

// The best whole snapshot among `names`; "" when no test tells. `is_best`: no better pass is gone.
std::string best_of(const std::vector<std::string>& names,
                    const std::vector<std::uint64_t>& by_merit, bool& is_best) {
  for (std::size_t rank = 0; rank < by_merit.size(); ++rank) {
    is_best = rank == 0;
    for (const std::string& name : names) {
      if (parse_snapshot_name(name) == SnapshotName{by_merit[rank]}) return name;
    }
  }
  return "";
}

Result<std::set<std::string>> choose(Context& context, const std::string& job,
                                     const PassChoice& choice,
                                     const std::vector<std::string>& names,
                                     const std::vector<std::uint64_t>& by_merit) {
  using enum PassChoice::Kind;
  if (choice.kind == kAll) return std::set<std::string>(names.begin(), names.end());
  std::set<std::string> chosen;
  if (choice.kind == kOne) {
    for (const std::string& name : names) {
      if (parse_snapshot_name(name)->pass == choice.pass) chosen.insert(name);
    }
    if (!chosen.empty()) return chosen;
    return Error{Errc::kUsage,
                 fmt::format("the nodes have no snapshot of pass {} of job {}", choice.pass, job),
                 names.empty()
                     ? "they have none of this job at all"
                     : fmt::format("they have {}; train.snapshots_kept says how many stay",
                                   fmt::join(names, ", "))};
  }
  if (names.empty()) return chosen;
  if (choice.kind != kBest) chosen.insert(names.back());
  if (choice.kind == kLast) return chosen;
  bool is_best = true;
  const std::string best = best_of(names, by_merit, is_best);
  if (!best.empty() && (is_best || choice.kind == kBest)) chosen.insert(best);
  if (choice.kind != kBest) return chosen;
  if (best.empty()) {
    return Error{Errc::kUsage, fmt::format("no test tells which pass of job {} is the best", job),
                 "name a pass: --pass N, or --pass last"};
  }
  if (!is_best) {
    context.console.note(fmt::format(
        "the snapshot of the best pass, {} (pass-{:05d}), is no longer on the nodes; fetching {}, "
        "the best that is left; train.snapshots_kept says how many stay",
        by_merit.front() + 1, by_merit.front(), best));
  }
  return chosen;
}

// Adds the snapshots that those chosen are deltas of.
void add_bases(ClusterSession& session, const std::string& job, const ResultFiles& found,
               std::set<std::string>& chosen) {
  const std::set<std::string> deltas = chosen;
  for (std::size_t i = 0; i < found.of_member.size(); ++i) {
    Member& member = session.members()[i];
    for (const remote::FileEntry& file : found.of_member[i]) {
      const std::string snapshot = snapshot_of(file.path);
      if (!deltas.contains(snapshot) || file.path != snapshot + "/MANIFEST" || !member.client)
        continue;
      const auto head =
          member.client->read_log(output_folder(job) + "/" + file.path, 0, kManifestHeadBytes);
      if (!head) continue;
      const std::string base = manifest_field(head->data, "base", "name");
      if (!base.empty()) chosen.insert(base);
    }
  }
}

}  // namespace

Status list_results(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, ResultFiles& found) {
  Listings listings(session.members().size());
  Status listed = session.each([&](Member& member) -> Status {
    PADDLE_TRY(listings[session.index_of(member)], member.client->list_sizes(output_folder(job)));
    return {};
  });
  for (auto& files : listings) {
    // A snapshot that is being written.
    std::erase_if(files, [](const remote::FileEntry& file) {
      return file.path.starts_with("pass-") &&
             file.path.substr(0, file.path.find('/')).ends_with(".tmp");
    });
  }
  found = one_of_each(listings, members_by_trainer(listings.size(), processes));
  return listed;
}

Status keep_passes(Context& context, ClusterSession& session, const std::string& job,
                   const std::vector<ProcessOnNode>& processes, const PassChoice& choice,
                   ResultFiles& found, LeftSnapshots& left) {
  const std::vector<std::string> names = snapshots_of(found);
  PADDLE_TRY(std::set<std::string> chosen,
             choose(context, job, choice, names, passes_by_merit(session, processes)));
  add_bases(session, job, found, chosen);
  for (const std::string& name : names) {
    if (!chosen.contains(name)) left.names.push_back(name);
  }
  for (auto& files : found.of_member) {
    std::erase_if(files, [&](const remote::FileEntry& file) {
      const std::string snapshot = snapshot_of(file.path);
      if (snapshot.empty() || chosen.contains(snapshot)) return false;
      left.files.push_back(file);
      return true;
    });
  }
  std::erase_if(found.doubled, [&](const std::string& path) {
    return !snapshot_of(path).empty() && !chosen.contains(snapshot_of(path));
  });
  return {};
}

}  // namespace paddle::cli
