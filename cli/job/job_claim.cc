#include "cli/job/job_claim.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr auto kLookPeriod = std::chrono::milliseconds(200);

// Whether a command goes on without a claim on a node that is lost or has no room for it. A command
// that ends or fetches a job does; one that starts processes does not.
bool may_go_without(JobCommand command, Errc code) {
  return !starts_processes(command) && (code == Errc::kResource || code == Errc::kUnreachable);
}

// Asks the first node before the others, so that it lets only one of two simultaneous commands
// through. If all nodes were asked at once, each command could get the claims on some nodes.
Result<std::vector<remote::JobClaim>> ask(ClusterSession& session,
                                          const remote::WantedClaim& wanted) {
  std::mutex mutex;
  std::vector<remote::JobClaim> others;
  std::optional<Error> refused;
  const auto ask_one = [&](Member& member) -> Status {
    auto found = member.client->claim_job(wanted);
    const std::lock_guard lock(mutex);
    if (found) {
      others.insert(others.end(), found->begin(), found->end());
      return {};
    }
    Error error = std::move(found).error();
    if (!may_go_without(wanted.claim.command, error.code)) refused = error;
    if (error.code == Errc::kResource && !refused) return {};
    if (error.code == Errc::kUnreachable) member.client.reset();
    return error;
  };
  const auto first =
      std::ranges::find_if(session.members(), [](const Member& m) { return m.client != nullptr; });
  if (first == session.members().end()) return others;
  if (Status asked = ask_one(*first); !asked) first->error = std::move(asked).error();
  if (!refused && others.empty()) {
    (void)session.each(
        [&](Member& member) { return &member == &*first ? Status() : ask_one(member); });
  }
  if (refused) return *std::move(refused);
  return others;
}

Order order_for(const remote::JobClaim& holder, const remote::JobClaim& newcomer) {
  const Order order = order_of(holder.command, newcomer.command);
  // Restarts of two different processes are different work.
  const bool is_other = holder.command == JobCommand::kRestartProcess &&
                        newcomer.command == JobCommand::kRestartProcess &&
                        holder.process != newcomer.process;
  return order == Order::kJoin && is_other ? Order::kWait : order;
}

// The claim that decides: one that refuses, or else one that has to end first.
const remote::JobClaim& decisive(const std::vector<remote::JobClaim>& holders,
                                 const remote::JobClaim& newcomer) {
  return *std::ranges::max_element(holders, {},
                                   [&](const auto& holder) { return order_for(holder, newcomer); });
}

}  // namespace

std::string describe(const remote::JobClaim& claim, const std::string& job) {
  std::string name(name_of(claim.command));
  if (claim.command == JobCommand::kRestartProcess) name = "restart " + claim.process;
  return fmt::format(
      "paddlectl {}{} {} {}{}", name, claim.who.empty() ? "" : fmt::format(" of {},", claim.who),
      verb_of(claim.command), job, claim.phase.empty() ? "" : fmt::format(" ({})", claim.phase));
}

Error refusal(const remote::JobClaim& holder, JobCommand newcomer, const std::string& job) {
  Error error{Errc::kUsage, describe(holder, job), ""};
  if (!starts_processes(holder.command)) {
    error.hint = fmt::format("once it has ended: paddlectl train --resume --name {}", job);
    return error;
  }
  if (newcomer == JobCommand::kTrain) {
    error.message =
        fmt::format("another paddlectl is starting a job named '{}': {}", job, error.message);
    error.hint = fmt::format("follow it: paddlectl attach --job {}; or choose another --name", job);
  } else if (newcomer == JobCommand::kRm) {
    error.hint = fmt::format("end it first: paddlectl stop --job {}", job);
  } else {
    error.hint = fmt::format("follow it: paddlectl attach --job {}", job);
  }
  return error;
}

Result<Claimed> claim_job(Context& context, ClusterSession& session, const std::string& job,
                          const ClaimTerms& terms) {
  const remote::WantedClaim wanted{
      job, {terms.command, context.who, terms.process, ""}, terms.fresh, terms.idle};
  Claimed claimed;
  const std::size_t unreachable = session.unreachable();
  bool is_reconnected = false;
  for (std::string shown;;) {
    auto others = ask(session, wanted);
    // A teardown ends the agents that other commands use, and removes a node's folder with them.
    if (session.unreachable() > unreachable && !std::exchange(is_reconnected, true)) {
      session.reconnect(context);
      claimed.has_waited = true;
      continue;
    }
    if (others && others->empty()) return claimed;
    release_claim(session, job);  // a waiting command blocks no other
    if (!others) return std::move(others).error();
    const remote::JobClaim& holder = decisive(*others, wanted.claim);
    const Order order = order_for(holder, wanted.claim);
    if (order == Order::kRefuse || !terms.patient) {
      claimed.refused_by = holder;
      return claimed;
    }
    claimed.has_waited = true;
    claimed.is_joined = claimed.is_joined || order == Order::kJoin;
    if (context.interrupted()) {
      return Error{Errc::kInterrupted, "no longer waiting: " + describe(holder, job), ""};
    }
    if (std::string text = describe(holder, job); text != shown) {
      const bool is_stop = terms.command == JobCommand::kStop;
      context.console.note(fmt::format(
          "{}: waiting for {} end{}", text, order == Order::kJoin ? "the same" : "its",
          is_stop ? fmt::format("; paddlectl stop --now {} ends it immediately", job) : ""));
      shown = std::move(text);
    }
    context.pause(kLookPeriod);
  }
}

Status claim_or_refuse(Context& context, ClusterSession& session, const std::string& job,
                       const ClaimTerms& terms) {
  PADDLE_TRY(const Claimed claimed, claim_job(context, session, job, terms));
  if (claimed.refused_by) return refusal(*claimed.refused_by, terms.command, job);
  return {};
}

Status note_phase(Context& context, ClusterSession& session, const std::string& job,
                  const ClaimTerms& terms, const std::string& phase) {
  const remote::WantedClaim wanted{
      job, {terms.command, context.who, terms.process, phase}, false, false};
  return session.each([&](Member& member) -> Status {
    auto others = member.client->claim_job(wanted);
    const bool is_ok = others || may_go_without(terms.command, others.error().code);
    return is_ok ? Status() : Status(std::move(others).error());
  });
}

void release_claim(ClusterSession& session, const std::string& job) {
  (void)session.each([&](Member& member) { return member.client->release_job(job); });
}

}  // namespace paddle::cli
