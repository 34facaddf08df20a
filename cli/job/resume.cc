#include "cli/job/resume.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/unknown_nodes.h"
#include "cli/job/end_of_job.h"
#include "cli/job/folders.h"
#include "cli/job/passes.h"
#include "cli/job/results.h"
#include "cli/job/start.h"
#include "cli/job/whole_snapshot.h"
#include "cli/watch/log_reader.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

// Chooses the snapshot from which a job continues.

namespace fs = std::filesystem;

enum class Reads { kSizes, kContents };

std::string base_damage_text(const std::string& base, const std::string& damage) {
  return damage.empty() ? "" : fmt::format("in its base {}, {}", base, damage);
}

void note_passed_over(Context& context, const std::string& snapshot, const std::string& damage) {
  context.console.note(fmt::format("{} is skipped: {}", snapshot, damage));
}

// kVersion for a snapshot of another format, which is no damage: another release can read it.
Status check_format(const Result<snapshot::Manifest>& manifest, const std::string& place) {
  if (manifest || manifest.error().code != Errc::kVersion) return {};
  Error error = manifest.error();
  return std::move(error).with(place);
}

// The damage of a snapshot on a node, or of the base of a delta; "" if there is none. kVersion: the
// snapshot has another format.
Result<std::string> damage_on(Member& member, const std::string& job, const std::string& name,
                              Reads reads, bool is_base = false) {
  const std::string folder = fmt::format("{}/{}", output_folder(job), name);
  const auto manifest = snapshot::decode_manifest(manifest_on_node(*member.client, folder));
  PADDLE_TRY_STATUS(check_format(manifest, fmt::format("{} of node {}", name, member.spec.name)));
  std::map<std::string, remote::FileEntry> files;
  PADDLE_TRY(auto listed, reads == Reads::kContents ? member.client->list(folder)
                                                    : member.client->list_sizes(folder));
  for (remote::FileEntry& file : listed) files[file.path] = std::move(file);
  std::string damage = damage_of(manifest, [&](const snapshot::FileEntry& file) {
    const auto found = files.find(file.name);
    return found != files.end() && found->second.size == file.size &&
           (reads == Reads::kSizes || found->second.sha256 == to_hex(file.sha256));
  });
  const std::string base = base_snapshot_of(manifest);
  if (!damage.empty() || is_base || !parse_snapshot_name(base)) return damage;
  PADDLE_TRY(damage, damage_on(member, job, base, reads, true));
  return base_damage_text(base, damage);
}

class Chooser {
 public:
  Chooser(Context& context, const ClusterSpec& cluster, ClusterSession& session,
          const JobToResume& resumed)
      : context_(context),
        cluster_(cluster),
        session_(session),
        resumed_(resumed),
        processes_(session.processes(resumed.job)),
        leader_(*session.find_node(resumed.node)),
        folder_(fs::path(resumed.output) / resumed.job) {}

  Result<SnapshotToPush> choose() {
    PADDLE_TRY_STATUS(list());
    PADDLE_TRY(const std::string own, own_snapshot());
    PADDLE_TRY(const auto copy, newest_copy(own));
    if (has_moved() && !resumed_.is_own_program) {
      PADDLE_TRY(const std::string here, snapshot_here(""));
      const std::string& there = copy ? copy->second : own;
      if (!here.empty() && !there.empty() &&
          parse_snapshot_name(here) > parse_snapshot_name(there)) {
        context_.console.note(
            fmt::format("continuing from {}: node {} has no snapshot as new as this one",
                        shown_path(context_, (folder_ / here).string()), leader_.spec.name));
        return to_push(here, false);
      }
    }
    if (!own.empty() && !copy) {
      note_other_node();
      return SnapshotToPush{own, {}, {}};
    }
    const bool had_folder = fs::exists(folder_);
    std::size_t fetched = 0;
    if (copy || own_names().empty()) {
      PassChoice passes;
      std::optional<std::size_t> giver;
      if (copy) giver = copy->first;
      const auto copied = copy ? parse_snapshot_name(copy->second) : std::nullopt;
      if (copied && names_[copy->first].front() != copy->second)
        passes = {PassChoice::Kind::kOne, copied->pass};
      PADDLE_TRY(const FetchStats stats,
                 fetch_results(context_, session_, resumed_.job, resumed_.output, passes, giver));
      fetched = stats.files;
    }
    PADDLE_TRY(const std::string found, snapshot_here(copy ? copy->second : ""));
    if (!found.empty()) return to_push(found, !copy && !own_names().empty());
    if (!own_names().empty()) return SnapshotToPush{own, {}, {}};  // the trainer reports the damage
    return nothing_found(had_folder || fetched > 0);
  }

