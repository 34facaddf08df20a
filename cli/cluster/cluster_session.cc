#include "cli/cluster/cluster_session.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/limits.h"
#include "base/pool.h"
#include "cli/cluster/selection.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kErrorsShownMax = 10;
constexpr std::size_t kJobsNamedMax = 5;  // the latest

// The nodes that have files of the job.
std::vector<std::string> nodes_with_files(ClusterSession& session, const std::string& job) {
  std::vector<std::string> nodes;
  if (job.starts_with('.') || job.find('/') != std::string::npos) return nodes;
  std::mutex mutex;
  (void)session.each([&](Member& member) -> Status {
    PADDLE_TRY(const auto files, member.client->list_sizes("jobs/" + job));
    const std::lock_guard lock(mutex);
    if (!files.empty()) nodes.push_back(member.spec.name);
    return {};
  });
  std::ranges::sort(nodes);
  return nodes;
}

// Whether the process has ended without finishing its work.
bool may_give_way(const remote::ProcessStatus& status) {
  const bool is_done =
      status.state == remote::ProcessState::kExited && status.exit_code == 0 && !status.stopped;
  return status.state != remote::ProcessState::kRunning && !is_done;
}

// Lets the command say why nodes were lost, in the words of their provider.
void ask_provider_for_causes(Context& context, const ClusterSpec& cluster) {
  if (!cluster.provider) return;
  context.why_lost = [provider = cluster.provider](const remote::NodeSpec& node) {
    return provider->cause_of_loss(node.name);
  };
  context.why_ended = [provider = cluster.provider] { return provider->cause_of_end(); };
  for (const ProvidedNode& node : cluster.provided) {
    if (!context.nodes_end || (node.ends_at && *node.ends_at < *context.nodes_end))
      context.nodes_end = node.ends_at;
  }
}

}  // namespace

void connect_member(Context& context, Member& member, bool create) {
  member.spec.timeout = context.limits.timeout;
  member.spec.allow_proxy_command = context.limits.allow_proxy_command;
  auto client = context.connect(member.spec, create);
  if (!client) {
    member.error = std::move(client).error();
    return;
  }
  member.client = *std::move(client);
  member.error.reset();
  if (member.client) return;
  member.absent = true;
  member.error = Error{Errc::kUsage,
                       fmt::format("node {}: it has no folder of this cluster", member.spec.name),
                       "prepare the nodes: paddlectl up <cluster file>"};
}

void leave_out_former_runs(std::vector<ProcessOnNode>& all) {
  using Place = std::pair<std::size_t, std::string>;  // member, job
  std::map<std::string, std::uint64_t> newest;        // by job
  for (const auto& [member, status] : all)
    newest[status.job] = std::max(newest[status.job], status.run);
  const auto is_former = [&](const remote::ProcessStatus& status) {
    return status.run < newest[status.job];
  };
  std::set<Place> stays;
  for (const auto& [member, status] : all) {
    if (is_former(status) && !may_give_way(status)) stays.insert({member, status.job});
  }
  std::erase_if(all, [&](const ProcessOnNode& process) {
    return is_former(process.status) && !stays.contains({process.member, process.status.job});
  });
}

JobSize size_of_job(const std::vector<ProcessOnNode>& processes) {
  JobSize size;
  std::size_t trainers = 0, pservers = 0;
  std::size_t trainers_told = 0, pservers_told = 0;
  for (const auto& [member, status] : processes) {
    ++(status.name.starts_with("pserver-") ? pservers : trainers);
    trainers_told = std::max<std::size_t>(trainers_told, status.trainers);
    pservers_told = std::max<std::size_t>(pservers_told, status.pservers);
  }
  size.all_seen = trainers_told > 0 && trainers >= trainers_told && pservers >= pservers_told;
  size.trainers = std::max(trainers, trainers_told);
  size.pservers = std::max(pservers, pservers_told);
  return size;
}

ClusterSession ClusterSession::unconnected(const ClusterSpec& cluster,
                                           const std::vector<std::size_t>& nodes) {
  ClusterSession session;
  session.cluster_nodes_ = cluster.nodes.size();
  for (const std::size_t node : nodes) {
    Member member;
    member.node = node;
    member.spec = cluster.nodes[node].spec;
    const auto provided =
        std::ranges::find(cluster.provided, member.spec.name, &ProvidedNode::name);
    if (provided != cluster.provided.end()) {
      member.price_per_hour = provided->hourly;
      member.currency = provided->currency;
    }
    session.members_.push_back(std::move(member));
  }
  return session;
}

