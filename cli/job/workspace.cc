#include "cli/job/workspace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/text_file.h"
#include "cli/console/console.h"
#include "cli/job/ignore_rules.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIgnoreBytesMax = 1U << 20U;
constexpr std::size_t kListBytesMax = 1U << 20U;  // limit of [trainer] requirements
constexpr std::size_t kVenvHashLength = 16;       // hexadecimal digits of an environment's name

// The file's path in the workspace. Refuses a file outside of the workspace, or read through a link
// that leads outside, because its content would be sent to every node that needs it.
Result<std::string> inside_workspace(const Workspace& workspace, const std::string& file) {
  const auto leads_out = [&](const fs::path& path) {
    const fs::path inside = path.lexically_relative(workspace.path);
    return inside.empty() || *inside.begin() == "..";
  };
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return Error{Errc::kData, fmt::format("{}: {}", file, error.message()), ""};
  if (!leads_out(file) && !leads_out(real)) {
    return fs::path(file).lexically_relative(workspace.path).string();
  }
  return Error{Errc::kData,
               real == file
                   ? fmt::format("data file {} is outside the workspace", file)
                   : fmt::format("data file {} is {}, outside the workspace", file, real.string()),
               "copy it into the workspace, or name an absolute path that every node mounts"};
}

// Refuses a name that a node may not list: with a control character, or not in UTF-8.
Status check_name(const Workspace& workspace, const std::string& path) {
  const std::string shown = escape_control(path);
  if (shown == path && path.find('\t') == std::string::npos) return {};
  return Error{Errc::kData,
               fmt::format("the name of {}/{} is not printable UTF-8", workspace.path, shown),
               "rename it, or leave it out with .paddleignore if it is not data"};
}

// Whether no files are pushed for a pattern: the nodes mount them, or fetch objects.
bool is_elsewhere(const config::DataConfig& data, const std::string& pattern) {
  return pattern.empty() || pattern.front() == '/' || !data.command.empty();
}

// One trainer's files, relative to the workspace; none if is_elsewhere().
Result<std::vector<std::string>> data_of_trainer(const Workspace& workspace,
                                                 const config::DataConfig& data,
                                                 const std::string& glob, std::uint32_t trainer,
                                                 std::uint32_t trainers, bool* split) {
  std::vector<std::string> relative;
  if (is_elsewhere(data, glob)) return relative;
  PADDLE_TRY(const config::DataShare share,
             config::data_share(workspace.path, glob, trainer, trainers, data.global_shuffle));
  if (split != nullptr) *split = *split || share.records_split;
  for (const std::string& file : share.files) {
    PADDLE_TRY(relative.emplace_back(), inside_workspace(workspace, file));
    PADDLE_TRY_STATUS(check_name(workspace, relative.back()));
  }
  return relative;
}

// Refuses data without a single byte, before hours of work.
Status check_data(const Workspace& workspace, const config::DataConfig& config,
                  std::string_view key, const std::string& glob,
                  const std::set<std::string>& files) {
  if (is_elsewhere(config, glob)) return {};
  const bool has_bytes = std::ranges::any_of(files, [&](const std::string& file) {
    std::error_code ignored;
    return fs::file_size(fs::path(workspace.path) / file, ignored) > 0;
  });
  if (has_bytes) return {};
  return Error{Errc::kData,
               files.empty() ? fmt::format("no file matches '{}' in {}", glob, workspace.path)
                             : fmt::format("every file that matches '{}' in {} is empty", glob,
                                           workspace.path),
               fmt::format("prepare the data first, or correct [data] {}", key)};
}

// Refuses a link that would not work on the nodes: an absolute one, or one that leads out of the
// workspace.
Status check_link(const Workspace& workspace, const std::string& path, const fs::path& target) {
  const fs::path inside = (fs::path(path).parent_path() / target).lexically_normal();
  if (target.is_relative() && !inside.empty() && *inside.begin() != "..") return {};
  return Error{Errc::kData,
               fmt::format("{}/{} is a symbolic link to {}, outside the workspace", workspace.path,
                           path, target.string()),
               fmt::format("copy its target into the workspace, or add {} to .paddleignore", path)};
}

