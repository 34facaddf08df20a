#include "cli/job/setup.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/job/folders.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kHashLength = 16;              // hexadecimal digits of a folder's name
constexpr std::size_t kOutputBytesMax = 16U << 10U;  // of the last lines

// $1 our folder, $2 the hash, $3 the workspace, $4 the log, then the program. The lock is for jobs
// that start at the same time.
constexpr const char* kScript = R"~(set -e
root=$1 work=$1/$3 log=$1/$4
export SETUP_DIR="$1/setup/$2"
shift 4
mkdir -p "$SETUP_DIR" "$(dirname "$log")"
cd "$work"
ln -sfn "$SETUP_DIR" .setup
exec 9>"$SETUP_DIR.lock"
flock 9
[ ! -e "$SETUP_DIR.done" ] || exit 0
"$@" >"$log" 2>&1 9>&- || { code=$?; tail -n 15 "$log"; exit $code; }
: >"$SETUP_DIR.done"
)~";

Status set_up_node(Context& context, Member& member, const JobPlan& plan,
                   const Workspace& workspace, const std::string& hash) {
  PADDLE_TRY(const remote::HostFacts facts, member.client->facts());
  remote::CommandSpec command;
  command.timeout = context.limits.timeout;
  command.arguments = {"/bin/sh",
                       "-c",
                       kScript,
                       "setup",
                       facts.root,
                       hash,
                       workspace_folder(plan.job),
                       node_folder(plan.job, member.node) + "/setup.log"};
  command.arguments.insert(command.arguments.end(), workspace.setup.begin(), workspace.setup.end());
  std::string said;
  const auto listen = [&](std::string_view text, bool) {
    said.append(text.substr(0, kOutputBytesMax - std::min(kOutputBytesMax, said.size())));
  };
  PADDLE_TRY(const remote::CommandEnd end,
             member.client->run(command, listen, context.interrupted));
  if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted during the setup", ""};
  if (end.exit_code == 0 && end.signal == 0 && !end.timed_out) return {};
  const std::string how = end.timed_out     ? "took longer than --timeout"
                          : end.signal != 0 ? fmt::format("was killed by signal {}", end.signal)
                                            : fmt::format("exited with code {}", end.exit_code);
  while (said.ends_with('\n')) said.pop_back();
  return Error{Errc::kFailed,
               fmt::format("node {}: the setup ({}) {}; nothing was started{}{}", member.spec.name,
                           fmt::join(workspace.setup, " "), how,
                           said.empty() ? "" : "; its last lines:\n", said),
               "fix it and train again; see docs/job.md#trainer"};
}

}  // namespace

Result<std::string> setup_hash(const Workspace& workspace) {
  std::string all;
  for (const std::string& word : workspace.setup) {
    all += fmt::format("{}:{}", word.size(), word);
    const std::filesystem::path file = std::filesystem::path(workspace.path) / word;
    std::error_code ignored;
    if (word.empty() || !std::filesystem::is_regular_file(file, ignored)) continue;
    PADDLE_TRY(const auto digest, sha256_of_file(file.string()));
    all += to_hex(digest);
  }
  Sha256 sum;
  sum.update(as_bytes(all));
  return to_hex(sum.finish()).substr(0, kHashLength);
}

Status run_setup(Context& context, ClusterSession& session, const JobPlan& plan,
                 const Workspace& workspace) {
  if (workspace.setup.empty()) return {};
  PADDLE_TRY(const std::string hash, setup_hash(workspace));
  std::set<std::size_t> nodes;
  for (const PlannedProcess& trainer : plan.trainers) nodes.insert(trainer.node);
  context.console.note(fmt::format("setup on {}: {}", counted(nodes.size(), "node"),
                                   fmt::join(workspace.setup, " ")));
  return session.each([&](Member& member) -> Status {
    return nodes.contains(member.node) ? set_up_node(context, member, plan, workspace, hash)
                                       : Status();
  });
}

}  // namespace paddle::cli