ClusterSession ClusterSession::open(Context& context, const ClusterSpec& cluster,
                                    const std::vector<std::size_t>& nodes) {
  ClusterSession session = unconnected(cluster, nodes);
  ask_provider_for_causes(context, cluster);
  session.connect(context, true);
  return session;
}

ClusterSession ClusterSession::find(Context& context, const ClusterSpec& cluster,
                                    const std::vector<std::size_t>& nodes) {
  ClusterSession session = unconnected(cluster, nodes);
  ask_provider_for_causes(context, cluster);
  session.connect(context, false);
  return session;
}

ClusterSession ClusterSession::find_all(Context& context, const ClusterSpec& cluster) {
  std::vector<std::size_t> nodes(cluster.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return find(context, cluster, nodes);
}

Status ClusterSession::visit(Context& context, const std::function<Status(Member&)>& work) {
  const auto visit_one = [&](std::size_t i) {
    Member& member = members_[i];
    if (context.interrupted()) {
      member.error = Error{Errc::kInterrupted,
                           fmt::format("node {}: left out after Ctrl-C", member.spec.name), ""};
      return;
    }
    connect_member(context, member, true);
    if (!member.client) return;
    if (auto done = work(member); !done) member.error = std::move(done).error();
    member.client.reset();
  };
  for_each_parallel(members_.size(), visit_one, context.limits.at_once);
  return all_well();
}

void ClusterSession::connect(Context& context, bool create) {
  std::vector<Member*> missing;
  for (Member& member : members_) {
    if (!member.client && !member.absent) missing.push_back(&member);
  }
  at_once_ = context.limits.at_once;
  for_each_parallel(
      missing.size(), [&](std::size_t i) { connect_member(context, *missing[i], create); },
      at_once_);
}

void ClusterSession::look_again(std::size_t member) {
  Member& gone = members_[member];
  if (!gone.absent) return;
  gone.absent = false;
  gone.error.reset();
}

void ClusterSession::set_patience(Duration patience) {
  for (Member& member : members_) {
    if (member.client) member.client->set_patience(patience);
  }
}

void ClusterSession::set_interrupted(const std::function<bool()>& interrupted) {
  for (Member& member : members_) {
    if (member.client) member.client->set_interrupted(interrupted);
  }
}

Member* ClusterSession::find_node(std::size_t node) {
  const auto found = std::ranges::find(members_, node, &Member::node);
  return found == members_.end() ? nullptr : &*found;
}

std::size_t ClusterSession::unreachable() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      members_, [](const Member& member) { return !member.client && !member.absent; }));
}

Status ClusterSession::all_well() const {
  std::vector<const Error*> errors;
  for (const Member& member : members_) {
    if (member.error) errors.push_back(&*member.error);
  }
  if (errors.empty()) return {};
  Error combined = *errors.front();
  for (std::size_t i = 1; i < errors.size(); ++i) {
    if (i < kErrorsShownMax) combined.message += "\n" + errors[i]->message;
    combined.code = std::max(combined.code, errors[i]->code);
    if (combined.hint.empty()) combined.hint = errors[i]->hint;
  }
  if (errors.size() > kErrorsShownMax) {
    combined.message += fmt::format("\n... and {} more nodes", errors.size() - kErrorsShownMax);
  }
  return combined;
}

void ClusterSession::forgive_absent() {
  for (Member& member : members_) {
    if (member.absent) member.error.reset();
  }
}

std::vector<std::string> ClusterSession::leave_out_unreachable(
    const std::vector<std::string>* among) {
  std::vector<std::string> names;
  std::erase_if(members_, [&](const Member& member) {
    const std::string& name = member.spec.name;
    const bool may_go = among == nullptr || std::ranges::find(*among, name) != among->end();
    if (member.client || member.absent || !may_go) return false;
    names.push_back(name);
    return true;
  });
  return names;
}