 private:
  using Copy = std::pair<std::size_t, std::string>;  // member, snapshot

  // Lists the snapshots of each member, newest first; for a user's own program, its checkpoints.
  Status list() {
    names_.resize(session_.members().size());
    return session_.each([&](Member& member) -> Status {
      PADDLE_TRY(const auto files, member.client->list_sizes(output_folder(resumed_.job)));
      std::set<std::string> found;
      for (const remote::FileEntry& file : files) {
        found.insert(resumed_.is_own_program ? checkpoint_of(file.path) : snapshot_of(file.path));
      }
      names_[session_.index_of(member)] = newest_first(std::move(found));
      return {};
    });
  }

  // Snapshots by progress, newest first, then checkpoints, which only their program can compare.
  static std::vector<std::string> newest_first(std::set<std::string> names) {
    names.erase("");
    std::vector<std::string> sorted(names.begin(), names.end());
    std::ranges::stable_sort(sorted, [](const std::string& a, const std::string& b) {
      return parse_snapshot_name(a) > parse_snapshot_name(b);
    });
    return sorted;
  }

  const std::vector<std::string>& own_names() { return names_[session_.index_of(leader_)]; }

  // The newest snapshot on the node of trainer 0 that is not known to be damaged; "" if there is
  // none.
  Result<std::string> own_snapshot() {
    const auto& names = own_names();
    if (names.empty()) return std::string();
    if (resumed_.is_own_program) return names.front();
    if (!has_others()) return newest_whole(leader_, names, Reads::kSizes);
    std::size_t sound = 0;
    for (const std::string& name : names) {
      PADDLE_TRY(const std::string damage, damage_on(leader_, resumed_.job, name, Reads::kSizes));
      if (damage.empty() && ++sound == 2) break;
    }
    const bool reads = sound == 1 || (sound > 1 && ended_with_bad_data());
    return newest_whole(leader_, names, reads ? Reads::kContents : Reads::kSizes);
  }

  Result<std::string> newest_whole(Member& member, const std::vector<std::string>& names,
                                   Reads reads) {
    for (const std::string& name : names) {
      PADDLE_TRY(const std::string damage, damage_on(member, resumed_.job, name, reads));
      if (damage.empty()) return name;
      note_passed_over(context_, fmt::format("{} of node {}", name, member.spec.name), damage);
    }
    return std::string();
  }

