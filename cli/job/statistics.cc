#include "cli/job/statistics.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/job/engine_program.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"
#include "cli/watch/process_state.h"
#include "engine/config/statistics_file.h"
#include "engine/snapshot/info.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model/statistics.json";  // in a snapshot
constexpr const char* kHashEnding = ".sha256";               // in place of a file that is too large
constexpr std::size_t kErrorBytesMax = 16U << 10U;
constexpr unsigned kFileMode = 0644;

// Reads the data of the node's trainers, all at once. $1 the cluster's folder, $2 the workspace, $3
// the engine, $4 the folder for the parts, $5 the number of trainers of the job, then the ids of
// those here. The exit code and the error are those of the first that failed.
constexpr const char* kStatisticsScript = R"~(set -eu
work=$1/$2 engine=$1/$3 folder=$1/$4 trainers=$5
shift 5
rm -rf "$folder"
mkdir -p "$folder"
cd "$work"
for id in "$@"; do
  {
    "$engine" statistics --config=job.toml --trainer_id="$id" \
      --num_gradient_servers="$trainers" --output="$folder/part-$id" >"$folder/error-$id" 2>&1 ||
      echo $? >"$folder/code-$id"
  } &
done
wait
for id in "$@"; do
  [ -e "$folder/code-$id" ] || continue
  cat "$folder/error-$id"
  exit "$(cat "$folder/code-$id")"
done
)~";

std::string parts_folder(const std::string& job) {
  return job_folder(job) + "/statistics";
}

std::string part_name(std::size_t trainer) {
  return fmt::format("part-{}", trainer);
}

// The trainers on a node, by number.
std::vector<std::size_t> trainers_on(const JobPlan& plan, std::size_t node) {
  std::vector<std::size_t> trainers;
  for (std::size_t i = 0; i < plan.trainers.size(); ++i) {
    if (plan.trainers[i].node == node) trainers.push_back(i);
  }
  return trainers;
}

// The error of the program on a node, without the name of the node.
Error error_of(const remote::CommandEnd& end, const std::string& said) {
  const std::string how = "paddle statistics " + describe(end);
  if (end.timed_out) return {Errc::kUnreachable, how, "raise the limit, or leave --timeout out"};
  if (signal_of(end) != 0) {
    return {Errc::kFailed, how + last_lines(said),
            "see whether the node has enough memory: paddlectl status"};
  }
  Error error = engine_error(end.exit_code, said);
  error.code = errc_of(static_cast<std::uint32_t>(end.exit_code));
  if (error.message.empty()) error.message = how;
  return error;
}

// Makes the parts of the node's trainers, and fetches them into `folder`.
Status make_parts(Context& context, Member& member, const JobPlan& plan,
                  const StatisticsRequest& request, const fs::path& folder) {
  const std::vector<std::size_t> trainers = trainers_on(plan, member.node);
  if (trainers.empty()) return {};
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  remote::CommandSpec command;
  command.timeout = context.limits.timeout;
  command.environment = plan.trainers[trainers.front()].spec.environment;
  command.arguments = {"/bin/sh",
                       "-c",
                       kStatisticsScript,
                       "statistics",
                       facts.root(),
                       workspace_folder(plan.job),
                       request.engine,
                       parts_folder(plan.job),
                       std::to_string(plan.trainers.size())};
  for (const std::size_t trainer : trainers) command.arguments.push_back(std::to_string(trainer));
  std::string said;
  const auto listen = [&](std::string_view text, bool) {
    said.append(text.substr(0, kErrorBytesMax - std::min(kErrorBytesMax, said.size())));
  };
  PADDLE_TRY(const remote::CommandEnd end,
             member.client->run(command, listen, context.interrupted));
  if (context.interrupted()) {
    return Error{Errc::kInterrupted, "interrupted while statistics were made; nothing was started",
                 ""};
  }
  if (end.exit_code != 0 || end.signal != 0 || end.timed_out) {
    return error_of(end, said).with(
        fmt::format("node {}: statistics of its training data", member.spec.name));
  }
  PADDLE_TRY(const auto files, member.client->list_own_files(parts_folder(plan.job)));
  std::vector<remote::FetchItem> items;
  for (const std::size_t trainer : trainers) {
    const auto found = std::ranges::find(files, part_name(trainer), &remote::FileEntry::path);
    if (found == files.end()) {
      return Error{
          Errc::kData,
          fmt::format("node {} lacks the statistics of trainer-{}", member.spec.name, trainer),
          "run the same command again"};
    }
    items.push_back({parts_folder(plan.job) + "/" + found->path, folder / found->path, found->size,
                     found->sha256});
  }
  PADDLE_TRY_STATUS(member.client->fetch(items));
  return member.client->remove(parts_folder(plan.job));
}

// The statistics in the snapshot that the job continues from, which is on the node of trainer 0;
// "" if there are none. A snapshot has no larger file, so the job's own file is the next choice.
std::string statistics_of_last_run(ClusterSession& session, const JobPlan& plan,
                                   const std::string& snapshot) {
  if (snapshot.empty()) return "";
  remote::AgentClient& leader = *session.find_node(plan.trainers.front().node)->client;
  const std::string in_snapshot =
      fmt::format("{}/{}/{}", output_folder(plan.job), snapshot, kModelFile);
  if (const auto text = leader.read_whole_file(in_snapshot, snapshot::kModelFileBytesMax))
    return *text;
  const std::string in_job = job_folder(plan.job) + "/" + kStatisticsFile;
  return leader.read_whole_file(in_job, config::kStatisticsBytesMax).value_or("");
}

