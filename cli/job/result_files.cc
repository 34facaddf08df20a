#include "cli/job/result_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safe_path.h"
#include "base/text.h"
#include "cli/job/folders.h"
#include "cli/job/whole_snapshot.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/metrics_line.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr const char* kBestFile = "BEST";  // contains the name of a snapshot
constexpr std::size_t kNameBytesMax = 64;

using Listings = std::vector<std::vector<remote::FileEntry>>;  // by member

// Members in the order of the lowest trainer of each, then members without a trainer.
std::vector<std::size_t> members_by_trainer(std::size_t count,
                                            const std::vector<ProcessOnNode>& processes) {
  std::vector<std::pair<std::uint32_t, std::size_t>> order;
  for (std::size_t i = 0; i < count; ++i) order.emplace_back(UINT32_MAX, i);
  for (const auto& [member, status] : processes) {
    if (is_pserver(status)) continue;
    constexpr std::string_view kTrainer = "trainer-";
    const char* const end = status.name.data() + status.name.size();
    std::uint32_t trainer = 0;
    if (!status.name.starts_with(kTrainer) ||
        std::from_chars(status.name.data() + kTrainer.size(), end, trainer).ptr != end) {
      continue;
    }
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
  for (const remote::FileEntry& file : files) {
    if (file.kind == remote::FileEntry::Kind::kFile) names.insert(file.path);
  }
  return names;
}

std::vector<std::string> snapshots_of(const ResultFiles& found) {
  std::set<std::string> names;
  for (const auto& files : found.of_member) names.merge(names_of(files));
  return snapshots_among(names);
}

// The snapshots with a MANIFEST. All files of such a snapshot come from one node.
std::set<std::string> whole_snapshots(const std::set<std::string>& files) {
  std::set<std::string> whole;
  for (const std::string& file : files) {
    const std::string snapshot = snapshot_of(file);
    if (!snapshot.empty() && file == snapshot + "/MANIFEST") whole.insert(snapshot);
  }
  return whole;
}

// The names in use in the output folder: a file of one node is never a folder of another.
class TakenNames {
 public:
  // False when the name, or a folder above it, belongs to another member.
  bool take(const std::string& path, std::size_t member) {
    for (std::size_t slash = 0; (slash = path.find('/', slash)) != std::string::npos; ++slash) {
      if (files_.contains(path.substr(0, slash))) return false;
    }
    if (folders_.contains(path) || files_.try_emplace(path, member).first->second != member)
      return false;
    for (std::size_t slash = 0; (slash = path.find('/', slash)) != std::string::npos; ++slash)
      folders_.insert(path.substr(0, slash));
    return true;
  }

 private:
  std::map<std::string, std::size_t> files_;  // with the member of each
  std::set<std::string> folders_;
};

// Whether the engine writes this file beside each copy of its snapshots.
bool is_about_snapshots(const std::string& path) {
  return path == kBestFile || path == "TESTS";
}

// Chooses one member for each link, and then for each empty folder, whose name nothing else has.
void add_without_content(const Listings& listings, const std::vector<std::size_t>& members,
                         const std::set<std::string>& whole, TakenNames& taken,
                         ResultFiles& found) {
  using Kind = remote::FileEntry::Kind;
  found.without_content.resize(listings.size());
  for (const Kind kind : {Kind::kLink, Kind::kEmptyFolder}) {
    for (const std::size_t member : members) {
      for (const remote::FileEntry& entry : listings[member]) {
        const bool is_given = member == found.giver || !whole.contains(snapshot_of(entry.path));
        if (entry.kind != kind || !is_given) continue;
        if (taken.take(entry.path, member)) {
          found.without_content[member].push_back(entry);
        } else if (kind == Kind::kLink) {
          found.doubled.push_back(entry.path);
        }
      }
    }
  }
}

// Chooses one member for each file. `giver`, or else the first member that has whole snapshots,
// gives all whole snapshots, so no other member can add or replace one.
ResultFiles one_of_each(const Listings& listings, const std::vector<std::size_t>& members,
                        std::optional<std::size_t> giver) {
  ResultFiles found;
  found.giver = giver;
  found.of_member.resize(listings.size());
  found.copies.resize(listings.size());
  std::set<std::string> all_whole, given;
  for (const std::size_t member : members) {
    std::set<std::string> whole = whole_snapshots(names_of(listings[member]));
    if (!whole.empty() && !found.giver) found.giver = member;
    if (member == found.giver) given = whole;
    all_whole.merge(whole);
  }
  const auto of_giver = found.giver ? names_of(listings[*found.giver]) : std::set<std::string>();
  TakenNames taken;
  for (const std::size_t member : members) {
    for (const remote::FileEntry& file : listings[member]) {
      if (file.kind != remote::FileEntry::Kind::kFile) continue;
      if (is_about_snapshots(file.path) && member != found.giver && of_giver.contains(file.path))
        continue;
      const std::string snapshot = snapshot_of(file.path);
      if (all_whole.contains(snapshot) && member != found.giver) {
        if (given.contains(snapshot)) found.copies[member].push_back(file);
        continue;
      }
      if (taken.take(file.path, member)) {
        found.of_member[member].push_back(file);
      } else {
        found.doubled.push_back(file.path);
      }
    }
  }
  add_without_content(listings, members, all_whole, taken, found);
  return found;
}

std::vector<std::uint64_t> merit_on_nodes(ClusterSession& session, const std::string& job,
                                          const std::vector<ProcessOnNode>& processes) {
  const auto leader = std::ranges::find(processes, "trainer-0",
                                        [](const ProcessOnNode& p) { return p.status.name; });
  if (leader == processes.end()) return {};
  Member& member = session.members()[leader->member];
  if (!member.client) return {};
  const auto best =
      member.client->read_file(output_folder(job) + "/" + kBestFile, 0, kNameBytesMax);
  return passes_by_merit(
      read_metrics(*member.client, metrics_path(leader->status.log), kMetricsBytesMax),
      best ? best->data : "");
}

// The best whole snapshot among `names`; "" if no test ranks any. `is_best`: false if a better pass
// has no snapshot.
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

// Adds the snapshots on which chosen deltas are based.
void add_bases(ClusterSession& session, const std::string& job, const ResultFiles& found,
               std::set<std::string>& chosen) {
  const std::set<std::string> deltas = chosen;
  for (std::size_t i = 0; i < found.of_member.size(); ++i) {
    Member& member = session.members()[i];
    for (const remote::FileEntry& file : found.of_member[i]) {
      const std::string snapshot = snapshot_of(file.path);
      if (!deltas.contains(snapshot) || file.path != snapshot + "/MANIFEST" || !member.client)
        continue;
      const std::string folder = fmt::format("{}/{}", output_folder(job), snapshot);
      const std::string base =
          base_snapshot_of(snapshot::decode_manifest(manifest_on_node(*member.client, folder)));
      if (!base.empty()) chosen.insert(base);
    }
  }
}

// Refuses two nodes that both report the same process: one report is false, and that node could
// give files in the process's name.
Status check_claims(ClusterSession& session, const std::vector<ProcessOnNode>& processes) {
  std::map<std::string, std::size_t> runs_on;
  for (const auto& [member, status] : processes) {
    const std::size_t other = runs_on.try_emplace(status.name, member).first->second;
    if (other == member) continue;
    return Error{Errc::kData,
                 fmt::format("nodes {} and {} both report that they run {}",
                             session.members()[other].spec.name,
                             session.members()[member].spec.name, status.name),
                 "check both nodes, and choose the one that you trust: --on"};
  }
  return {};
}

}  // namespace