// Whether the folder has the engine's MANIFEST: it is then not input, but the result of an earlier
// training.
bool is_snapshot(const fs::path& folder) {
  std::ifstream manifest(folder / "MANIFEST");
  std::string line;
  return std::getline(manifest, line) && line.starts_with("snapshot format=");
}

class FolderWalk {
 public:
  FolderWalk(Workspace& workspace, const std::set<std::string>& data)
      : workspace_(workspace), data_(data) {
    for (const std::string& file : data) {
      for (auto slash = file.find('/'); slash != std::string::npos;
           slash = file.find('/', slash + 1))
        data_folders_.insert(file.substr(0, slash));
    }
  }

  // `folder`: relative to the workspace, with a slash at its end, or empty.
  Status run(const std::string& folder) {
    PADDLE_TRY_STATUS(read_rules(folder));
    std::error_code error;
    fs::directory_iterator at(fs::path(workspace_.path) / folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error))
      PADDLE_TRY_STATUS(visit(*at, folder + at->path().filename().string()));
    if (!error) return {};
    return Error{Errc::kData,
                 fmt::format("reading {}/{}: {}", workspace_.path, folder, error.message()),
                 "give yourself read access, or add it to .paddleignore"};
  }

 private:
  Status read_rules(const std::string& folder) {
    std::error_code error;
    const fs::path file = fs::path(workspace_.path) / folder / ".paddleignore";
    if (!fs::is_regular_file(file, error)) return {};
    PADDLE_TRY(const std::string text, read_file(file.string(), kIgnoreBytesMax));
    rules_.add(folder, text);
    return {};
  }

  Status visit(const fs::directory_entry& entry, const std::string& path) {
    std::error_code unreadable;
    const bool folder = entry.is_directory(unreadable) && !entry.is_symlink(unreadable);
    if (entry.path().filename().string().starts_with('.') || data_.contains(path)) return {};
    if (path == "output" && entry.is_directory(unreadable)) return {};
    if (rules_.ignores(path, folder)) return {};
    PADDLE_TRY_STATUS(check_name(workspace_, path));
    if (folder && is_snapshot(entry.path()) && !rules_.keeps(path, true)) {
      workspace_.snapshots.push_back(path);
      return {};
    }
    if (folder) return run(path + "/");
    if (entry.is_symlink(unreadable)) {
      if (data_folders_.contains(path)) return {};  // the data files behind it are pushed as files
      const fs::path target = fs::read_symlink(entry.path(), unreadable);
      PADDLE_TRY_STATUS(check_link(workspace_, path, target));
      workspace_.links[path] = target.string();
    } else if (entry.is_regular_file(unreadable)) {
      workspace_.common.push_back(path);
    }
    if (workspace_.common.size() + workspace_.links.size() <= kWorkspaceFilesMax) return {};
    return Error{Errc::kResource,
                 fmt::format("workspace {} has over {} files", workspace_.path, kWorkspaceFilesMax),
                 "point paddlectl train at the folder that holds job.toml only, or list the files "
                 "that are not needed in .paddleignore"};
  }

  Workspace& workspace_;
  const std::set<std::string>& data_;
  std::set<std::string> data_folders_;
  IgnoreRules rules_;
};

// The file that a line of a list of packages includes, as pip reads it: "-r base.txt",
// "-rbase.txt", "--requirement base.txt" or "--requirement=base.txt", and the same for constraints.
// "" if the line includes no file.
std::string included_by(const std::string& line) {
  std::istringstream words(line);
  std::string option, file;
  words >> option >> std::quoted(file);
  for (const std::string begin : {"-r", "-c", "--requirement", "--constraint"}) {
    if (option == begin) return file;
    const std::string joined = begin + (begin.size() > 2 ? "=" : "");
    if (option.starts_with(joined)) return option.substr(joined.size());
  }
  return "";
}

