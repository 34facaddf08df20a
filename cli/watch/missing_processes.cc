#include "cli/watch/missing_processes.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/json.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr auto kSecondLook = std::chrono::milliseconds(300);
constexpr std::size_t kProcessesNamed = 4;

std::string list_of(const std::vector<std::string>& names) {
  if (names.size() > kProcessesNamed)
    return fmt::format("{} and {} more", names.front(), names.size() - 1);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Lost nodes.

constexpr std::size_t kLostNamesShown = 4;
constexpr std::size_t kNodesBytesMax = 4U << 20U;
constexpr const char* kHintOfReplacement =
    "train --restarts N would have prepared the node again and continued there";
constexpr const char* kHintOfLoss =
    "if a node does not return, leave it out with paddlectl up --any; if a node is empty, prepare "
    "it again with paddlectl up";

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= kLostNamesShown) return fmt::format("{}", fmt::join(names, ", "));
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(kLostNamesShown);
  return fmt::format("{} and {} more", fmt::join(names.begin(), end, ", "),
                     names.size() - kLostNamesShown);
}

void add_missing(std::string_view role, std::size_t count,
                 const std::vector<ProcessOnNode>& processes, std::set<std::string>& missing) {
  for (std::size_t i = 0; i < count; ++i) missing.insert(fmt::format("{}-{}", role, i));
  for (const auto& [member, status] : processes) missing.erase(status.name);
}

std::string cause_of_loss(const ClusterSession& session, std::size_t member,
                          const ProcessPlaces& places) {
  const Member& node = session.members()[member];
  if (places.is_other_machine(session, member)) {
    // A container that was started again may have kept its folder.
    if (!node.absent && !places.is_other_folder(session, member))
      return "was restarted and has lost the job: it no longer has a folder of the job";
    return fmt::format(
        "was replaced: its folder is {} (another machine, container or pod under its name)",
        node.absent ? "gone" : "new");
  }
  if (node.absent) return "is lost: it no longer has a folder of this cluster";
  if (places.is_other_folder(session, member))
    return "has lost the job: its folder was removed and made again";
  return "has lost the job: it no longer has a folder of the job";
}

std::string with_reason(std::string text, const Member& node) {
  return node.loss_reason.empty() ? text : fmt::format("{}: {}", text, node.loss_reason);
}

using ProcessesOfMembers = std::map<std::size_t, std::vector<std::string>>;

// Adds the lost members to `lines` and to the result's lists.
LostNodes describe_lost(const ClusterSession& session, const std::string& job,
                        const ProcessesOfMembers& lost, const ProcessPlaces& places,
                        std::vector<std::string> lines) {
  LostNodes found;
  found.were_seen = !lost.empty();
  found.is_replaced = !lost.empty() && lines.empty();
  std::vector<std::string> all;
  for (const auto& [member, names] : lost) {
    const Member& node = session.members()[member];
    all.push_back(fmt::format("node {} {}; {} of {} ran there", node.spec.name,
                              with_reason(cause_of_loss(session, member, places), node),
                              names_text(names), job));
    found.members.push_back(member);
    found.is_replaced = found.is_replaced && places.is_other_machine(session, member);
  }
  all.insert(all.end(), lines.begin(), lines.end());
  found.error = Error{found.is_replaced ? Errc::kFailed : Errc::kUnreachable,
                      fmt::format("{}", fmt::join(all, "\n")),
                      found.is_replaced ? kHintOfReplacement : kHintOfLoss};
  return found;
}

