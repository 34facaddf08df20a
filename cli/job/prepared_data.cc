#include "cli/job/prepared_data.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

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
#include "engine/config/toml_reader.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "prepare";
// In the workspace: the files that were fetched from the nodes, as sha256sum writes them. They do
// not count as files that `prepare` reads, unless they were changed here.
constexpr const char* kFetchedFile = ".prepare-files";
constexpr std::size_t kFetchedFileBytesMax = 16U << 20U;
constexpr std::size_t kKeyLength = 16;       // hexadecimal digits in the folder's name
constexpr std::size_t kLastLinesMax = 15;    // in an error
constexpr std::size_t kFilesShownMax = 5;    // in a note
constexpr std::size_t kLineBytesMax = 4096;  // a longer line of output is cut

// $1 the staging folder with the workspace in in/, $2 the folder for the data, $3 the number of
// trainers, $4 and $5 the patterns of the data. `.made` lists what the program has made, and is
// written last. File systems may count time in whole seconds, hence the sleep.
constexpr const char* kPrepareScript = R"~(set -eu
staging=$1 folder=$2 train=$4 test=$5
export SPLIT_COUNT="$3"
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ -e "$folder/.made" ]; then
  echo "the data is there already"
else
  rm -rf "$folder"
  mkdir "$folder"
  cp -RP "$staging/in/." "$folder/"
  chmod -R u+w "$folder"
  cd "$folder"
  : >.begin
  sleep 1
  ./prepare 2>&1 9>&-
  find . -type f -cnewer .begin ! -path '*/.*' ! -path "./$train" ! -path "./$test" >.made.new
  mv .made.new .made
fi
cd "$folder"
while IFS= read -r file; do
  if [ "$(wc -c <"$file")" -gt 67108864 ]; then
    echo "$file stays in $folder: it has more than 64 MiB"
    continue
  fi
  mkdir -p "$staging/out/$(dirname "$file")"
  cp "$file" "$staging/out/$file"
done <.made
)~";

// The workspace's side of the work.
struct Inputs {
  std::string path;                     // of the workspace, absolute
  std::string train, test;              // patterns of [data]
  std::vector<remote::PushItem> items;  // local and relative paths
  std::string key;                      // a hash of the items and the number of trainers
};

std::string setting(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

Status read_patterns(const JobSource& source, Inputs& inputs) {
  PADDLE_TRY(const config::TomlTable table,
             config::TomlTable::read(inputs.path + "/" + std::string(kJobFile), source.overrides));
  const auto settings = table.settings();
  inputs.train = setting(settings, "data.train");
  inputs.test = setting(settings, "data.test");
  if (settings.contains("data.command")) {
    return Error{Errc::kUsage, "--prepare is for files, but [data] command delivers the data",
                 "train without --prepare"};
  }
  for (const std::string& pattern : {inputs.train, inputs.test}) {
    if (!pattern.starts_with('/')) continue;
    return Error{
        Errc::kUsage,
        fmt::format("the data '{}' is not in the workspace, so --prepare cannot make it", pattern),
        "train without --prepare, or name data that `prepare` makes, such as data/train-*"};
  }
  return {};
}

// The hashes of the files that an earlier call has fetched, by name.
std::map<std::string, std::string> fetched_before(const std::string& workspace) {
  std::map<std::string, std::string> hashes;
  const auto text = read_file(workspace + "/" + kFetchedFile, kFetchedFileBytesMax);
  if (!text) return hashes;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t gap = line.find("  ");
    if (gap != std::string::npos) hashes[line.substr(gap + 2)] = line.substr(0, gap);
  }
  return hashes;
}

bool matches(const std::string& pattern, const std::string& path) {
  return !pattern.empty() && ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0;
}