// The list of packages and the lists that it includes, directly or through others. Leaves out those
// that are not pushed, which pip reports.
Result<std::set<std::string>> lists_of(const Workspace& workspace, const std::string& list) {
  std::set<std::string> lists;
  std::vector<std::string> left{list};
  while (!left.empty()) {
    const std::string file = std::move(left.back());
    left.pop_back();
    const bool is_pushed = std::ranges::find(workspace.common, file) != workspace.common.end();
    if (!is_pushed || !lists.insert(file).second) continue;
    PADDLE_TRY(std::string text, read_file(workspace.path + "/" + file, kListBytesMax));
    std::istringstream lines(text_of_lines(std::move(text)));
    for (std::string line; std::getline(lines, line);) {
      const std::string other = included_by(line);
      if (!other.empty())
        left.push_back((fs::path(file).parent_path() / other).lexically_normal().string());
    }
  }
  return lists;
}

// Names the environment by a hash of everything that its content depends on: the list, the lists
// that it includes, and the wheels in the workspace.
Status find_requirements(const std::string& list, Workspace& workspace) {
  const auto& files = workspace.common;
  if (std::ranges::find(files, list) == files.end()) {
    std::error_code ignored;
    const bool is_there = fs::exists(fs::path(workspace.path) / list, ignored);
    return Error{
        Errc::kUsage,
        is_there ? fmt::format("[trainer] requirements: {} is not pushed", list)
                 : fmt::format("[trainer] requirements: no file '{}' in {}", list, workspace.path),
        is_there ? ".paddleignore leaves it out, or its name begins with '.'"
                 : "name the file with one package a line, as for pip install -r"};
  }
  workspace.requirements = list;
  PADDLE_TRY(std::set<std::string> hashed, lists_of(workspace, list));
  std::set<std::string> folders;
  for (const std::string& file : files) {
    if (!file.ends_with(".whl")) continue;
    hashed.insert(file);
    const fs::path folder = fs::path(file).parent_path();
    folders.insert(folder.empty() ? "." : folder.string());
  }
  workspace.wheel_folders.assign(folders.begin(), folders.end());
  std::string all;
  for (const std::string& file : hashed) {
    PADDLE_TRY(const auto digest, sha256_of_file(workspace.path + "/" + file));
    all += fmt::format("{}:{}{}", file.size(), file, to_hex(digest));
  }
  Sha256 sum;
  sum.update(as_bytes(all));
  workspace.venv = "venv-" + to_hex(sum.finish()).substr(0, kVenvHashLength);
  return {};
}

// The workspace that the user probably means: the folder of a job.toml that the path names, the
// workspace around a folder in it, or else the only workspace directly below the path. "" if there
// is none, or if there are several.
std::string workspace_near(const fs::path& path) {
  std::error_code error;
  const auto is_workspace = [](const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / "job.toml", ignored);
  };
  const fs::path named = path.has_filename() ? path : path.parent_path();
  if (is_workspace(named.parent_path())) return named.parent_path().string();
  std::string found;
  for (fs::directory_iterator at(named, error), end; !error && at != end; at.increment(error)) {
    if (!is_workspace(at->path())) continue;
    if (!found.empty()) return "";
    found = at->path().string();
  }
  return found;
}

}  // namespace