// The error for a job of which no node shows anything. Nothing if the job was removed: then the
// nodes that had it are still there, or all nodes were torn down.
std::optional<LostNodes> find_all_lost(const ClusterSession& session, const std::string& job,
                                       const ProcessPlaces& places) {
  const auto& members = session.members();
  ProcessesOfMembers lost;
  for (const auto& [name, member] : places.of_process()) lost[member].push_back(name);
  const auto is_other = [&](const auto& one) {
    return places.is_other_machine(session, one.first);
  };
  const bool is_emptied = std::ranges::any_of(
      lost, [&](const auto& one) { return !members[one.first].absent && !is_other(one); });
  const bool is_torn_down =
      std::ranges::all_of(members, &Member::absent) && std::ranges::none_of(lost, is_other);
  if (lost.empty() || is_emptied || is_torn_down) return std::nullopt;
  LostNodes found = describe_lost(session, job, lost, places, {});
  found.is_absent = true;
  return found;
}

// Asks what the member is now and why, once for each of its losses.
void examine(Context& context, Member& member) {
  if (std::exchange(member.is_examined, true)) return;
  if (member.absent && context.machine_of) {
    member.identity = {};
    if (auto machine = context.machine_of(member.spec)) member.identity.machine = *machine;
  }
  if (context.why_lost) member.loss_reason = escape_control(context.why_lost(member.spec));
}

}  // namespace

// Checks for snapshots and for lines of metrics that trainers write, also those of a user's own
// program.
bool has_trained(ClusterSession& session, const std::string& job) {
  std::atomic<bool> has = false;
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list_sizes("jobs/" + job));
    for (const remote::FileEntry& file : files) {
      const std::string name = file.path.substr(file.path.rfind('/') + 1);
      const bool is_metrics =
          file.path.starts_with("node_") && name.starts_with("metrics") && name.ends_with(".jsonl");
      if (file.size > 0 && (is_metrics || file.path.starts_with("output/pass-"))) has = true;
      if (file.path.starts_with("output/") && name == "MANIFEST") has = true;
    }
    return {};
  });
  return has;
}

bool has_worked(const remote::ProcessStatus& status) {
  const auto& progress = status.progress;
  if (progress && (progress->pass > 0 || progress->batch > 0 || progress->updates > 0)) return true;
  return !is_pserver(status) && (ended_well(status) || is_resumable(status));
}

std::optional<BrokenStart> broken_start(const ClusterSession& session,
                                        const std::vector<ProcessOnNode>& processes) {
  if (!session.sees_whole_cluster()) return std::nullopt;
  BrokenStart broken;
  std::map<std::string, bool> known;  // whether it runs, by name
  for (const auto& [member, status] : processes) {
    if (status.claimed || has_worked(status)) return std::nullopt;
    known[status.name] = is_running(status);
    broken.is_first_start = broken.is_first_start && status.incarnation <= 1;
    broken.trainers = std::max(broken.trainers, status.trainers);
    broken.pservers = std::max(broken.pservers, status.pservers);
  }
  const auto sort_out = [&](std::string_view role, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("{}-{}", role, i);
      const auto found = known.find(name);
      if (found == known.end()) broken.missing.push_back(name);
      if (found != known.end() && found->second) broken.running.push_back(name);
    }
  };
  sort_out("pserver", broken.pservers);
  sort_out("trainer", broken.trainers);
  if (broken.missing.empty()) return std::nullopt;
  return broken;
}

std::optional<BrokenStart> find_broken_start(Context& context, ClusterSession& session,
                                             const std::string& job) {
  if (!broken_start(session, session.processes(job))) return std::nullopt;
  context.pause(kSecondLook);
  const auto processes = session.processes(job);
  auto broken = broken_start(session, processes);
  if (!broken) return std::nullopt;
  ProcessPlaces places;
  const auto lost = look_for_lost_nodes(context, session, job, processes, places);
  if (lost && lost->were_seen) return std::nullopt;  // its node has been replaced since
  broken->has_trained = has_trained(session, job);
  return broken;
}

