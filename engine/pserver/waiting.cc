#include "engine/pserver/waiting.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace paddle::pserver {
namespace {

Blockers blockers_of(const ShardState& state, WaitFor what) {
  switch (what) {
    case WaitFor::kReady:
      return {[](const Trainer& t) { return t.id == 0; },
              " to announce that initial values are loaded"};
    case WaitFor::kStep:
    case WaitFor::kUpdate:
      return state.parameters.policy().blockers(state.membership, state.progress.step);
    case WaitFor::kPass:
      break;
  }
  return {[](const Trainer& t) { return t.active(); },
          " to finish " + pass_words(state.progress.passes_finished)};
}

void send_notice(TimePoint now, const ShardState& state, Trainer& trainer,
                 std::vector<net::Outgoing>& out) {
  const Blockers blockers = blockers_of(state, trainer.waiter->what);
  bool all_connected = true;
  const bool is_any = std::ranges::any_of(state.membership.trainers(), blockers.is_one);
  const std::string names = state.membership.names(blockers.is_one, all_connected);
  wire::Waiting message;
  message.set_request(trainer.waiter->request);
  message.set_reason(is_any ? names + blockers.debt : "its savepoint to be written to disk");
  message.set_all_connected(all_connected);
  message.set_progress(state.progress.requests);
  trainer.waiter->next_notice = now + kNoticePeriod;
  state.replies.send(trainer, FrameType::kWaiting, message, {}, out);
}

}  // namespace

void send_due_notices(TimePoint now, ShardState& state, std::vector<net::Outgoing>& out) {
  for (Trainer& trainer : state.membership.trainers()) {
    if (trainer.waiter && now >= trainer.waiter->next_notice) {
      send_notice(now, state, trainer, out);
    }
  }
}

std::optional<Awaited> awaited(const ShardState& state) {
  const Waiter* first = nullptr;
  for (const Trainer& trainer : state.membership.trainers()) {
    if (!trainer.waiter) continue;
    if (first == nullptr || trainer.waiter->since < first->since) first = &*trainer.waiter;
  }
  if (first == nullptr) return std::nullopt;
  const Blockers blockers = blockers_of(state, first->what);
  Awaited found{first->since, {}};
  for (const Trainer& trainer : state.membership.trainers()) {
    if (blockers.is_one(trainer)) found.trainers.push_back(trainer.id);
  }
  return found;
}

}  // namespace paddle::pserver