// The statistics of the snapshot that a new training begins with, which is on the leader or here;
// "" if it has none. kUsage: it has only their hash. kUnreachable: they cannot be read.
Result<std::string> statistics_of_start(ClusterSession& session, const JobPlan& plan,
                                        const StartSnapshot& from) {
  const std::string snapshot = from.remote.empty() ? from.folders.front() : from.remote;
  const std::string path = snapshot + "/" + kModelFile;
  bool has_file = false, has_hash = false;
  std::optional<std::string> text;
  if (from.remote.empty()) {
    std::error_code ignored;
    has_file = fs::exists(path, ignored);
    has_hash = fs::exists(path + kHashEnding, ignored);
    if (has_file) {
      PADDLE_TRY(text, read_file(path, snapshot::kModelFileBytesMax));
    }
  } else {
    remote::AgentClient& leader = *session.find_node(plan.trainers.front().node)->client;
    PADDLE_TRY(const auto files, leader.list_own_files(snapshot + "/model"));
    for (const remote::FileEntry& file : files) {
      has_file = has_file || file.path == kStatisticsFile;
      has_hash = has_hash || file.path == std::string(kStatisticsFile) + kHashEnding;
    }
    if (has_file) text = leader.read_whole_file(path, snapshot::kModelFileBytesMax);
  }
  if (text) return *std::move(text);
  if (has_file) return Error{Errc::kUnreachable, path + " cannot be read", "run the command again"};
  if (!has_hash) return std::string();
  return Error{Errc::kUsage,
               "the snapshot of --from has only the hash of its statistics, which were too large",
               "name the file that its training used: --set data.statistics=FILE"};
}

// The statistics that the job's first parameters belong to; "" if there are none. kData: they are
// not for the job's slots.
Result<std::string> statistics_of_parameters(Context& context, ClusterSession& session,
                                             const JobPlan& plan,
                                             const StatisticsRequest& request) {
  if (!request.from) {
    std::string text = statistics_of_last_run(session, plan, request.snapshot);
    if (text.empty()) return text;
    Status fits = config::check_statistics(text, request.data);
    if (fits) return text;
    Error error = std::move(fits).error().with("statistics of " + request.snapshot);
    error.hint =
        "a resumed job keeps its statistics: undo the change of the slot's keys, or start a new "
        "job: paddlectl train without --resume";
    return error;
  }
  PADDLE_TRY(std::string text, statistics_of_start(session, plan, *request.from));
  if (text.empty()) return text;
  Status fits = config::check_statistics(text, request.data);
  if (!fits) {
    Error error = std::move(fits).error().with("statistics of the snapshot of --from");
    error.hint =
        "parameters belong to their statistics: undo the change of the slot's keys, start without "
        "--from, or name other statistics: --set data.statistics=FILE";
    return error;
  }
  context.console.note(
      "statistics are those of the snapshot of --from, to which its parameters belong");
  return text;
}

// Makes the file `made` from the data on the nodes.
Status make_statistics(Context& context, ClusterSession& session, const JobPlan& plan,
                       const StatisticsRequest& request, const fs::path& made) {
  const fs::path folder = made.parent_path() / ".statistics";
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directory(folder, error);
  if (error) {
    return Error{Errc::kResource, fmt::format("{}: {}", folder.string(), error.message()),
                 "choose another --output"};
  }
  Status parts = session.each(
      [&](Member& member) { return make_parts(context, member, plan, request, folder); });
  Status merged;
  if (parts && plan.trainers.size() == 1) {
    fs::rename(folder / part_name(0), made, error);
    if (error)
      merged = Error{Errc::kResource, fmt::format("{}: {}", made.string(), error.message())};
  } else if (parts) {
    std::vector<std::string> arguments{"statistics", "--merge", "--output=" + made.string()};
    for (std::size_t i = 0; i < plan.trainers.size(); ++i)
      arguments.push_back((folder / part_name(i)).string());
    if (auto ran = run_engine(context.engine, std::move(arguments)); !ran)
      merged = std::move(ran).error();
  }
  fs::remove_all(folder, error);
  return parts ? merged : parts;
}

}  // namespace

Status give_statistics(Context& context, ClusterSession& session, const JobPlan& plan,
                       const Workspace& workspace, const StatisticsRequest& request) {
  if (!workspace.lacks_statistics) return {};
  PADDLE_TRY(const fs::path folder,
             make_output_folder(context, request.output, plan.job, "choose another --output"));
  const fs::path made = folder / kStatisticsFile;
  PADDLE_TRY(const std::string last, statistics_of_parameters(context, session, plan, request));
  if (last.empty()) {
    context.console.note(fmt::format("statistics of the training data of {}",
                                     counted(plan.trainers.size(), "trainer")));
    PADDLE_TRY_STATUS(make_statistics(context, session, plan, request, made));
  } else {
    PADDLE_TRY_STATUS(replace_file(made.string(), as_bytes(last), kFileMode));
  }
  remote::PushSource source("", session.members().size());
  const std::vector<remote::PushItem> items{
      {made.string(), job_folder(plan.job) + "/" + kStatisticsFile, false}};
  return session.each([&](Member& member) -> Status {
    const auto pushed = member.client->push(items, source, nullptr);
    return pushed ? Status() : pushed.error();
  });
}

}  // namespace paddle::cli