  // Whether another trainer's node, or the folder here, has snapshots to use in place of damaged
  // ones.
  bool has_others() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (may_have_copies(i) && !names_[i].empty()) return true;
    }
    return !names_here().empty();
  }

  // Whether trainer 0 ended with kData, because of a damaged snapshot or of its data.
  bool ended_with_bad_data() const {
    return std::ranges::any_of(processes_, [](const ProcessOnNode& process) {
      return process.status.name == "trainer-0" &&
             process.status.state == remote::ProcessState::kExited &&
             process.status.exit_code == static_cast<int>(Errc::kData);
    });
  }

  // Whether a member other than the leader may have copies: in a job with copies every trainer's
  // node, in other jobs the node of trainer 0.
  bool may_have_copies(std::size_t member) {
    if (member == session_.index_of(leader_)) return false;
    return std::ranges::any_of(processes_, [&](const ProcessOnNode& process) {
      const bool has =
          resumed_.has_copies ? !is_pserver(process.status) : process.status.name == "trainer-0";
      return process.member == member && has;
    });
  }

  // Whether trainer 0 of the last run was on another node; this node may have snapshots of an
  // earlier run.
  bool has_moved() {
    return !processes_.empty() &&
           std::ranges::none_of(processes_, [&](const ProcessOnNode& process) {
             return process.status.name == "trainer-0" &&
                    process.member == session_.index_of(leader_);
           });
  }

  // The newest whole snapshot on another node that has more progress than `own`.
  Result<std::optional<Copy>> newest_copy(const std::string& own) {
    std::optional<Copy> best;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!may_have_copies(i)) continue;
      std::vector<std::string> newer = names_[i];
      const std::string& least = best ? best->second : own;
      std::erase_if(newer, [&](const std::string& name) {
        return !least.empty() && parse_snapshot_name(name) <= parse_snapshot_name(least);
      });
      if (newer.empty()) continue;
      if (resumed_.is_own_program) {
        best = {i, newer.front()};
        continue;
      }
      PADDLE_TRY(const std::string whole,
                 newest_whole(session_.members()[i], newer, Reads::kContents));
      if (!whole.empty()) best = {i, whole};
    }
    return best;
  }

  // The snapshots in the folder here, by progress, newest first.
  std::vector<std::string> names_here() const {
    if (resumed_.is_own_program) return checkpoints_here();
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename().string();
      const auto progress = parse_snapshot_name(name);
      if (!progress) continue;
      if (const auto manifest = manifest_of(name)) {
        found.emplace_back(manifest->info.pass, manifest->info.step, name);
      } else {
        found.emplace_back(progress->pass + (progress->is_whole ? 1 : 0), UINT64_MAX, name);
      }
    }
    std::ranges::sort(found, std::greater<>());
    std::vector<std::string> names;
    for (const auto& one : found) names.push_back(std::get<2>(one));
    return names;
  }

  std::vector<std::string> checkpoints_here() const {
    std::set<std::string> found;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder_, error)) {
      const std::string path = entry.path().lexically_relative(folder_).string();
      if (entry.is_regular_file(error) && !path.starts_with("node_"))
        found.insert(checkpoint_of(path));
    }
    return newest_first(std::move(found));
  }

  Result<snapshot::Manifest> manifest_of(const std::string& name) const {
    return snapshot::decode_manifest(manifest_here((folder_ / name).string()));
  }

  // damage_on() for the folder here. For a user's own program, only checks that a checkpoint is
  // there.
  std::string damage_of_own(const std::string& name, bool is_base = false) const {
    std::error_code error;
    if (resumed_.is_own_program) {
      const bool is_whole = fs::exists(folder_ / name / "MANIFEST", error) ||
                            fs::is_regular_file(folder_ / name, error);
      return is_whole ? "" : "its MANIFEST is missing";
    }
    std::string damage = damage_here((folder_ / name).string());
    if (!damage.empty() || is_base) return damage;
    const std::string base = base_snapshot_of(manifest_of(name));
    return parse_snapshot_name(base) ? base_damage_text(base, damage_of_own(base, true)) : "";
  }

  // `wanted`, or the newest whole snapshot here if `wanted` is damaged or ""; "" if there is none.
  // kVersion: one of another format.
  Result<std::string> snapshot_here(const std::string& wanted) {
    std::vector<std::string> names = names_here();
    if (const auto found = std::ranges::find(names, wanted); found != names.end())
      std::rotate(names.begin(), found, found + 1);
    for (const std::string& name : names) {
      const std::string shown = shown_path(context_, (folder_ / name).string());
      if (!resumed_.is_own_program) PADDLE_TRY_STATUS(check_format(manifest_of(name), shown));
      const std::string damage = damage_of_own(name);
      if (damage.empty()) return name;
      note_passed_over(context_, shown, damage);
      found_damaged_ = true;
    }
    return std::string();
  }

  Result<SnapshotToPush> to_push(const std::string& name, bool none_is_whole) {
    SnapshotToPush snapshot{name, {}, {}};
    const std::string base = base_snapshot_of(manifest_of(name));
    if (parse_snapshot_name(base)) {
      const bool is_there = std::ranges::find(own_names(), base) != own_names().end();
      std::string damage;
      if (is_there) {
        PADDLE_TRY(damage, damage_on(leader_, resumed_.job, base, Reads::kContents));
      }
      if (!is_there || !damage.empty()) add(base, snapshot);
    }
    add(name, snapshot);
    add_tests(snapshot);
    if (none_is_whole) {
      context_.console.note(fmt::format("no snapshot of node {} is complete: continuing from {}",
                                        leader_.spec.name,
                                        shown_path(context_, (folder_ / name).string())));
    }
    return snapshot;
  }

  void add(const std::string& name, SnapshotToPush& snapshot) {
    if (std::ranges::find(own_names(), name) != own_names().end())
      snapshot.replaced.push_back(name);
    std::error_code error;
    const auto push = [&](const fs::path& path) {
      const fs::path file = path.lexically_relative(folder_);
      snapshot.items.push_back(
          {path.string(), fmt::format("{}/{}", output_folder(resumed_.job), file.string())});
    };
    if (fs::is_regular_file(folder_ / name, error)) return push(folder_ / name);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name, error)) {
      if (!entry.is_symlink(error) && entry.is_regular_file(error)) push(entry.path());
    }
  }

  // Adds TESTS, the results of earlier passes, which the engine extends; a new node lacks that
  // file.
  void add_tests(SnapshotToPush& snapshot) const {
    const std::string to = output_folder(resumed_.job) + "/TESTS";
    std::error_code error;
    if (resumed_.is_own_program || leader_.client->read_file(to, 0, 1)) return;
    if (!fs::is_regular_file(folder_ / "TESTS", error)) return;
    snapshot.items.push_back({(folder_ / "TESTS").string(), to});
  }

  Error nothing_found(bool keeps_folder) {
    const std::string where = shown_path(context_, folder_.string());
    if (found_damaged_) {
      return Error{Errc::kData,
                   fmt::format("job {} has no complete snapshot, on its nodes or in {}",
                               resumed_.job, where),
                   "copy a complete one to that folder, or start a new job under another --name"};
    }
    std::error_code ignored;
    if (!keeps_folder) fs::remove(folder_, ignored);
    return Error{Errc::kUsage,
                 fmt::format("job {} has no snapshot, on its nodes or in {}", resumed_.job, where),
                 way_to_others() + way_to_begin()};
  }

  // A hint: snapshots may be on nodes that were not asked, such as those that `up --any` left out.
  std::string way_to_others() const {
    std::vector<std::string> left_out;
    for (std::size_t i = 0; i < cluster_.nodes.size(); ++i) {
      if (session_.find_node(i) == nullptr) left_out.push_back(cluster_.nodes[i].spec.name);
    }
    if (left_out.empty()) return "";
    return fmt::format("{} may have one: bring {} back, then run paddlectl up; or ",
                       fmt::join(left_out, ", "), left_out.size() == 1 ? "it" : "them");
  }

  // The hint for a job that has saved nothing.
  std::string way_to_begin() const {
    if (processes_.empty())
      return "list the jobs: paddlectl jobs; or start this one without --resume";
    std::string remove = fmt::format(
        "to start from the beginning: paddlectl rm {0}, then paddlectl train --name {0} "
        "<workspace>",
        resumed_.job);
    const bool is_done = std::ranges::all_of(processes_, [](const ProcessOnNode& process) {
      return is_pserver(process.status) || ended_well(process.status);
    });
    const bool is_broken_off = broken_start(session_, processes_).has_value();
    if (is_broken_off && !has_trained(session_, resumed_.job))
      return fmt::format("start it again: paddlectl train --name {} <workspace>", resumed_.job);
    if (is_done || is_broken_off || !missing_processes(processes_).empty()) return remove;
    return fmt::format("start it again from its beginning: paddlectl restart {}; or {}",
                       resumed_.job, remove);
  }

  void note_other_node() {
    const std::size_t index = session_.index_of(leader_);
    const bool ran_on_leader = std::ranges::any_of(processes_, [&](const ProcessOnNode& process) {
      return process.status.name == "trainer-0" && process.member == index;
    });
    if (processes_.empty() || ran_on_leader) return;
    context_.console.note(fmt::format(
        "continuing from the copy on node {}; trainer 0 ran on another node", leader_.spec.name));
  }

  Context& context_;
  const ClusterSpec& cluster_;
  ClusterSession& session_;
  const JobToResume& resumed_;
  std::vector<ProcessOnNode> processes_;
  Member& leader_;
  fs::path folder_;
  std::vector<std::vector<std::string>> names_;
  bool found_damaged_ = false;
};

