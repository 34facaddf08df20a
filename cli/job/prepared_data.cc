#include "cli/job/prepared_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/cluster/cluster_session.h"
#include "cli/job/push_meter.h"
#include "cli/job/result_files.h"
#include "cli/job/results.h"
#include "cli/job/workspace.h"
#include "cli/watch/process_state.h"
#include "engine/config/data_config.h"
#include "engine/config/job_config.h"
#include "engine/config/toml_reader.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "prepare";
constexpr const char* kAgain = "the same command begins it again; nothing was started";
constexpr std::size_t kKeyLength = 16;       // hexadecimal digits in the folder's name
constexpr std::size_t kLastLinesMax = 15;    // in an error
constexpr std::size_t kLineBytesMax = 1000;  // a longer line of output is shown in pieces
constexpr int kNoPlace = 90;                 // exit code: the script cannot write to the folder
constexpr int kNoData = 91;                  // no file matches a pattern, or all are empty

// $1 the staging folder with the workspace in in/, $2 the folder for the data, $3 the number of
// trainers, $4 and $5 the patterns of the data, then the files that go back by out/. `.made` is
// written last.
constexpr const char* kPrepareScript = R"~(set -eu
staging=$1 folder=$2 train=$4 test=$5
export SPLIT_COUNT="$3"
shift 5
command -v flock >/dev/null || { echo "there is no flock (package util-linux)"; exit 90; }
{ mkdir -p "$(dirname "$folder")" && : >>"$folder.lock"; } 2>&1 || exit 90
exec 9>"$folder.lock"
flock -n 9 || { echo "another run prepares the same data: waiting for its end"; flock 9; }
has_data() {
  (IFS=; for file in $1; do [ ! -s "$file" ] || exit 0; done; exit 1)
}
has_all() {
  has_data "$train" && { [ -z "$test" ] || has_data "$test"; }
}
if [ -e "$folder/.made" ] && cd "$folder" && has_all; then
  echo "the data is there already"
else
  { cd / && rm -rf "$folder" && mkdir "$folder" && cp -RP "$staging/in/." "$folder/" &&
    chmod -R u+w "$folder"; } 2>&1 || exit 90
  cd "$folder"
  code=0
  ./prepare 2>&1 9>&- || code=$?
  [ "$code" -lt 90 ] || [ "$code" -gt 91 ] || code=1
  [ "$code" -eq 0 ] || exit "$code"
  has_all || exit 91
  : >.made
fi
for file; do
  [ -f "$file" ] || continue
  { mkdir -p "$staging/out/$(dirname "$file")" && cp "$file" "$staging/out/$file"; } 2>&1 || exit 90
done
)~";

std::string shared_folder_of(const ClusterSpec& cluster) {
  return cluster.provider ? cluster.provider->shared_folder() : "";
}

// The workspace's side of the work. Paths are relative to it.
struct Inputs {
  std::string path;                     // of the workspace, absolute
  std::string train, test;              // patterns of [data]
  std::vector<std::string> needed;      // files that job.toml names: the dictionary, counts
  std::vector<remote::PushItem> items;  // without the data
  std::string key;                      // a hash of all that decides which data is made
};

// Whether a file of the nodes may get this name in the workspace.
bool may_be_fetched(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return normal == fs::path(path) && normal.is_relative() && *normal.begin() != ".." &&
         *normal.begin() != "output" && !is_hidden(path);
}

// A pattern that the engine takes, in the workspace.
Status check_pattern(const std::string& workspace, std::string& pattern) {
  if (pattern.starts_with('/')) {
    return Error{
        Errc::kUsage,
        fmt::format("the data '{}' is not in the workspace, so --prepare cannot make it", pattern),
        "train without --prepare, or name data that `prepare` makes, such as data/train-*"};
  }
  if (!pattern.empty()) pattern = fs::path(pattern).lexically_normal().string();
  const auto share = config::data_share(workspace, pattern, 0, 1);
  return share ? Status() : share.error();
}

