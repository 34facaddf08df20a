#include "cli/watch/past.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/console/console.h"
#include "cli/console/time_text.h"
#include "cli/logs/log_line.h"
#include "cli/logs/reader.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kRestartsTold = 5;
constexpr std::size_t kLinesTold = 5;
constexpr std::uint64_t kLogBytesLookedAt = 16U << 10U;

void tell_restarts(Context& context, ClusterSession& session,
                   const std::vector<ProcessOnNode>& processes) {
  struct Told {
    std::int64_t ms_ago;
    std::string text;
  };
  std::vector<Told> all;
  for (const auto& [member, status] : processes) {
    for (const remote::Restart& restart : status.restarts) {
      if (restart.failures == 0 && !restart.ordered)
        continue;  // of those that lost a peer, the peer is the news
      all.push_back({restart.age_ms,
                     fmt::format("{} on {} {}", status.name, session.members()[member].spec.name,
                                 describe(restart, status.restarts_allowed))});
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Told::ms_ago);
  if (all.size() > kRestartsTold)
    context.console.note(counted(all.size() - kRestartsTold, "earlier restart") + " not shown");
  for (std::size_t i = all.size() - std::min(all.size(), kRestartsTold); i < all.size(); ++i)
    context.console.note(fmt::format("{} ago: {}", span_text(all[i].ms_ago), all[i].text));
}

// Of trainer 0, which tests and saves for all.
void tell_log(Context& context, ClusterSession& session,
              const std::vector<ProcessOnNode>& processes) {
  for (const auto& [member, status] : processes) {
    Member& node = session.members()[member];
    if (status.name != "trainer-0" || !node.client) continue;
    const auto lines = LogReader(status.log).tail(*node.client, kLinesTold, kLogBytesLookedAt);
    if (!lines) return;  // none was written yet
    for (const LogLine& line : *lines) {
      context.console.note(fmt::format("{}/{} | {}", node.spec.name, status.name,
                                       escape_control(shown_line(line.text))));
    }
  }
}

}  // namespace

void tell_past(Context& context, ClusterSession& session, const std::string& job) {
  const std::vector<ProcessOnNode> processes = session.processes(job);
  const bool runs = std::ranges::any_of(
      processes, [](const ProcessOnNode& process) { return is_running(process.status); });
  if (!runs) return;
  tell_restarts(context, session, processes);
  tell_log(context, session, processes);
}

}  // namespace paddle::cli