Status ClusterSession::each(const std::function<Status(Member&)>& work) {
  std::vector<Member*> connected;
  for (Member& member : members_) {
    if (member.client) connected.push_back(&member);
  }
  const auto work_on = [&](std::size_t i) {
    auto done = work(*connected[i]);
    connected[i]->error.reset();
    if (!done) connected[i]->error = std::move(done).error();
  };
  for_each_parallel(connected.size(), work_on, at_once_);
  return all_well();
}

std::vector<ProcessOnNode> ClusterSession::gather(
    const std::function<Result<std::vector<remote::ProcessStatus>>(Member&)>& ask) {
  std::vector<std::vector<remote::ProcessStatus>> found(members_.size());
  (void)each([&](Member& member) -> Status {
    auto list = ask(member);
    if (!list) {
      member.client.reset();  // a failed request must not count as "no processes"
      return std::move(list).error();
    }
    found[index_of(member)] = *std::move(list);
    const remote::NodeIdentity now = member.client->identity();
    if (now != member.identity) member.is_examined = false;
    member.identity = now;
    return {};
  });
  std::vector<ProcessOnNode> all;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (auto& status : found[i]) all.push_back({i, std::move(status)});
  }
  std::ranges::stable_sort(all, {},
                           [](const ProcessOnNode& p) { return p.status.started_unix_ms; });
  return all;
}

std::vector<ProcessOnNode> ClusterSession::all_records(const std::string& job) {
  return gather([&](Member& member) { return member.client->processes(job); });
}

std::vector<ProcessOnNode> ClusterSession::processes(const std::string& job) {
  std::vector<ProcessOnNode> all = all_records(job);
  leave_out_former_runs(all);
  return all;
}

ClusterLook ClusterSession::look(const Clock& clock, const std::string& job) {
  ClusterLook look;
  look.nodes.resize(members_.size());
  look.processes = gather([&](Member& member) -> Result<std::vector<remote::ProcessStatus>> {
    const TimePoint asked = clock.now();
    PADDLE_TRY(remote::NodeStatus status, member.client->status(job));
    look.nodes[index_of(member)] = NodeLook{status.node, asked, clock.now()};
    return std::move(status.processes);
  });
  leave_out_former_runs(look.processes);
  return look;
}

Status all_reached(const ClusterSpec& cluster, const ClusterSession& session) {
  Status reached = session.all_well();
  std::vector<std::size_t> well;
  for (const Member& member : session.members()) {
    if (!member.error) well.push_back(member.node);
  }
  if (reached || well.empty()) return reached;
  Error error = std::move(reached).error();
  if (error.hint.empty()) error.hint = hint_for_lack(error.message);
  error.hint += fmt::format("{}train on the others: --on {}", error.hint.empty() ? "" : "; or ",
                            on_text(cluster, well));
  return error;
}

Result<std::string> choose_job(ClusterSession& session, const std::string& asked) {
  const auto all = session.processes("");
  if (asked.empty()) {
    if (!all.empty()) return all.back().status.job;
    PADDLE_TRY_STATUS(session.all_well());
    return Error{Errc::kUsage, "this cluster has no job", "start one: paddlectl train <workspace>"};
  }
  if (std::ranges::any_of(all, [&](const ProcessOnNode& p) { return p.status.job == asked; }))
    return asked;
  PADDLE_TRY_STATUS(session.all_well());
  if (const auto nodes = nodes_with_files(session, asked); !nodes.empty()) {
    return Error{
        Errc::kUsage,
        fmt::format("job {} is not started: its files are on {}, but it has no process", asked,
                    nodes.size() == 1 ? nodes.front() : counted(nodes.size(), "node")),
        fmt::format("start it with `paddlectl train --name {0}`, or remove the files: "
                    "paddlectl rm {0}",
                    asked)};
  }
  std::vector<std::string> known;  // in order of start
  for (const ProcessOnNode& process : all) {
    if (std::ranges::find(known, process.status.job) == known.end())
      known.push_back(process.status.job);
  }
  const std::size_t hidden = known.size() - std::min(known.size(), kJobsNamedMax);
  known.erase(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(hidden));
  return Error{Errc::kUsage, fmt::format("this cluster has no job '{}'", asked),
               known.empty() ? "start one: paddlectl train <workspace>"
                             : fmt::format("{}jobs here: {}; paddlectl jobs shows them{}",
                                           hidden > 0 ? "the latest " : "", fmt::join(known, ", "),
                                           hidden > 0 ? " all" : "")};
}

}  // namespace paddle::cli