Status read_job_file(const JobSource& source, Inputs& inputs) {
  const std::string path = inputs.path + "/" + std::string(kJobFile);
  PADDLE_TRY(const config::TomlTable table, config::TomlTable::read(path, source.overrides));
  const auto settings = table.settings();
  const auto setting = [&](const char* key) {
    const auto found = settings.find(key);
    return found == settings.end() ? "" : found->second;
  };
  inputs.train = setting("data.train");
  inputs.test = setting("data.test");
  if (!setting("data.command").empty() || inputs.train.empty()) {
    return Error{Errc::kUsage,
                 "--prepare makes files, but job.toml has no pattern for them in [data] train",
                 "write train = \"data/train-*\", or train without --prepare"};
  }
  PADDLE_TRY_STATUS(check_pattern(inputs.path, inputs.train));
  PADDLE_TRY_STATUS(check_pattern(inputs.path, inputs.test));
  PADDLE_TRY(const config::JobDescription job, config::describe_job(table.resolved_text(), path));
  for (const config::JobFile& file : job.files) {
    const std::string name =
        fs::path(file.path).lexically_relative(inputs.path).lexically_normal().string();
    if (may_be_fetched(name)) inputs.needed.push_back(name);
  }
  return {};
}

// The workspace's files without its data.
Result<Workspace> files_without_data(const Inputs& inputs) {
  PADDLE_TRY(Workspace all, scan_workspace(inputs.path, {}, 1));
  for (const std::string& pattern : {inputs.train, inputs.test}) {
    if (pattern.empty()) continue;
    PADDLE_TRY(const config::DataShare share, config::data_share(inputs.path, pattern, 0, 1));
    const std::set<std::string> data(share.files.begin(), share.files.end());
    std::erase_if(all.common,
                  [&](const std::string& file) { return data.contains(inputs.path + "/" + file); });
  }
  return all;
}

Result<Inputs> read_inputs(const Context& context, const JobSource& source, std::size_t trainers) {
  Inputs inputs;
  const std::string given = (fs::path(context.directory) / source.workspace).string();
  PADDLE_TRY_STATUS(check_workspace(given));
  std::error_code error;
  inputs.path = fs::canonical(given, error).string();
  PADDLE_TRY_STATUS(read_job_file(source, inputs));
  PADDLE_TRY(const Workspace files, files_without_data(inputs));
  const bool has_program = std::ranges::find(files.common, kProgram) != files.common.end();
  if (!has_program || ::access((inputs.path + "/" + kProgram).c_str(), X_OK) != 0) {
    return Error{Errc::kUsage, fmt::format("{} has no program '{}'", inputs.path, kProgram),
                 "--prepare runs it once for all nodes; templates/ctr_dnn/prepare is an example"};
  }
  for (const std::string& file : files.common)
    inputs.items.push_back({inputs.path + "/" + file, file});
  remote::PushSource hashes(context.hash_cache);
  PADDLE_TRY(const auto described, hashes.describe(inputs.items));
  (void)hashes.save();  // the push reports a cache that cannot be written
  std::string text = fmt::format("{} trainers\n{}\n{}\n", trainers, inputs.train, inputs.test);
  for (std::size_t i = 0; i < inputs.items.size(); ++i) {
    const std::string& name = inputs.items[i].remote_path;
    // job.toml says how to train, and the files that it names may have come from an earlier call.
    if (name == kJobFile || std::ranges::find(inputs.needed, name) != inputs.needed.end()) continue;
    text += fmt::format("{} {}:{}\n", to_hex(described[i]->content.id), name.size(), name);
  }
  for (const auto& [name, target] : files.links) {
    text += fmt::format("{}:{} -> {}:{}\n", name.size(), name, target.size(), target);
    inputs.items.push_back(
        {.local_path = inputs.path + "/" + name, .remote_path = name, .link = target});
  }
  Sha256 sum;
  sum.update(as_bytes(text));
  inputs.key = to_hex(sum.finish()).substr(0, kKeyLength);
  return inputs;
}