std::string describe(const BrokenStart& broken, const std::string& job) {
  const std::string missing = list_of(broken.missing);
  const std::string what =
      broken.is_first_start && !broken.has_trained
          ? fmt::format("the start of {} was interrupted: {} {} never started", job, missing,
                        broken.missing.size() == 1 ? "was" : "were")
          : fmt::format("{} is incomplete: no node has {}", job, missing);
  if (broken.running.empty()) return what + "; none of its processes runs";
  return fmt::format("{}; {} {}", what, list_of(broken.running),
                     broken.running.size() == 1 ? "runs" : "run");
}

std::string encode(const std::vector<RecordedNode>& nodes) {
  std::string text;
  for (const RecordedNode& node : nodes) {
    text += Json::object({{"kind", "node"},
                          {"run", node.run},
                          {"node", node.node},
                          {"folder", node.identity.folder},
                          {"machine", node.identity.machine},
                          {"processes", fmt::format("{}", fmt::join(node.processes, " "))}})
                .text() +
            "\n";
  }
  return text;
}

std::vector<RecordedNode> decode_nodes(std::string_view text) {
  std::vector<RecordedNode> nodes;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto fields = read_flat_object(text.substr(begin, end - begin));
    begin = end + 1;
    if (!fields) continue;
    RecordedNode node;
    std::istringstream processes;
    for (const JsonField& field : *fields) {
      const auto* const value = std::get_if<std::string>(&field.value);
      const auto* const number = std::get_if<double>(&field.value);
      if (field.key == "run" && number != nullptr && *number > 0 && *number < 1e15)
        node.run = static_cast<std::uint64_t>(*number);
      if (value == nullptr) continue;
      if (field.key == "node") node.node = *value;
      if (field.key == "folder") node.identity.folder = *value;
      if (field.key == "machine") node.identity.machine = *value;
      if (field.key == "processes") processes.str(*value);
    }
    for (std::string name; processes >> name;) node.processes.push_back(name);
    if (!node.node.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<RecordedNode> recorded_nodes(ClusterSession& session, const std::string& job) {
  std::vector<std::vector<RecordedNode>> found(session.members().size());
  (void)session.each([&](Member& member) -> Status {
    const auto text =
        member.client->read_whole_file(fmt::format("jobs/{}/{}", job, kNodesFile), kNodesBytesMax);
    if (text) found[session.index_of(member)] = decode_nodes(*text);
    return {};
  });
  const auto run_of = [](const std::vector<RecordedNode>& nodes) {
    return nodes.empty() ? 0 : nodes.front().run;
  };
  const auto latest = std::ranges::max_element(found, {}, run_of);
  return latest == found.end() ? std::vector<RecordedNode>() : std::move(*latest);
}

void ProcessPlaces::note(const ClusterSession& session,
                         const std::vector<ProcessOnNode>& processes) {
  for (const auto& [member, status] : processes) {
    of_process_.erase(status.name);
    if (!ended_well(status) && !is_resumable(status)) of_process_.emplace(status.name, member);
    // The record of a lost process is of an earlier start of the node.
    if (status.state != remote::ProcessState::kLost)
      nodes_[member] = session.members()[member].identity;
  }
}

void ProcessPlaces::learn(const ClusterSession& session, const std::vector<RecordedNode>& nodes) {
  const auto& members = session.members();
  for (const RecordedNode& node : nodes) {
    const auto found = std::ranges::find(members, node.node, [](const Member& member) {
      return std::string_view(member.spec.name);
    });
    if (found == members.end()) continue;
    const auto member = static_cast<std::size_t>(found - members.begin());
    const auto [known, is_new] = nodes_.try_emplace(member, node.identity);
    if (!found->absent && !is_other_folder(session, member)) {
      if (is_new && !is_other_machine(session, member)) nodes_.erase(known);
      continue;
    }
    for (const std::string& name : node.processes) of_process_.try_emplace(name, member);
  }
}

bool ProcessPlaces::is_other_machine(const ClusterSession& session, std::size_t member) const {
  const auto before = nodes_.find(member);
  const std::string& now = session.members()[member].identity.machine;
  return before != nodes_.end() && !now.empty() && !before->second.machine.empty() &&
         now != before->second.machine;
}

bool ProcessPlaces::is_other_folder(const ClusterSession& session, std::size_t member) const {
  const auto before = nodes_.find(member);
  const std::string& now = session.members()[member].identity.folder;
  return before != nodes_.end() && !now.empty() && !before->second.folder.empty() &&
         now != before->second.folder;
}

std::vector<std::string> missing_processes(const std::vector<ProcessOnNode>& processes,
                                           const ProcessPlaces& places) {
  const JobSize size = size_of_job(processes);
  std::set<std::string> missing;
  for (const auto& [name, member] : places.of_process()) missing.insert(name);
  add_missing("pserver", size.pservers, processes, missing);
  add_missing("trainer", size.trainers, processes, missing);
  return {missing.begin(), missing.end()};
}

std::optional<LostNodes> find_lost_nodes(const ClusterSession& session, const std::string& job,
                                         const std::vector<ProcessOnNode>& processes,
                                         const ProcessPlaces& places) {
  if (session.unreachable() > 0) return std::nullopt;
  if (processes.empty()) return find_all_lost(session, job, places);
  const bool is_claimed = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return process.status.claimed; });
  if (is_claimed) return std::nullopt;
  const bool worked = session.sees_whole_cluster() &&
                      std::ranges::any_of(processes, [](const ProcessOnNode& process) {
                        return has_worked(process.status);
                      });
  ProcessesOfMembers lost;
  std::vector<std::string> nowhere;
  for (const std::string& name : missing_processes(processes, places)) {
    const auto place = places.of_process().find(name);
    if (place != places.of_process().end()) {
      lost[place->second].push_back(name);
    } else if (worked) {
      nowhere.push_back(name);
    }
  }
  std::vector<std::string> lines;
  if (!nowhere.empty()) {
    lines.push_back(fmt::format("{} is incomplete: no node has {}", job, names_text(nowhere)));
    for (const Member& member : session.members()) {
      if (member.absent)
        lines.push_back(fmt::format("node {}: it has no folder of this cluster", member.spec.name));
    }
  }
  if (lines.empty() && lost.empty()) return std::nullopt;
  LostNodes found = describe_lost(session, job, lost, places, std::move(lines));
  found.is_absent = std::ranges::any_of(session.members(), &Member::absent);
  return found;
}

