#include "cli/job/claim.h"

#include <mutex>

#include <fmt/format.h>

#include "cli/nodes/ports.h"

namespace paddle::cli {
namespace {

constexpr int kJobsOfOneNameMax = 100;
constexpr std::size_t kConcurrentJobsMax = 16;

// Asks one node before the others: it then refuses one of two simultaneous claims. Asking all nodes
// at once could refuse both.
Status on_first_then_others(ClusterSession& session, Member& first,
                            const std::function<Status(Member&)>& work) {
  PADDLE_TRY_STATUS(work(first));
  return session.each([&](Member& member) { return &member == &first ? Status() : work(member); });
}

Status claim_name(ClusterSession& session, const std::string& job, bool again) {
  return on_first_then_others(session, session.members().front(),
                              [&](Member& member) { return member.client->claim_job(job, again); });
}

Result<JobPlan> make_plan(ClusterSession& session, const ClusterSpec& cluster,
                          const JobRequest& request, const Placement& placement,
                          const Workspace& workspace) {
  std::vector<std::string> addresses;
  for (const ClusterNode& node : cluster.nodes) addresses.push_back(node.address);
  PADDLE_TRY_STATUS(session.each([&](Member& member) -> Status {
    if (!addresses[member.node].empty()) return {};
    PADDLE_TRY(const remote::HostFacts facts, member.client->facts());
    addresses[member.node] = facts.address;
    return {};
  }));
  return plan_job(cluster, request, placement, addresses, workspace);
}

// Claims the plan's ports. The name of a job, running or being started, that has one of them; ""
// when all were claimed.
Result<std::string> claim_ports_of(ClusterSession& session, const ClusterSpec& cluster,
                                   const JobPlan& plan) {
  std::vector<remote::ProcessStatus> ours;  // on all nodes, since they may share a machine
  for (ProcessOnNode& process : session.processes("")) ours.push_back(std::move(process.status));
  PADDLE_TRY_STATUS(session.all_well());  // a silent node has lost its client
  std::mutex mutex;
  std::string job;
  const auto claim = [&](Member& member) -> Status {
    if (const std::lock_guard lock(mutex); !job.empty()) return {};
    for (const PlannedProcess& server : plan.pservers) {
      if (server.node != member.node) continue;
      PADDLE_TRY(const auto ports,
                 member.client->claim_ports(server.address, server.port, cluster.block()));
      for (const remote::PortStatus& port : ports) {
        if (port.free) continue;
        const std::string owner = port.claimed ? "another job" : job_on_port(port, ours);
        if (owner.empty()) {
          return Error{Errc::kResource,
                       fmt::format("node {}: port {} on {} is taken{}; nothing was started",
                                   member.spec.name, port.port, server.address,
                                   port.owner.empty() ? "" : " by " + port.owner),
                       "end that program, or set another `port` for the node"};
        }
        const std::lock_guard lock(mutex);
        job = owner;
      }
    }
    return {};
  };
  Member& first = *session.find_node(plan.pservers.front().node);
  PADDLE_TRY_STATUS(on_first_then_others(session, first, claim));
  return job;
}

}  // namespace

Result<std::string> claim_new_name(ClusterSession& session, const std::string& name, bool asked) {
  Error refused;
  for (int number = 1; number <= kJobsOfOneNameMax; ++number) {
    const std::string job = number == 1 ? name : fmt::format("{}-{}", name, number);
    auto claimed = claim_name(session, job, false);
    if (claimed) return job;
    refused = std::move(claimed).error();
    if (asked || refused.code != Errc::kUsage) break;
    PADDLE_TRY_STATUS(end_claims(session));
  }
  return refused;
}

Status claim_old_name(ClusterSession& session, const std::string& job) {
  return claim_name(session, job, true);
}

Result<JobPlan> claim_ports(Context& context, ClusterSession& session, const ClusterSpec& cluster,
                            JobRequest request, const Placement& placement,
                            const Workspace& workspace) {
  std::string neighbour;
  for (; request.first_block < kConcurrentJobsMax * placement.pservers.size();
       request.first_block += placement.pservers.size()) {
    PADDLE_TRY(JobPlan plan, make_plan(session, cluster, request, placement, workspace));
    auto other = claim_ports_of(session, cluster, plan);
    // Behind the ports of a job of ours, a stranger's port only means that the next block is tried.
    if (!other && (neighbour.empty() || other.error().code != Errc::kResource))
      return std::move(other).error();
    if (!other || !other->empty()) {
      if (other) neighbour = *other;
      continue;
    }
    if (!neighbour.empty()) {
      context.console.note(
          fmt::format("{} is running on these nodes: this job's pservers take the ports from {} on",
                      neighbour, plan.pservers.front().port));
    }
    return plan;
  }
  return Error{Errc::kResource,
               fmt::format("{} jobs have ports of this cluster", kConcurrentJobsMax),
               "look with paddlectl status, end one with paddlectl stop"};
}

Status end_claims(ClusterSession& session) {
  return session.each([](Member& member) { return member.client->started(); });
}

}  // namespace paddle::cli