// Shows the program's lines as they come, and keeps the last ones for an error.
class Output {
 public:
  Output(Context& context, std::string node) : context_(context), node_(std::move(node)) {}

  void add(std::string_view text) {
    for (const char c : text) {
      if (c != '\n') rest_ += c;
      if (c == '\n' || rest_.size() == kLineBytesMax) show();
    }
  }
  void finish() {
    if (!rest_.empty()) show();
  }
  const std::deque<std::string>& last() const { return last_; }

 private:
  void show() {
    context_.console.note(fmt::format("{}: {}: {}", node_, kProgram, rest_));
    last_.push_back(std::exchange(rest_, ""));
    if (last_.size() > kLastLinesMax) last_.pop_front();
  }

  Context& context_;
  std::string node_;
  std::string rest_;
  std::deque<std::string> last_;
};

Error program_error(const std::string& node, const std::string& folder, const Inputs& inputs,
                    const remote::CommandEnd& end, const Output& output) {
  const std::string said = fmt::format("{}", fmt::join(output.last(), "\n"));
  if (end.signal == 0 && end.exit_code == kNoPlace) {
    return {Errc::kResource, fmt::format("node {}: cannot make {}: {}", node, folder, said),
            "the volume needs room, and its folder belongs to the pods' user: see `user` and "
            "`mount` in docs/providers.md"};
  }
  if (end.signal == 0 && end.exit_code == kNoData) {
    return {Errc::kData,
            fmt::format("node {}: {} made no data for {}{}{}", node, kProgram, inputs.train,
                        inputs.test.empty() ? "" : " and " + inputs.test, last_lines(said)),
            "correct it, or [data] train and test, and run the same command again"};
  }
  return {Errc::kFailed,
          fmt::format("node {}: {} {}{}", node, kProgram, describe(end), last_lines(said)),
          "correct it and run the same command again; nothing was started"};
}

Status run_program_on(Context& context, Member& member, const std::string& staging,
                      const std::string& folder, const Inputs& inputs, std::size_t trainers) {
  PADDLE_TRY(const wire::agent::Facts facts, member.client->facts());
  remote::CommandSpec command;
  command.arguments = {"/bin/sh",
                       "-c",
                       kPrepareScript,
                       kProgram,
                       facts.root() + "/" + staging,
                       folder,
                       fmt::format("{}", trainers),
                       inputs.train,
                       inputs.test};
  command.arguments.insert(command.arguments.end(), inputs.needed.begin(), inputs.needed.end());
  Output output(context, member.spec.name);
  auto end = member.client->run(
      command, [&](std::string_view text, bool) { output.add(text); }, context.interrupted);
  output.finish();
  if (context.interrupted())
    return Error{Errc::kInterrupted, "interrupted while the data was being prepared", kAgain};
  if (!end) {
    Error lost = std::move(end).error();
    if (lost.code == Errc::kUnreachable) lost.hint = kAgain;
    return lost;
  }
  if (end->exit_code == 0 && end->signal == 0) return {};
  return program_error(member.spec.name, folder, inputs, *end, output);
}

