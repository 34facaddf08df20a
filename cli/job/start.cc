#include "cli/job/start.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include <fmt/format.h>

#include "base/secret.h"
#include "cli/job/failure.h"
#include "cli/job/folders.h"
#include "cli/job/process_state.h"
#include "cli/job/push_meter.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

constexpr Duration kReadyDeadline = std::chrono::seconds(20);  // without --timeout
constexpr auto kReadyPollPeriod = std::chrono::milliseconds(50);

Status wait_ready(Context& context, ClusterSession& session, const PlannedProcess& server,
                  TimePoint deadline) {
  Member& member = *session.find_node(server.node);
  for (;;) {
    PADDLE_TRY(const auto statuses, member.client->processes(server.spec.job));
    const auto found = std::ranges::find(statuses, server.spec.name, &remote::ProcessStatus::name);
    if (found != statuses.end() && found->phase == remote::Phase::kReady) return {};
    if (found != statuses.end() && !is_running(*found)) {
      const auto index = static_cast<std::size_t>(&member - session.members().data());
      return failure_error(session, ProcessOnNode{index, *found}).with("before it was ready");
    }
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    if (context.clock.now() > deadline) {
      return Error{
          Errc::kUnreachable,
          fmt::format("{} on {} was not ready in time", server.spec.name, member.spec.name),
          fmt::format("see its log: paddlectl logs --node {}; --timeout gives it longer",
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

}  // namespace

Status push_job(Context& context, ClusterSession& session, const JobPlan& plan,
                const remote::PushItem& engine) {
  remote::PushSource source(context.hash_cache, session.members().size());
  PushMeter meter(context);
  std::atomic<std::size_t> files = 0;
  std::atomic<std::uint64_t> from_nodes = 0;
  Status pushed = session.each([&](Member& member) -> Status {
    const auto found = std::ranges::find(plan.files, member.node, &NodeFiles::node);
    std::vector<remote::PushItem> items{engine};
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
    return Error{Errc::kInterrupted,
                 "interrupted: nothing was started; what arrived stays for the next push", ""};
  }
  if (!pushed) return pushed;
  context.console.note(fmt::format("pushed {} to {}{}{}", counted(files, "file"),
                                   counted(session.members().size(), "node"), meter.summary(),
                                   fan_out_summary(from_nodes, source.fan_out())));
  return {};
}

namespace {

Status start_in_order(Context& context, ClusterSession& session, const JobPlan& plan,
                      const Start& start) {
  PADDLE_TRY_STATUS(start_all(session, plan.pservers, start));
  const Duration patience = context.limits.timeout;
  const auto deadline = context.clock.now() + (patience > Duration() ? patience : kReadyDeadline);
  for (const PlannedProcess& server : plan.pservers) {
    PADDLE_TRY_STATUS(wait_ready(context, session, server, deadline));
  }
  context.console.note(counted(plan.pservers.size(), "pserver") + " ready");
  PADDLE_TRY_STATUS(start_all(session, plan.trainers, start));
  context.console.note(counted(plan.trainers.size(), "trainer") + " running");
  return {};
}

}  // namespace

Status start_job(Context& context, ClusterSession& session, const JobPlan& plan) {
  // Written this late because an earlier run can still be restarted with its own secret until now.
  PADDLE_TRY(const Secret secret, Secret::generate());
  PADDLE_TRY_STATUS(
      session.each([&](Member& member) { return member.client->write_secret(plan.job, secret); }));
  return start_in_order(context, session, plan,
                        [](remote::AgentClient& client, const remote::ProcessSpec& spec) {
                          return client.start(spec);
                        });
}

Status restart_job(Context& context, ClusterSession& session, const std::string& job) {
  JobPlan plan;
  plan.job = job;
  for (const ProcessOnNode& process : session.processes(job)) {
    PlannedProcess planned;
    planned.node = session.members()[process.member].node;
    planned.pserver = is_pserver(process.status);
    planned.spec.job = job;
    planned.spec.name = process.status.name;
    (planned.pserver ? plan.pservers : plan.trainers).push_back(std::move(planned));
  }
  PADDLE_TRY_STATUS(session.all_well());
  return start_in_order(context, session, plan,
                        [](remote::AgentClient& client, const remote::ProcessSpec& spec) {
                          return client.restart(spec.job, {spec.name});
                        });
}

}  // namespace paddle::cli