std::optional<LostNodes> look_for_lost_nodes(Context& context, ClusterSession& session,
                                             const std::string& job,
                                             const std::vector<ProcessOnNode>& processes,
                                             ProcessPlaces& places) {
  const bool is_unknown = std::ranges::any_of(processes, [&](const ProcessOnNode& process) {
    return process.status.state == remote::ProcessState::kLost && !places.knows(process.member);
  });
  if (is_unknown) places.learn(session, recorded_nodes(session, job));
  const std::vector<std::string> missing = missing_processes(processes, places);
  if (session.unreachable() > 0 || (missing.empty() && !processes.empty())) return std::nullopt;
  const bool are_known = std::ranges::all_of(
      missing, [&](const std::string& name) { return places.of_process().contains(name); });
  if (!are_known || missing.empty()) places.learn(session, recorded_nodes(session, job));
  for (const auto& [name, index] : places.of_process()) {
    Member& member = session.members()[index];
    if (member.absent || places.is_other_folder(session, index)) examine(context, member);
  }
  return find_lost_nodes(session, job, processes, places);
}

std::string describe_restart(Context& context, ClusterSession& session, std::size_t member,
                             const ProcessPlaces& places) {
  if (!places.is_other_machine(session, member)) return "";
  Member& node = session.members()[member];
  examine(context, node);
  return with_reason(
      fmt::format("node {} was restarted (another start of its machine, container or pod)",
                  node.spec.name),
      node);
}

}  // namespace paddle::cli
