#include "cli/cluster/link_check.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/pool.h"

namespace paddle::cli {
namespace {

struct Listener {
  std::optional<Secret> token;  // nothing: the end does not listen
  std::optional<Error> error;
};

void listen(Member& member, const LinkEnd& end, Listener& listener) {
  if (end.port == 0) return;
  auto token = Secret::generate();
  if (!token) {
    listener.error = std::move(token).error();
    return;
  }
  auto done = member.client->listen_for_probes(end.address, end.port, *token);
  if (done) {
    listener.token = *std::move(token);
  } else {
    listener.error = std::move(done).error();
  }
}

// A step, coprime to `count`, that visits 1 ... count - 1 in long strides. Neighbours in the list
// often share a rack, and a few rounds should not try only them.
std::size_t spread_step(std::size_t count) {
  std::size_t step = std::max<std::size_t>(1, count * 382 / 1000);  // the golden section
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

}  // namespace

Result<LinkCheck> check_links(Context& context, ClusterSession& session,
                              const std::vector<LinkEnd>& ends) {
  LinkCheck check;
  const std::size_t count = ends.size();
  const auto member = [&](std::size_t i) -> Member& { return session.members()[ends[i].member]; };
  std::vector<Listener> listeners(count);
  if (count < 2) return check;
  const std::size_t at_once = context.limits.at_once;
  for_each_parallel(
      count, [&](std::size_t i) { listen(member(i), ends[i], listeners[i]); }, at_once);
  // Nodes that have stopped answering and are not asked again.
  std::vector<char> lost(count, 0);
  const TimePoint deadline = context.clock.now() + kLinksDeadline;
  check.rounds = count - 1;
  for (; check.rounds_tried < check.rounds && !context.interrupted(); ++check.rounds_tried) {
    if (context.clock.now() > deadline) break;
    const std::size_t distance = (check.rounds_tried + 1) * spread_step(count) % count;
    context.console.progress(
        context.clock.now(),
        fmt::format("testing links between nodes, {} of {}", check.rounds_tried + 1, check.rounds));
    std::vector<std::optional<Result<remote::ProbeResult>>> calls(count);
    const auto call_next = [&](std::size_t i) {
      const std::size_t to = (i + distance) % count;
      if (lost[i] != 0 || !listeners[to].token) return;
      calls[i].emplace(member(i).client->probe(
          ends[to].address, ends[to].port, *listeners[to].token, static_cast<std::uint32_t>(i)));
    };
    for_each_parallel(count, call_next, at_once);
    for (std::size_t i = 0; i < count; ++i) {
      if (!calls[i]) continue;
      if (Result<remote::ProbeResult>& called = *calls[i]; called) {
        const std::size_t to = (i + distance) % count;
        check.links.push_back({ends[i].member, ends[to].member, *std::move(called)});
      } else {
        lost[i] = 1;
        check.errors.push_back(std::move(called).error());
      }
    }
  }
  context.console.end_progress();
  const auto stop = [&](std::size_t i) {
    if (!listeners[i].token || lost[i] != 0) return;
    if (auto done = member(i).client->stop_listening(); !done)
      listeners[i].error = std::move(done).error();
  };
  for_each_parallel(count, stop, at_once);
  for (Listener& listener : listeners) {
    if (listener.error) check.errors.push_back(*std::move(listener.error));
  }
  if (context.interrupted())
    return Error{Errc::kInterrupted, "interrupted; the nodes have stopped listening", ""};
  std::ranges::sort(check.links, {},
                    [](const Link& link) { return std::pair(link.from, link.to); });
  return check;
}

}  // namespace paddle::cli