// The job that is resumed.

// Ends pservers that wait for trainers which no command is going to start.
Status end_broken_start(Context& context, ClusterSession& session, const std::string& job,
                        const BrokenStart& broken) {
  context.console.note(describe(broken, job));
  return broken.running.empty() ? Status() : stop_job(session, job);
}

// Prints "continuing after pass 2", for the chosen snapshot or, without a name, for the newest.
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

// Renames damaged snapshots that a copy replaces; training ignores the renamed folders.
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

// Prints the options that this run takes from the nodes because they are stored only there.
void note_options_of_nodes(Context& context, const PreviousRun& previous) {
  JobSettings taken = *previous.settings;
  JobSettings here = previous.settings_here.value_or(taken);
  if (!previous.settings_here) {
    here.overrides.clear();
    here.configuration.clear();
  }
  taken.workspace = here.workspace;
  taken.configuration = here.configuration;
  taken.data = here.data;
  for (const SettingChange& change : changes_between(here, taken))
    context.console.note(
        fmt::format("taken from the nodes of {}: {}", previous.job, describe(change)));
}

// Finds the settings and variables of the last run, here and on the nodes.
Status find_settings(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                     const std::string& output, PreviousRun& previous) {
  const std::string& job = previous.job;
  PADDLE_TRY(previous.settings_here, read_settings(output + "/" + job));
  const auto& here = previous.settings_here;
  PADDLE_TRY(previous.settings, later_settings(session, cluster, job, here));
  if (!previous.settings && !here) previous.settings = settings_of_processes(session, job);
  if (previous.settings) note_options_of_nodes(context, previous);
  if (!previous.settings) previous.settings = here;
  for (const ProcessOnNode& process : session.processes(job)) {
    if (previous.settings)
      previous.settings->run = std::max(previous.settings->run, process.status.run);
  }
  previous.variables = variables_on_nodes(session, job, here ? here->run : 0);
  return {};
}