Status check_pservers(const config::JobConfig& job, std::size_t pservers, bool is_alone_on_gpu) {
  if (!job.tables.empty() && pservers == 0) {
    return Error{Errc::kUsage,
                 fmt::format("the table '{}' of [[table]] is on pservers: 0 is too few",
                             job.tables.front().name),
                 "--pservers 1; or leave [[table]] out"};
  }
  if (!job.command.empty()) return {};
  if (!job.has_group()) {
    if (pservers > 0) return {};
    return Error{
        Errc::kUsage, "the built-in trainer keeps its parameters on pservers: 0 is too few",
        "--pservers 1; 0 is for [strategy] dense = \"collective\" or \"local_sgd\", and for "
        "programs of your own, [trainer] command in job.toml"};
  }
  const std::string layer = job.sparse_layer();
  if (layer.empty() == (pservers == 0) || (pservers == 0 && is_alone_on_gpu)) return {};
  if (pservers == 0) {
    return Error{Errc::kUsage,
                 fmt::format("the sparse table of layer '{}' is on pservers: 0 is too few", layer),
                 "--pservers 1, which has the tables only; or --trainers 1 --gpus 1, which has "
                 "them on a GPU; or leave out sparse = true"};
  }
  return Error{
      Errc::kUsage,
      fmt::format("[strategy] dense = \"{}\" leaves {} without work",
                  job.is_collective() ? "collective" : "local_sgd", counted(pservers, "pserver")),
      "--pservers 0"};
}

Status check_workspace(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(fs::path(path) / "job.toml", error)) {
    // job.toml names programs to run, so other users must not be able to write it.
    return remote::check_trusted((fs::path(path) / "job.toml").string());
  }
  std::string hint =
      "name the folder that holds it, or make one: paddlectl init --from TABLE, or of a template, "
      "paddlectl init --list";
  if (const std::string near = workspace_near(path); !near.empty())
    hint = fmt::format("the workspace is the folder that holds it: {}", near);
  return Error{Errc::kUsage, fmt::format("no job.toml in '{}'", path), std::move(hint)};
}

Result<Workspace> scan_workspace(const std::string& path, const config::JobConfig& job,
                                 std::uint32_t trainers) {
  PADDLE_TRY_STATUS(check_workspace(path));
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  Workspace workspace;
  workspace.path = absolute.string();
  workspace.name = absolute.filename().string();
  workspace.mounted = is_elsewhere(job.data, job.data.train);
  workspace.command = job.command;
  workspace.setup = job.setup;
  workspace.trainer_count = job.train.trainer_count;
  workspace.snapshot_copies = job.train.snapshot_copies;
  workspace.has_group = job.has_group() && job.command.empty();
  workspace.has_node_groups = job.has_node_groups() && job.command.empty();
  workspace.has_network = job.has_network();
  workspace.tables = job.tables;
  workspace.lacks_statistics = job.command.empty() && config::lacks_statistics(job.data);
  std::set<std::string> data;
  for (std::uint32_t trainer = 0; trainer < trainers; ++trainer) {
    PADDLE_TRY(auto files, data_of_trainer(workspace, job.data, job.data.train, trainer, trainers,
                                           &workspace.records_split));
    data.insert(files.begin(), files.end());
    workspace.trainer_data.push_back(std::move(files));
  }
  PADDLE_TRY_STATUS(check_data(workspace, job.data, "train", job.data.train, data));
  // Trainer 0 tests on held-out records of all training files.
  const std::string& tested = job.data.test_fraction > 0 ? job.data.train : job.data.test;
  PADDLE_TRY(workspace.test, data_of_trainer(workspace, job.data, tested, 0, 1, nullptr));
  PADDLE_TRY_STATUS(check_data(workspace, job.data, "test", tested,
                               {workspace.test.begin(), workspace.test.end()}));
  data.insert(workspace.test.begin(), workspace.test.end());
  PADDLE_TRY_STATUS(FolderWalk(workspace, data).run(""));
  std::ranges::sort(workspace.common);
  if (!job.requirements.empty()) PADDLE_TRY_STATUS(find_requirements(job.requirements, workspace));
  std::ranges::sort(workspace.snapshots);
  return workspace;
}

}  // namespace paddle::cli
