#include "cli/job/start.h"

#include <string.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/secret.h"
#include "cli/job/folders.h"
#include "cli/job/job_claim.h"
#include "cli/job/push_meter.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/process_state.h"
#include "proto/agent.pb.h"
#include "proto/keys.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

constexpr int kJobsOfOneNameMax = 100;
constexpr std::size_t kConcurrentJobsMax = 16;
constexpr std::size_t kPortsClaimedAtOnce = 1024;  // limit of an agent's request

// Asks one node before the others: of two simultaneous claims, that node refuses one. If all nodes
// were asked at once, both claims could be refused.
Status on_first_then_others(ClusterSession& session, Member& first,
                            const std::function<Status(Member&)>& work) {
  PADDLE_TRY_STATUS(work(first));
  return session.each([&](Member& member) { return &member == &first ? Status() : work(member); });
}

// The addresses of all nodes in the session, and their interfaces, which only a user's own programs
// need.
Result<NodeNetwork> network_of(ClusterSession& session, const ClusterSpec& cluster,
                               bool with_interfaces) {
  NodeNetwork network;
  for (const ClusterNode& node : cluster.nodes) network.addresses.push_back(node.address);
  network.interfaces.resize(cluster.nodes.size());
  PADDLE_TRY_STATUS(session.each([&](Member& member) -> Status {
    std::string& address = network.addresses[member.node];
    if (!address.empty() && !with_interfaces) return {};
    PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
    if (address.empty()) address = facts.address();
    for (const wire::agent::Interface& one : facts.interfaces()) {
      if (one.address() == address) network.interfaces[member.node] = one.name();
    }
    return {};
  }));
  return network;
}

// Whether the nodes are on one machine, as far as the cluster file says that.
bool share_machine(const ClusterNode& one, const ClusterNode& other) {
  if (!one.address.empty() && one.address == other.address) return true;
  const bool have_host = one.spec.is_local() || !one.spec.host.empty();
  return have_host && one.spec.launcher == other.spec.launcher && one.spec.host == other.spec.host;
}

// The nodes that are not in the session, and share a machine with a node of it.
std::vector<std::size_t> nodes_beside(const ClusterSpec& cluster, const ClusterSession& session) {
  std::vector<bool> is_member(cluster.nodes.size());
  for (const Member& member : session.members()) is_member[member.node] = true;
  std::vector<std::size_t> beside;
  for (std::size_t node = 0; node < is_member.size(); ++node) {
    const bool shares = std::ranges::any_of(session.members(), [&](const Member& member) {
      return share_machine(cluster.nodes[node], cluster.nodes[member.node]);
    });
    if (!is_member[node] && shares) beside.push_back(node);
  }
  return beside;
}

// The processes of all jobs on the nodes, and on those beside them that answer: nodes on one
// machine have the same ports.
Result<std::vector<remote::ProcessStatus>> processes_of_jobs(ClusterSession& session,
                                                             ClusterSession& beside) {
  std::vector<remote::ProcessStatus> processes;
  for (ClusterSession* const one : {&session, &beside}) {
    for (ProcessOnNode& process : one->processes(""))
      processes.push_back(std::move(process.status));
  }
  PADDLE_TRY_STATUS(session.all_well());  // a node that failed has no client now
  return processes;
}

std::vector<remote::PortRange> ports_on(const JobPlan& plan, std::size_t node) {
  std::vector<remote::PortRange> ports;
  for (const auto* const processes : {&plan.pservers, &plan.trainers}) {
    for (const PlannedProcess& process : *processes) {
      if (process.node == node)
        ports.insert(ports.end(), process.spec.ports.begin(), process.spec.ports.end());
    }
  }
  return joined(std::move(ports), kPortsClaimedAtOnce);
}

const PlannedProcess& first_process(const JobPlan& plan) {
  return plan.pservers.empty() ? plan.trainers.front() : plan.pservers.front();
}