bool is_hidden(const std::string& path) {
  return path.starts_with('.') || path.find("/.") != std::string::npos;
}

bool may_be_given(const std::string& path) {
  constexpr auto kOwnFiles = std::to_array<std::string_view>(
      {"report.html", "job.toml", "processes.jsonl", "machines.jsonl", "commands.jsonl",
       "settings.jsonl", "job.toml.of-node", "settings.jsonl.of-node"});
  const std::string top = path.substr(0, path.find('/'));
  const bool is_our_scalars = top == "tensorboard" && path.ends_with(".paddlectl");
  return !is_hidden(path) && !top.starts_with("node_") && !is_our_scalars &&
         std::ranges::find(kOwnFiles, top) == kOwnFiles.end();
}

Result<std::set<std::string>> choose_snapshots(Context& context, const SnapshotPlace& place,
                                               const std::string& job, const PassChoice& choice,
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
    return Error{
        Errc::kUsage,
        fmt::format("{} no snapshot of {} of job {}", place.have, pass_words(choice.pass), job),
        names.empty() ? fmt::format("{} no snapshot of this job", place.they_have)
                      : fmt::format("{} {}; train.snapshots_kept sets how many are kept",
                                    place.they_have, fmt::join(names, ", "))};
  }
  if (names.empty()) return chosen;
  if (choice.kind != kBest) chosen.insert(names.back());
  if (choice.kind == kLast) return chosen;
  bool is_best = true;
  const std::string best = best_of(names, by_merit, is_best);
  if (!best.empty() && (is_best || choice.kind == kBest)) chosen.insert(best);
  if (choice.kind != kBest) return chosen;
  if (best.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("job {} has no test results, so the best pass is unknown", job),
                 "name a snapshot with --pass pass-00002, or use --pass last"};
  }
  if (!is_best) {
    context.console.note(fmt::format(
        "the snapshot of the best pass, {}, is no longer {}; fetching {}, the best that is "
        "left; train.snapshots_kept sets how many are kept",
        pass_words(by_merit.front()), place.where, best));
  }
  return chosen;
}