// Lists the workspace's files without its data and without what was fetched, and hashes them.
Result<Inputs> read_inputs(const Context& context, const JobSource& source, std::size_t trainers) {
  Inputs inputs;
  const std::string folder = (fs::path(context.directory) / source.workspace).string();
  PADDLE_TRY(const Workspace all, scan_workspace(folder, {}, 1));
  inputs.path = all.path;
  PADDLE_TRY_STATUS(read_patterns(source, inputs));
  if (::access((inputs.path + "/" + kProgram).c_str(), X_OK) != 0) {
    return Error{Errc::kUsage, fmt::format("{} has no program '{}'", inputs.path, kProgram),
                 "--prepare runs it once for all nodes; templates/word2vec/prepare is an example"};
  }
  for (const std::string& file : all.common) {
    if (!matches(inputs.train, file) && !matches(inputs.test, file))
      inputs.items.push_back({inputs.path + "/" + file, file});
  }
  remote::PushSource hashes(context.hash_cache);
  PADDLE_TRY(const auto files, hashes.describe(inputs.items));
  (void)hashes.save();  // the push reports a cache that cannot be written
  const auto fetched = fetched_before(inputs.path);
  std::string text = fmt::format("{} trainers\n", trainers);
  std::vector<remote::PushItem> items;
  for (std::size_t i = 0; i < inputs.items.size(); ++i) {
    const std::string& name = inputs.items[i].remote_path;
    const std::string id = to_hex(files[i]->content.id);
    const auto before = fetched.find(name);
    if (before != fetched.end() && before->second == id) continue;
    // The program makes data; job.toml says how to train on it.
    if (name != kJobFile) text += fmt::format("{} {}:{}\n", id, name.size(), name);
    items.push_back(inputs.items[i]);
  }
  for (const auto& [name, target] : all.links) {
    text += fmt::format("{}:{} -> {}:{}\n", name.size(), name, target.size(), target);
    items.push_back({.local_path = inputs.path + "/" + name, .remote_path = name, .link = target});
  }
  inputs.items = std::move(items);
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
    rest_ += text;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      show(rest_.substr(0, end));
      rest_.erase(0, end + 1);
    }
    if (rest_.size() > kLineBytesMax) finish();
  }
  void finish() {
    if (!rest_.empty()) show(std::exchange(rest_, ""));
  }
  std::string last_lines() const {
    return last_.empty() ? "" : fmt::format("; its last lines:\n{}", fmt::join(last_, "\n"));
  }

 private:
  void show(const std::string& line) {
    context_.console.note(fmt::format("{}: {}: {}", node_, kProgram, line));
    last_.push_back(line);
    if (last_.size() > kLastLinesMax) last_.pop_front();
  }

  Context& context_;
  std::string node_;
  std::string rest_;
  std::deque<std::string> last_;
};

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
  Output output(context, member.spec.name);
  PADDLE_TRY(
      const remote::CommandEnd end,
      member.client->run(
          command, [&](std::string_view text, bool) { output.add(text); }, context.interrupted));
  output.finish();
  if (context.interrupted()) {
    return Error{Errc::kInterrupted, "interrupted while the data was being prepared",
                 "the same command begins it again"};
  }
  if (end.exit_code == 0 && end.signal == 0) return {};
  return Error{Errc::kFailed,
               fmt::format("node {}: {} {}{}", member.spec.name, kProgram,
                           end.signal != 0 ? fmt::format("was killed by signal {}", end.signal)
                                           : fmt::format("exited with code {}", end.exit_code),
                           output.last_lines()),
               "correct it and run the same command again; nothing was started"};
}

// Fetches what the program made into the workspace, and keeps a list of it there.
Status fetch_made(Context& context, Member& member, const std::string& made, const Inputs& inputs) {
  PADDLE_TRY(const auto listed, member.client->list(made));
  auto folder =
      std::make_shared<UniqueFd>(::open(inputs.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!*folder) return system_error(Errc::kResource, "open " + inputs.path);
  TreeWriter writer(folder->get());
  std::vector<remote::FetchItem> wanted;
  std::vector<std::string> names;
  std::string list;
  for (const remote::FileEntry& file : listed) {
    if (is_hidden(file.path)) continue;
    PADDLE_TRY(const UniqueFd above, writer.open_above(file.path));
    wanted.push_back({.remote_path = made + "/" + file.path,
                      .local_path = file.path,
                      .size = file.size,
                      .sha256 = file.sha256,
                      .folder = folder,
                      .executable = file.executable});
    list += fmt::format("{}  {}\n", file.sha256, file.path);
    if (names.size() < kFilesShownMax) names.push_back(file.path);
  }
  if (wanted.empty()) return {};
  DiskRoom room(inputs.path, inputs.path);
  PADDLE_TRY_STATUS(room.reserve(member.spec.name, wanted));
  PADDLE_TRY_STATUS(member.client->fetch(wanted));
  context.console.note(fmt::format("fetched into the workspace: {}{}", fmt::join(names, ", "),
                                   wanted.size() > names.size() ? ", ..." : ""));
  return replace_file(inputs.path + "/" + kFetchedFile, as_bytes(list), 0644);
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

Result<std::vector<std::string>> prepare_data(Context& context, const ClusterSpec& cluster,
                                              std::size_t node, const JobSource& source,
                                              std::size_t trainers) {
  const std::string shared = cluster.provider ? cluster.provider->shared_folder() : "";
  if (shared.empty()) {
    return Error{
        Errc::kUsage, "--prepare needs a folder that all nodes share",
        "for pods, set [provider] volume or nfs; or run the workspace's `prepare` here and "
        "train without --prepare"};
  }
  PADDLE_TRY(Inputs inputs, read_inputs(context, source, trainers));
  const std::string name = fs::path(inputs.path).filename().string();
  const std::string folder = fmt::format("{}/paddlectl-prepared/{}-{}", shared, name, inputs.key);
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
  if (done) done = fetch_made(context, member, staging + "/out", inputs);
  const Status removed = member.client->remove(staging);
  if (!done) return std::move(done).error();
  if (!removed) return removed.error();
  std::vector<std::string> items{fmt::format("data.train={}/{}", folder, inputs.train)};
  if (!inputs.test.empty()) items.push_back(fmt::format("data.test={}/{}", folder, inputs.test));
  return items;
}

}  // namespace paddle::cli