// Claims the plan's ports. Returns the name of a job, running or being started, that has one of
// them; "" if all were claimed.
Result<std::string> claim_ports_of(ClusterSession& session, const ClusterSpec& cluster,
                                   const JobPlan& plan,
                                   const std::vector<remote::ProcessStatus>& running) {
  std::mutex mutex;
  std::string holder;
  const auto claim = [&](Member& member) -> Status {
    if (const std::lock_guard lock(mutex); !holder.empty()) return {};
    for (const remote::PortRange& range : ports_on(plan, member.node)) {
      PADDLE_TRY(const auto ports,
                 member.client->claim_ports(range.address, range.first, range.count));
      for (const remote::PortStatus& port : ports) {
        if (port.free) continue;
        const std::string job = port.claimed
                                    ? fmt::format("a job that is being started ({})", port.owner)
                                    : job_on_port(port, running);
        if (job.empty()) {
          return Error{Errc::kResource,
                       fmt::format("node {}: port {} on {} is taken{}; nothing was started",
                                   member.spec.name, port.port, range.address,
                                   port.owner.empty() ? "" : " by " + port.owner),
                       next_free_ports(cluster, member, range.address, range.first)};
        }
        const std::lock_guard lock(mutex);
        holder = job;
      }
    }
    return {};
  };
  Member& first = *session.find_node(first_process(plan).node);
  PADDLE_TRY_STATUS(on_first_then_others(session, first, claim));
  return holder;
}

}  // namespace

Result<std::string> claim_new_name(Context& context, ClusterSession& session,
                                   const std::string& name, bool asked) {
  Error refused;
  for (int number = 1; number <= kJobsOfOneNameMax; ++number) {
    const std::string job = number == 1 ? name : fmt::format("{}-{}", name, number);
    const Status claimed = claim_or_refuse(
        context, session, job, {.command = JobCommand::kTrain, .fresh = true, .patient = asked});
    if (claimed) return job;
    refused = claimed.error();
    if (asked || refused.code != Errc::kUsage) break;
  }
  return refused;
}

Status claim_old_name(Context& context, ClusterSession& session, const std::string& job) {
  return claim_or_refuse(context, session, job, {.command = JobCommand::kResume, .idle = true});
}

// A block: the ports that this job needs on every node, from `port` of the cluster file plus
// skipped_ports on.
// 1. Skip the blocks in which a process of a running job has a port, open or not.
// 2. Plan the job on the next block.
// 3. Claim the block's ports on the nodes: two jobs that start at the same time have no processes
//    yet, so step 1 does not see them.
// 4. If another job has a port of the block, because it is being started or has opened a port
//    outside its plan, go on at 1 with the next block. A port of a program outside paddlectl's jobs
//    is an error in the first block, and only ends the try in a later one.
Result<JobPlan> claim_ports(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                            JobRequest request, const Placement& placement,
                            const Workspace& workspace) {
  PADDLE_TRY(const NodeNetwork network, network_of(session, cluster, workspace.trainers_listen()));
  const std::vector<std::string>& addresses = network.addresses;
  ClusterSession beside = ClusterSession::find(context, cluster, nodes_beside(cluster, session));
  std::string last_holder;  // the last job that had a port of a block; "": this is the first block
  for (std::size_t tries = 0; tries < kConcurrentJobsMax; ++tries) {
    PADDLE_TRY(const auto running, processes_of_jobs(session, beside));
    PADDLE_TRY(JobPorts ports, ports_of_job(cluster, request, placement, addresses, workspace));
    std::string holder = job_on_ports(ports.all(), running);
    while (!holder.empty()) {
      last_holder = std::move(holder);
      request.skipped_ports += ports.span();
      PADDLE_TRY(ports, ports_of_job(cluster, request, placement, addresses, workspace));
      holder = job_on_ports(ports.all(), running);
    }
    PADDLE_TRY(JobPlan plan, plan_job(cluster, request, placement, network, workspace));
    for (const auto* const processes : {&plan.pservers, &plan.trainers}) {
      for (const PlannedProcess& process : *processes)
        PADDLE_TRY_STATUS(remote::check_size(process.spec));
    }
    auto blocked_by = claim_ports_of(session, cluster, plan, running);
    if (!blocked_by && (last_holder.empty() || blocked_by.error().code != Errc::kResource))
      return std::move(blocked_by).error();
    if (!blocked_by || !blocked_by->empty()) {
      if (blocked_by) last_holder = *blocked_by;
      request.skipped_ports += ports.span();
      continue;
    }
    if (!last_holder.empty()) {
      context.console.note(fmt::format(
          "{} is running on these nodes: this job's processes take the ports from {} on",
          last_holder, ports.all().front().first));
    }
    return plan;
  }
  return Error{Errc::kResource,
               fmt::format("{} jobs use ports of this cluster, and {} is the last of them",
                           kConcurrentJobsMax, last_holder),
               "list the jobs with paddlectl jobs, and end one with paddlectl stop"};
}