std::vector<std::uint64_t> passes_by_merit(const std::vector<MetricsLine>& metrics,
                                           std::string_view best) {
  std::vector<std::uint64_t> passes = ranked_passes(metrics);
  const auto name = parse_snapshot_name(best.substr(0, best.find('\n')));
  if (name && name->is_whole) {
    std::erase(passes, name->pass);
    passes.insert(passes.begin(), name->pass);
  }
  return passes;
}

Status list_results(ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, ResultFiles& found,
                    std::optional<std::size_t> giver) {
  PADDLE_TRY_STATUS(check_claims(session, processes));
  Listings listings(session.members().size());
  Status listed = session.each([&](Member& member) -> Status {
    PADDLE_TRY(listings[session.index_of(member)],
               member.client->list_all_kinds(output_folder(job)));
    return {};
  });
  std::vector<std::string> refused;
  for (std::size_t i = 0; i < listings.size(); ++i) {
    std::erase_if(listings[i], [&](const remote::FileEntry& file) {
      // A snapshot that is still being written.
      if (file.path.starts_with("pass-") &&
          file.path.substr(0, file.path.find('/')).ends_with(".tmp")) {
        return true;
      }
      // An unsafe path stays; it is an error when the file is made here.
      const bool is_odd = file.kind == remote::FileEntry::Kind::kOddName;
      if (!is_odd && (may_be_given(file.path) || !SafePath::parse(file.path))) return false;
      if (file.kind == remote::FileEntry::Kind::kEmptyFolder) return true;
      refused.push_back(fmt::format("{} of node {}", file.path, session.members()[i].spec.name));
      return true;
    });
  }
  found = one_of_each(listings, members_by_trainer(listings.size(), processes), giver);
  found.refused = std::move(refused);
  found.all_answered = listed && session.unreachable() == 0;
  return listed;
}

Status keep_passes(Context& context, ClusterSession& session, const std::string& job,
                   const std::vector<ProcessOnNode>& processes, const PassChoice& choice,
                   ResultFiles& found, LeftSnapshots& left) {
  const std::vector<std::string> names = snapshots_of(found);
  PADDLE_TRY(std::set<std::string> chosen,
             choose_snapshots(context, kOnNodes, job, choice, names,
                              merit_on_nodes(session, job, processes)));
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
  for (auto& entries : found.without_content) {
    std::erase_if(entries, [&](const remote::FileEntry& entry) {
      const std::string snapshot = snapshot_of(entry.path);
      return !snapshot.empty() && !chosen.contains(snapshot);
    });
  }
  std::erase_if(found.doubled, [&](const std::string& path) {
    return !snapshot_of(path).empty() && !chosen.contains(snapshot_of(path));
  });
  return {};
}

}  // namespace paddle::cli
