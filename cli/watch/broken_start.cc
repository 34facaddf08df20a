#include "cli/watch/broken_start.h"

#include <algorithm>
#include <atomic>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace

// Snapshots, and lines of metrics that trainers write; both of a program of the user's own too.
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
    broken.is_first_start = broken.is_first_start && status.life <= 1;
    broken.trainers = std::max(broken.trainers, status.trainers);
    broken.pservers = std::max(broken.pservers, status.pservers);
  }
  const auto sort_out = [&](std::string_view role, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::string name = fmt::format("{}-{}", role, i);
      const auto found = known.find(name);
      if (found == known.end()) broken.missing.push_back(std::move(name));
      if (found != known.end() && found->second) broken.running.push_back(std::move(name));
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
  auto broken = broken_start(session, session.processes(job));
  if (broken) broken->has_trained = has_trained(session, job);
  return broken;
}

std::string describe(const BrokenStart& broken, const std::string& job) {
  const std::string missing = list_of(broken.missing);
  const std::string what =
      broken.is_first_start && !broken.has_trained
          ? fmt::format("the start of {} was broken off: {} {} never started", job, missing,
                        broken.missing.size() == 1 ? "was" : "were")
          : fmt::format("{} is incomplete: no node has {}", job, missing);
  if (broken.running.empty()) return what + "; nothing of it runs";
  return fmt::format("{}; {} {}", what, list_of(broken.running),
                     broken.running.size() == 1 ? "runs" : "run");
}

}  // namespace paddle::cli