Status end_claims(ClusterSession& session) {
  return session.each([](Member& member) { return member.client->started(); });
}

Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const JobEngines& engines) {
  remote::PushSource source(context.hash_cache, session.members().size());
  PushMeter meter(context, session.members().size());
  std::atomic<std::size_t> files = 0;
  std::atomic<std::uint64_t> from_nodes = 0;
  Status pushed = session.each([&](Member& member) -> Status {
    const auto found = std::ranges::find(plan.files, member.node, &NodeFiles::node);
    std::vector<remote::PushItem> items = engines.on_node(plan, member.node);
    if (found != plan.files.end())
      items.insert(items.end(), found->items.begin(), found->items.end());
    PADDLE_TRY(const remote::PushStats stats,
               member.client->push(items, source, meter.progress(), workspace_folder(plan.job)));
    files += stats.files_sent;
    from_nodes += stats.bytes_from_nodes;
    return {};
  });
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);
  if (!pushed && context.interrupted()) {
    return Error{
        Errc::kInterrupted,
        "interrupted: nothing was started; the files that were pushed are kept for the next push",
        ""};
  }
  if (!pushed) return pushed;
  context.console.note(fmt::format("pushed {} to {}{}{}", counted(files, "file"),
                                   counted(session.members().size(), "node"), meter.summary(),
                                   fan_out_summary(from_nodes, source.fan_out())));
  return {};
}

namespace {

// The id in a process's name, "trainer-3", because a list from nodes may have any order.
Result<NodeId> id_of(const PlannedProcess& process, Role role) {
  NodeId id{role, 0};
  const std::string& name = process.spec.name;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + name.rfind('-') + 1, end, id.index);
  if (error == std::errc() && at == end) return id;
  return Error{Errc::kData, fmt::format("'{}' is not the name of a process", name), ""};
}

Status write_keys(Member& member, const std::string& job, const std::string& name, Bytes keys) {
  Status written = member.client->write_keys(job, name, keys);
  ::explicit_bzero(keys.data(), keys.size());
  return written;
}

// The key file for programs that read rows while the job runs. It lies on the node of trainer 0,
// which may read all rows anyway.
constexpr const char* kReaderKeys = "reader";

// Gives every process the keys of its own pairs, made from a secret that is not kept here.
Status deal_keys(ClusterSession& session, const JobPlan& plan) {
  PADDLE_TRY(const Secret secret, Secret::generate());
  std::vector<NodeId> pservers;
  for (const PlannedProcess& process : plan.pservers) {
    PADDLE_TRY(const NodeId id, id_of(process, Role::kPserver));
    pservers.push_back(id);
  }
  return session.each([&](Member& member) -> Status {
    for (std::size_t i = 0; i < plan.pservers.size(); ++i) {
      if (plan.pservers[i].node != member.node) continue;
      PADDLE_TRY_STATUS(write_keys(member, plan.job, plan.pservers[i].spec.name,
                                   encode_keys(secret, pservers[i], true, {})));
    }
    for (const PlannedProcess& trainer : plan.trainers) {
      if (trainer.node != member.node) continue;
      PADDLE_TRY(const NodeId id, id_of(trainer, Role::kTrainer));
      if (id.index == 0 && !pservers.empty()) {
        PADDLE_TRY_STATUS(write_keys(member, plan.job, kReaderKeys,
                                     encode_keys(secret, {Role::kReader, 0}, false, pservers)));
      }
      // In each pair of trainers, the one with the lower id listens.
      std::vector<NodeId> servers = pservers;
      for (std::uint32_t other = 0; plan.trainers_talk && other < id.index; ++other) {
        servers.push_back({Role::kTrainer, other});
      }
      PADDLE_TRY_STATUS(write_keys(member, plan.job, trainer.spec.name,
                                   encode_keys(secret, id, plan.trainers_talk, servers)));
    }
    return {};
  });
}

