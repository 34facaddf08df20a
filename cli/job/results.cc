#include "cli/job/results.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/job/folders.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// The files beside a log with its offset after rotation and the times of its lines, which only the
// agent reads.
bool is_log_index(const std::string& path) {
  return path.ends_with(".log.base") || path.ends_with(".log.times") ||
         path.ends_with(".log.times.1");
}

struct Counters {
  std::atomic<std::size_t> files = 0, fetched = 0;
};

Status fetch_folder(Member& member, const std::string& remote, const fs::path& local,
                    Counters& counters) {
  PADDLE_TRY(auto entries, member.client->list(remote));
  std::ranges::stable_sort(entries, {},
                           [](const remote::FileEntry& e) { return e.path.ends_with("MANIFEST"); });
  std::vector<remote::FetchItem> wanted;
  for (const remote::FileEntry& entry : entries) {
    if (is_log_index(entry.path)) continue;
    auto placed = fetch_target(
        local, entry.path, "the results are still on the nodes: paddlectl fetch --output <folder>");
    if (!placed) return std::move(placed).error().with("node " + member.spec.name);
    const std::string target = *std::move(placed);
    ++counters.files;
    std::error_code error;
    if (fs::file_size(target, error) == entry.size && !error) {
      const auto digest = sha256_of_file(target);
      if (digest && to_hex(*digest) == entry.sha256) continue;
    }
    wanted.push_back({remote + "/" + entry.path, target});
  }
  PADDLE_TRY_STATUS(member.client->fetch(wanted));
  counters.fetched += wanted.size();
  return {};
}

}  // namespace

std::string shown_path(const Context& context, const std::string& path) {
  const fs::path inside = fs::path(path).lexically_relative(context.directory);
  const bool below = !context.console.json() && !inside.empty() && *inside.begin() != "..";
  return (below ? inside : fs::path(path).lexically_normal()).string();
}

Status make_folder(const fs::path& folder, const std::string& hint) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{Errc::kResource, fmt::format("create {}: {}", folder.string(), error.message()),
               hint};
}

Result<std::string> fetch_target(const fs::path& folder, const std::string& name,
                                 const std::string& hint) {
  if (auto safe = SafePath::parse(name); !safe) return std::move(safe).error();
  const fs::path target = folder / name;
  PADDLE_TRY_STATUS(make_folder(target.parent_path(), hint));
  return target.string();
}

Result<FetchStats> fetch_results(ClusterSession& session, const std::string& job,
                                 const std::string& output, Wanted wanted) {
  PADDLE_TRY_STATUS(check_job_name(job));
  const fs::path folder = fs::path(output) / job;
  Counters counters;
  const Status fetched = session.each([&](Member& member) -> Status {
    const std::string logs = fmt::format("node_{}", member.node);
    PADDLE_TRY_STATUS(fetch_folder(member, node_folder(job, member.node), folder / logs, counters));
    if (wanted == Wanted::kLogs) return {};
    return fetch_folder(member, job_folder(job) + "/output", folder, counters);
  });
  if (!fetched) return fetched.error();
  return FetchStats{counters.files, counters.fetched};
}

}  // namespace paddle::cli
