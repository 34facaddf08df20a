#include "cli/job/setup.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/job/folders.h"
#include "cli/watch/process_state.h"
#include "proto/agent.pb.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kFolderHashLength = 16;           // hexadecimal digits of a folder's name
constexpr std::size_t kLastLinesBytesMax = 16U << 10U;  // kept of the last lines

// Runs [trainer] setup. $1 the cluster's folder, $2 the hash, $3 the workspace, $4 the log, then
// the program. The lock is for jobs that start at the same time.
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

// Makes a virtual environment. $1 the cluster's folder, $2 the environment, $3 the workspace, $4
// the log, $5 the list of packages, then the workspace's folders with wheels. An unfinished
// environment is made again, and so is one for another version of Python.
constexpr const char* kVenvScript = R"~(set -eu
root=$1 venv=$1/setup/$2 work=$1/$3 log=$1/$4 list=$5
shift 5
mkdir -p "$root/setup" "$(dirname "$log")"
cd "$work"
exec 9>"$venv.lock"
flock 9
python=$(command -v python3) || { echo "ERROR: python3 is not installed on the node"; exit 127; }
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ -e "$venv.done" ] && [ "$(cat "$venv.done")" = "$version" ]; then exit 0; fi
rm -rf "$venv" "$venv.done"
for folder in "$@"; do set -- "$@" "--find-links=$folder"; shift; done
(
  "$python" -m venv "$venv" || {
    echo "ERROR: python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv"
    exit 1
  }
  install() {
    "$venv/bin/python3" -m pip install --disable-pip-version-check --no-input --no-cache-dir \
      --progress-bar=off "$@" -r "$list"
  }
  if [ $# -gt 0 ] && install --no-index "$@"; then exit 0; fi
  [ $# -eq 0 ] || echo "the workspace does not have all packages; using the package index"
  install --retries=2 "$@"
) >"$log" 2>&1 9>&- || { code=$?; rm -rf "$venv"; tail -n 15 "$log"; exit $code; }
printf %s "$version" >"$venv.done"
)~";

// A step that prepares a node; `what` names it in errors.
struct Step {
  std::string what;
  std::vector<std::string> arguments;
  std::string hint;
};

// The reason that pip prints: the first error among its last lines.
std::string cause_in(const std::string& said) {
  constexpr std::string_view kMark = "ERROR: ";
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kMark)) return ": " + line.substr(kMark.size());
  }
  return "";
}

Status run_step(Context& context, Member& member, const Step& step) {
  remote::CommandSpec command;
  command.timeout = context.limits.timeout;
  command.arguments = step.arguments;
  std::string said;
  const auto listen = [&](std::string_view text, bool) {
    said.append(text.substr(0, kLastLinesBytesMax - std::min(kLastLinesBytesMax, said.size())));
  };
  PADDLE_TRY(const remote::CommandEnd end,
             member.client->run(command, listen, context.interrupted));
  if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted during the setup", ""};
  if (end.exit_code == 0 && end.signal == 0 && !end.timed_out) return {};
  return Error{Errc::kFailed,
               fmt::format("node {}: {} {}{}; nothing was started{}", member.spec.name, step.what,
                           describe(end), cause_in(said), last_lines(said)),
               step.hint};
}

Status set_up_node(Context& context, Member& member, const JobPlan& plan,
                   const Workspace& workspace, const std::string& hash) {
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  Step step{fmt::format("the setup ({})", fmt::join(workspace.setup, " ")),
            {"/bin/sh", "-c", kScript, "setup", facts.root(), hash, workspace_folder(plan.job),
             node_folder(plan.job, member.node) + "/setup.log"},
            "fix it and train again; see docs/job.md#trainer"};
  step.arguments.insert(step.arguments.end(), workspace.setup.begin(), workspace.setup.end());
  return run_step(context, member, step);
}

Status install_requirements(Context& context, Member& member, const JobPlan& plan,
                            const Workspace& workspace) {
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  Step step{fmt::format("pip install -r {}", workspace.requirements),
            {"/bin/sh", "-c", kVenvScript, "requirements", facts.root(), workspace.venv,
             workspace_folder(plan.job), node_folder(plan.job, member.node) + "/requirements.log",
             workspace.requirements},
            "correct the list, or put the wheels that the node cannot download into the workspace; "
            "see docs/trainer.md"};
  step.arguments.insert(step.arguments.end(), workspace.wheel_folders.begin(),
                        workspace.wheel_folders.end());
  return run_step(context, member, step);
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
  return to_hex(sum.finish()).substr(0, kFolderHashLength);
}

Status run_setup(Context& context, ClusterSession& session, const JobPlan& plan,
                 const Workspace& workspace) {
  std::set<std::size_t> nodes;
  for (const PlannedProcess& trainer : plan.trainers) nodes.insert(trainer.node);
  const auto on_each = [&](const std::string& what, const auto& prepare) {
    context.console.note(fmt::format("{} on {}", what, counted(nodes.size(), "node")));
    return session.each([&](Member& member) -> Status {
      return nodes.contains(member.node) ? prepare(member) : Status();
    });
  };
  if (!workspace.venv.empty()) {
    PADDLE_TRY_STATUS(on_each("packages of " + workspace.requirements, [&](Member& member) {
      return install_requirements(context, member, plan, workspace);
    }));
  }
  if (workspace.setup.empty()) return {};
  PADDLE_TRY(const std::string hash, setup_hash(workspace));
  return on_each(fmt::format("setup: {}", fmt::join(workspace.setup, " ")), [&](Member& member) {
    return set_up_node(context, member, plan, workspace, hash);
  });
}

}  // namespace paddle::cli