// Fetches the needed files that this machine lacks. One that differs from the one here is an error:
// the model would read other words than the data has.
Status fetch_needed(Context& context, Member& member, const std::string& made,
                    const std::string& on_volume, const Inputs& inputs) {
  if (inputs.needed.empty()) return {};
  PADDLE_TRY(const auto listed, member.client->list(made));
  auto folder =
      std::make_shared<UniqueFd>(::open(inputs.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!*folder) return system_error(Errc::kResource, "open " + inputs.path);
  TreeWriter writer(folder->get());
  std::vector<remote::FetchItem> wanted;
  std::vector<std::string> names;
  for (const remote::FileEntry& file : listed) {
    // A node may list anything.
    if (std::ranges::find(inputs.needed, file.path) == inputs.needed.end()) continue;
    const std::string here = inputs.path + "/" + file.path;
    std::error_code error;
    if (fs::exists(fs::symlink_status(here, error))) {
      PADDLE_TRY(const Sha256Digest digest, sha256_of_file(here));
      if (to_hex(digest) == file.sha256) continue;
      return Error{
          Errc::kData,
          fmt::format("{} is not the file that belongs to the data in {}", here, on_volume),
          fmt::format("remove it to take that one; or change {} so that it makes yours", kProgram)};
    }
    PADDLE_TRY(const UniqueFd above, writer.open_above(file.path));
    names.push_back(file.path);
    wanted.push_back({.remote_path = made + "/" + file.path,
                      .local_path = file.path,
                      .size = file.size,
                      .sha256 = file.sha256,
                      .folder = folder,
                      .mode = 0644});
  }
  if (wanted.empty()) return {};
  DiskRoom room(inputs.path, inputs.path);
  PADDLE_TRY_STATUS(room.reserve(member.spec.name, wanted));
  PADDLE_TRY_STATUS(member.client->fetch(wanted));
  context.console.note(fmt::format("fetched into the workspace: {}", fmt::join(names, ", ")));
  return {};
}

// The workspace's name without characters that mean something in a pattern.
std::string literal_name(const std::string& workspace) {
  constexpr std::string_view kLiterals =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  std::string name = fs::path(workspace).filename().string();
  for (char& c : name) {
    if (kLiterals.find(c) == std::string_view::npos) c = '-';
  }
  return name;
}

Status push_inputs(Context& context, Member& member, const std::string& to, Inputs& inputs) {
  for (remote::PushItem& item : inputs.items) item.remote_path = to + "/" + item.remote_path;
  remote::PushSource source(context.hash_cache);
  PushMeter meter(context, 1);
  const auto pushed = member.client->push(inputs.items, source, meter.progress());
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);
  return pushed ? Status() : pushed.error();
}

}  // namespace

Status check_shared_folder(const ClusterSpec& cluster) {
  if (!shared_folder_of(cluster).empty()) return {};
  return Error{Errc::kUsage, "--prepare needs a folder that all nodes share",
               "for pods, set [provider] volume or nfs; or run the workspace's `prepare` here and "
               "train without --prepare"};
}

Result<std::vector<std::string>> prepare_data(Context& context, const ClusterSpec& cluster,
                                              std::size_t node, const JobSource& source,
                                              std::size_t trainers) {
  PADDLE_TRY(Inputs inputs, read_inputs(context, source, trainers));
  const std::string folder = fmt::format("{}/paddlectl-prepared/{}-{}", shared_folder_of(cluster),
                                         literal_name(inputs.path), inputs.key);
  context.console.note(fmt::format("preparing data for {} in {} on node {}",
                                   counted(trainers, "trainer"), folder,
                                   cluster.nodes[node].spec.name));
  ClusterSession session = ClusterSession::open(context, cluster, {node});
  PADDLE_TRY_STATUS(all_reached(cluster, session));
  Member& member = session.members().front();
  const std::string staging =
      fmt::format(".paddlectl-copies/{}-{}", context.unix_seconds(), ::getpid());
  Status done = push_inputs(context, member, staging + "/in", inputs);
  if (done) done = run_program_on(context, member, staging, folder, inputs, trainers);
  if (done) done = fetch_needed(context, member, staging + "/out", folder, inputs);
  const Status removed = member.client->remove(staging);
  if (!done) return std::move(done).error();
  if (!removed) return removed.error();
  std::vector<std::string> items{fmt::format("data.train={}/{}", folder, inputs.train)};
  if (!inputs.test.empty()) items.push_back(fmt::format("data.test={}/{}", folder, inputs.test));
  return items;
}

}  // namespace paddle::cli