constexpr Duration kReadyDeadline = std::chrono::seconds(20);  // if --timeout is not given
constexpr auto kReadyPollPeriod = std::chrono::milliseconds(50);

Status wait_ready(Context& context, ClusterSession& session, const PlannedProcess& server,
                  TimePoint deadline) {
  Member& member = *session.find_node(server.node);
  for (;;) {
    PADDLE_TRY(const auto statuses, member.client->processes(server.spec.job));
    const auto found = std::ranges::find(statuses, server.spec.name, &remote::ProcessStatus::name);
    if (found != statuses.end() && found->phase == remote::Phase::kReady) return {};
    if (found != statuses.end() && !is_running(*found)) {
      return failure_error(session, {session.index_of(member), *found}).with("before it was ready");
    }
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    if (context.clock.now() > deadline) {
      return Error{
          Errc::kUnreachable,
          fmt::format("{} on {} was not ready in time", server.spec.name, member.spec.name),
          fmt::format("see its log: paddlectl logs --node {}; --timeout allows it more time",
                      member.spec.name)};
    }
    context.pause(kReadyPollPeriod);
  }
}

using Start = std::function<Status(remote::AgentClient&, const remote::ProcessSpec&)>;

Status start_all(ClusterSession& session, const std::vector<PlannedProcess>& processes,
                 const Start& start) {
  return session.each([&](Member& member) -> Status {
    for (const PlannedProcess& process : processes) {
      if (process.node == member.node) PADDLE_TRY_STATUS(start(*member.client, process.spec));
    }
    return {};
  });
}

Status start_in_order(Context& context, ClusterSession& session, const JobPlan& plan,
                      const Start& start) {
  PADDLE_TRY_STATUS(start_all(session, plan.pservers, start));
  const Duration patience = context.limits.timeout;
  const auto deadline = context.clock.now() + (patience > Duration() ? patience : kReadyDeadline);
  for (const PlannedProcess& server : plan.pservers) {
    PADDLE_TRY_STATUS(wait_ready(context, session, server, deadline));
  }
  if (!plan.pservers.empty())
    context.console.note(counted(plan.pservers.size(), "pserver") + " ready");
  PADDLE_TRY_STATUS(start_all(session, plan.trainers, start));
  context.console.note(counted(plan.trainers.size(), "trainer") + " running");
  return {};
}

}  // namespace

Status start_job(Context& context, ClusterSession& session, const JobPlan& plan) {
  PADDLE_TRY_STATUS(deal_keys(session, plan));
  return start_in_order(context, session, plan,
                        [](remote::AgentClient& client, const remote::ProcessSpec& spec) {
                          return client.start(spec);
                        });
}

Status restart_job(Context& context, ClusterSession& session, const std::string& job) {
  const ClaimTerms restart{.command = JobCommand::kRestart, .idle = true};
  PADDLE_TRY_STATUS(claim_or_refuse(context, session, job, restart));
  PADDLE_TRY_STATUS(note_phase(context, session, job, restart, "starts its processes again"));
  JobPlan plan;
  plan.job = job;
  std::set<std::string> names;
  for (const ProcessOnNode& process : session.all_records(job)) {
    if (!names.insert(process.status.name).second) {
      return Error{Errc::kFailed,
                   fmt::format("two nodes claim {} of job {}: no node gets its keys",
                               process.status.name, job),
                   fmt::format("paddlectl train --resume --name {}", job)};
    }
    PlannedProcess planned;
    planned.node = session.members()[process.member].node;
    planned.spec.job = job;
    planned.spec.name = process.status.name;
    (is_pserver(process.status) ? plan.pservers : plan.trainers).push_back(std::move(planned));
  }
  PADDLE_TRY_STATUS(session.all_well());
  PADDLE_TRY_STATUS(deal_keys(session, plan));
  PADDLE_TRY_STATUS(start_in_order(
      context, session, plan, [](remote::AgentClient& client, const remote::ProcessSpec& spec) {
        return client.restart(spec.job, {spec.name});
      }));
  release_claim(session, job);
  return {};
}

}  // namespace paddle::cli