// Warns of nodes that were renamed: their processes of the job are not seen, and may still run.
void note_unknown_nodes(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                        const std::string& job) {
  const auto processes = session.processes(job);
  if (!processes.empty() && missing_processes(processes).empty()) return;
  const std::string unknown =
      describe_unknown_nodes(context, session, cluster, AskedMachines::kFew);
  if (unknown.empty()) return;
  context.console.note(fmt::format(
      "warning: {}; if {} still runs there, it continues beside this run", unknown, job));
  context.console.note(hint_of_unknown_nodes(cluster));
}

}  // namespace

Result<SnapshotToPush> find_snapshot_to_resume(Context& context, const ClusterSpec& cluster,
                                               const std::vector<std::size_t>& nodes,
                                               const JobToResume& resumed) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  return Chooser(context, cluster, session, resumed).choose();
}

Result<PreviousRun> find_previous_run(Context& context, const ClusterSpec& cluster,
                                      const std::vector<std::size_t>& nodes,
                                      const std::string& asked, const std::string& output,
                                      bool is_dry_run) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();  // the job never ran there, or was torn down
  PADDLE_TRY_STATUS(all_reached(cluster, session));
  PreviousRun previous{asked, 0, {}};
  if (asked.empty()) {
    PADDLE_TRY(previous.job, choose_job(session, ""));
  }
  PADDLE_TRY_STATUS(check_job_name(previous.job));
  PADDLE_TRY_STATUS(check_output_folder(context, output, previous.job, "choose another --output"));
  PADDLE_TRY_STATUS(find_settings(context, session, cluster, output, previous));
  if (const auto broken = find_broken_start(context, session, previous.job)) {
    if (is_dry_run) context.console.note(describe(*broken, previous.job));
    if (!is_dry_run) PADDLE_TRY_STATUS(end_broken_start(context, session, previous.job, *broken));
    previous.trainers = broken->trainers;
    previous.pservers = broken->pservers;
    return previous;
  }
  std::uint32_t pservers = 0;
  bool has_job_size = false;  // whether a record has the size of the whole job
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    if (is_running(process.status)) {
      return Error{Errc::kUsage, fmt::format("job {} still runs", previous.job),
                   fmt::format("follow it: paddlectl attach --job {0}; or end it: paddlectl stop "
                               "--job {0}",
                               previous.job)};
    }
    ++(is_pserver(process.status) ? pservers : previous.trainers);
  }
  // A node that is no longer there may have run some of the processes; each record has the number
  // of processes of the whole job.
  for (const ProcessOnNode& process : session.processes(previous.job)) {
    previous.trainers = std::max(previous.trainers, process.status.trainers);
    pservers = std::max(pservers, process.status.pservers);
    has_job_size = has_job_size || process.status.trainers > 0;
  }
  if (has_job_size || pservers > 0) previous.pservers = pservers;
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
  return Error{Errc::kUsage,
               fmt::format("{} continues in the middle of pass {}, where these settings must not "
                           "change, or records would be skipped or trained twice: {}",
                           job, from->pass + 1, fmt::join(named, ", ")),
               fmt::format("{}finish the pass with the former settings: paddlectl train --resume "
                           "--name {}{}; change settings between two passes",
                           has_content ? "restore the former files, and " : "", job, back)};
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
        fmt::format("{} copied to {}: {} files", snapshot.name, leader.spec.name, stats.files));
  }
  PADDLE_TRY(const auto files, leader.client->list_sizes(output_folder(plan.job)));
  note_progress(context, files, snapshot.name);
  const auto metrics =
      read_metrics(*leader.client, plan.trainers.front().metrics, kMetricsBytesMax);
  return static_cast<std::size_t>(std::ranges::count(metrics, "test", &MetricsLine::kind));
}

Status forget_last_run(Context& context, const ClusterSpec& cluster,
                       const std::vector<std::size_t>& nodes, const JobPlan& plan) {
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  std::set<std::size_t> used;
  for (const auto* const processes : {&plan.pservers, &plan.trainers}) {
    for (const PlannedProcess& process : *processes) used.insert(process.node);
  }
  return session.each([&](Member& member) -> Status {
    const std::string folder = job_folder(plan.job);
    PADDLE_TRY_STATUS(member.client->remove(folder + "/proc"));
    if (used.contains(member.node)) return {};
    return member.client->remove(folder + "/" + kSettingsFile);
  });
}

}  // namespace paddle::cli
