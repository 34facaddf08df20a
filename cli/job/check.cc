#include "cli/job/check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/text_file.h"
#include "cli/console/console.h"
#include "cli/console/json.h"
#include "cli/job/engine_program.h"
#include "cli/job/engines.h"
#include "cli/job/notify.h"
#include "engine/config/data_check.h"

namespace paddle::cli {
namespace {

// Refuses numbered files that leave a trainer without one: its node would lack their folder.
Status check_shares(const Workspace& workspace, const std::string& pattern) {
  if (pattern.empty() || workspace.mounted) return {};
  const auto& shares = workspace.trainer_data;
  const auto idle = std::ranges::count_if(shares, &std::vector<std::string>::empty);
  if (idle == 0) return {};
  std::size_t files = 0;
  for (const auto& share : shares) files += share.size();
  const std::string matched =
      fmt::format("{} {} {}", counted(files, "file"), files == 1 ? "matches" : "match", pattern);
  if (files < shares.size()) {
    return Error{Errc::kData, fmt::format("{}, but there are {} trainers", matched, shares.size()),
                 fmt::format("use --trainers {}, or make {} files", files, shares.size())};
  }
  return Error{
      Errc::kData,
      fmt::format("{}, but {} of {} trainers {} none of them", matched, idle, shares.size(),
                  idle == 1 ? "gets" : "get"),
      fmt::format(
          "a file goes to the trainer with its number modulo {}: number the files 0, 1, 2, ...",
          shares.size())};
}

constexpr std::uint64_t kCountedBytesMax = 256U << 20U;  // limit for counting lines
constexpr double kLikeShares = 1.1;  // a smaller ratio of shares does not matter

// The data that a trainer reads in a pass.
struct ShareSize {
  std::uint64_t bytes = 0;
  std::uint64_t examples = 0;
};

// Whether every line of the files is one example.
bool has_example_a_line(const config::DataConfig& data, const Workspace& workspace) {
  constexpr auto kFormats =
      std::to_array<std::string_view>({"bow", "multislot", "libsvm", "csv", "jsonl", "criteo"});
  if (std::ranges::find(kFormats, data.format) == kFormats.end() || !data.pipe_command.empty())
    return false;
  for (const auto& files : workspace.trainer_data) {
    for (const std::string& file : files) {
      if (file.back() < '0' || file.back() > '9') return false;  // such as train.txt-00000.gz
    }
  }
  return true;
}

std::uint64_t lines_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t lines = 0;
  std::vector<char> buffer(1U << 18U);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0)
    lines += static_cast<std::uint64_t>(
        std::count(buffer.begin(), buffer.begin() + file.gcount(), '\n'));
  return lines;
}

std::vector<ShareSize> share_sizes(const config::DataConfig& data, const Workspace& workspace) {
  std::vector<ShareSize> shares;
  std::uint64_t all = 0;
  for (const auto& files : workspace.trainer_data) {
    ShareSize& share = shares.emplace_back();
    std::error_code ignored;
    for (const std::string& file : files) {
      const auto bytes = std::filesystem::file_size(workspace.path + "/" + file, ignored);
      if (!ignored) share.bytes += bytes;
    }
    all += share.bytes;
  }
  if (all > kCountedBytesMax || !has_example_a_line(data, workspace)) return shares;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (const std::string& file : workspace.trainer_data[i]) {
      const std::uint64_t lines = lines_in(workspace.path + "/" + file);
      shares[i].examples += lines - (data.has_header && lines > 0 ? 1 : 0);
    }
  }
  return shares;
}

// Prints a note if numbered files give some trainers more data than others. The trainers with more
// data run the last batches of each pass alone, and the job takes as long as they do.
void note_unlike_shares(Context& context, const config::JobConfig& job,
                        const Workspace& workspace) {
  const std::size_t trainers = workspace.trainer_data.size();
  if (trainers < 2 || !workspace.command.empty() || workspace.mounted || workspace.records_split)
    return;
  const std::vector<ShareSize> shares = share_sizes(job.data, workspace);
  const bool counts =
      std::ranges::any_of(shares, [](const ShareSize& share) { return share.examples > 0; });
  const auto size = counts ? &ShareSize::examples : &ShareSize::bytes;
  const auto [least, most] = std::ranges::minmax_element(shares, {}, size);
  if (static_cast<double>((*most).*size) <= kLikeShares * static_cast<double>((*least).*size))
    return;
  std::size_t files = 0;
  for (const auto& share : workspace.trainer_data) files += share.size();
  const std::size_t fewer = files / trainers * trainers;
  const std::string even =
      fewer == files ? fmt::format("{} files of like size divide evenly", files)
                     : fmt::format("{} or {} files divide evenly", fewer, fewer + trainers);
  context.console.note(fmt::format(
      "trainer-{} reads {}, trainer-{} {}: {}", most - shares.begin(),
      counts ? grouped(most->examples) + " examples" : human_bytes(most->bytes),
      least - shares.begin(), counts ? grouped(least->examples) : human_bytes(least->bytes), even));
}

// Prints how many examples one update uses, if it combines the batches of all trainers.
void note_size_of_update(Context& context, const config::JobConfig& job, std::size_t trainers) {
  const bool is_sum = job.dense_strategy == wire::STRATEGY_SYNC || job.is_collective();
  if (trainers < 2 || !job.command.empty() || !is_sum) return;
  const std::uint32_t total = job.train.batch_size_total;
  const std::uint32_t each = job.train.batch_size;
  if (total == 0) {
    context.console.note(
        fmt::format("one update is made of {} x {} examples; train.batch_size_total = {} makes it "
                    "the same for any number of trainers",
                    trainers, each, each));
  } else if (total % trainers != 0) {
    context.console.note(
        fmt::format("one update is made of {} examples: {} of each trainer, one "
                    "more of the first {}",
                    total, total / trainers, total % trainers));
  }
}

// Whether trainers on GPUs keep dense parameters there, and sum gradients with NCCL.
bool adds_up_on_gpus(const config::JobConfig& job) {
  const auto clips = [](const config::ParameterAttributes& attributes) {
    return !attributes.sparse && attributes.clip_norm.value_or(0) > 0;
  };
  const bool clips_norm = job.optimizer.clip_norm() > 0 || job.optimizer.clip_global_norm() > 0 ||
                          std::ranges::any_of(job.layers, [&](const config::LayerConfig& layer) {
                            return clips(layer.weight) || clips(layer.bias);
                          });
  return job.is_collective() && !job.node_groups && !job.bf16_wire && !job.train.skips_not_finite &&
         !clips_norm;
}

// Only notes: a trainer searches for NCCL in more places than the agent, and names them in its
// error.
void note_missing_nccl(Context& context, const Placement& placement) {
  for (const NodeGpus& node : placement.gpus) {
    if (!node.places.empty() && !node.nccl_warning.empty()) context.console.note(node.nccl_warning);
  }
}

bool ends_like_backup(std::string_view text) {
  constexpr auto kEndings = std::to_array<std::string_view>({"~", ".bak", ".orig", ".swp"});
  return std::ranges::any_of(kEndings, [&](std::string_view end) { return text.ends_with(end); });
}

// Names the files of data that look like the copies of an editor: a pattern such as train* may
// match them unseen.
void note_backups(Context& context, const config::DataConfig& data, const Workspace& workspace) {
  std::set<std::string> found;
  const auto add = [&](const std::string& pattern, const std::vector<std::string>& files) {
    if (ends_like_backup(pattern)) return;
    for (const std::string& file : files) {
      const std::string name = std::filesystem::path(file).filename().string();
      const bool is_autosave = name.size() > 1 && name.front() == '#' && name.back() == '#';
      if (ends_like_backup(name) || is_autosave) found.insert(file);
    }
  };
  add(data.test_fraction > 0 ? data.train : data.test, workspace.test);
  for (const auto& share : workspace.trainer_data) add(data.train, share);
  if (found.empty()) return;
  const bool is_one = found.size() == 1;
  context.console.note(fmt::format(
      "{}{} {} like {} of an editor, and {} read as data: remove {}, or write a narrower pattern",
      *found.begin(), is_one ? "" : fmt::format(" and {}", counted(found.size() - 1, "other file")),
      is_one ? "looks" : "look", is_one ? "the copy" : "copies", is_one ? "is" : "are",
      is_one ? "it" : "them"));
}

// Changes the hint for missing data to the workspace's own `prepare` script, if there is one.
Error name_prepare_script(Error error, const std::string& workspace, const std::string& folder) {
  std::error_code ignored;
  if (error.hint.find("prepare") == std::string::npos ||
      !std::filesystem::is_regular_file(folder + "/prepare", ignored)) {
    return error;
  }
  const auto script = std::filesystem::path(workspace).lexically_normal() / "prepare";
  error.code = Errc::kData;
  error.hint = fmt::format("make the data first: {}{}", script.has_parent_path() ? "" : "./",
                           script.string());
  return error;
}

// The plan of a job whose trainers run a user's own program: processes and their nodes only.
std::string describe_processes(const Context& context, const ClusterSpec& cluster,
                               const Placement& placement, const Workspace& workspace,
                               const std::vector<std::string>& pservers) {
  std::vector<Json> objects;
  std::string text;
  const auto add = [&](const std::string& role, std::size_t node, const std::string& what) {
    const std::string& name = cluster.nodes[node].spec.name;
    text += fmt::format("{:<14}{:<20}{}\n", role, name, what);
    objects.push_back(Json::object({{"role", role}, {"node", name}, {"runs", what}}));
  };
  for (std::size_t i = 0; i < pservers.size(); ++i) {
    add(fmt::format("pserver-{}", i), placement.pservers[i], pservers[i]);
  }
  std::map<std::size_t, std::size_t> on_node;
  for (std::size_t i = 0; i < placement.trainers.size(); ++i) {
    const std::size_t node = placement.trainers[i];
    const std::string gpu =
        placement.gpus.empty()
            ? ""
            : fmt::format(", on GPU {} of {}", placement.gpus[node].places[on_node[node]++],
                          placement.gpus[node].visible);
    add(fmt::format("trainer-{}", i), node,
        fmt::format("{}{}", fmt::join(workspace.command, " "), gpu));
  }
  if (!context.console.json()) return text;
  return Json::list(objects).text() + "\n";
}

// The first line of a file, as the reader of data takes it; nothing if it cannot be read here, for
// example from a compressed file.
std::optional<std::string> first_line(const std::string& path) {
  constexpr std::size_t kHeadBytes = 256U << 10U;
  constexpr std::size_t kUsualBytes = 4U << 10U;
  constexpr auto kCompressed = std::to_array<std::string_view>({".gz", ".zst", ".bz2", ".xz"});
  if (std::ranges::any_of(kCompressed, [&](std::string_view end) { return path.ends_with(end); }))
    return {};
  std::ifstream file(path, std::ios::binary);
  std::string head;
  for (std::size_t size = kUsualBytes; file && head.find_first_of("\r\n") == head.npos;
       size = kHeadBytes - kUsualBytes) {
    const std::size_t had = head.size();
    if (had == kHeadBytes) return {};
    head.resize(had + size);
    file.read(head.data() + had, static_cast<std::streamsize>(size));
    head.resize(had + static_cast<std::size_t>(file.gcount()));
  }
  head.resize(std::min(head.size(), head.find_first_of("\r\n")));
  std::string line(without_byte_order_mark(head));
  // The reader skips blank lines, and reports a file that is not text.
  if (line.find_first_not_of(" \t") == line.npos || line.find('\0') != line.npos || !is_utf8(line))
    return {};
  return line;
}

// Compares the headers of csv files with the columns, before the reader does so on the nodes.
Status check_headers(const config::DataConfig& data, const Workspace& workspace,
                     const std::string& shown) {
  if (data.format != "csv" || !data.pipe_command.empty() || !data.command.empty()) return {};
  const bool may_be_header =
      !data.has_header && !data.skip_bad_records && config::names_are_no_record(data);
  std::set<std::string> files(workspace.test.begin(), workspace.test.end());
  for (const auto& share : workspace.trainer_data) files.insert(share.begin(), share.end());
  for (const std::string& file : files) {
    if (!data.has_header && !may_be_header) break;
    const auto line = first_line(workspace.path + "/" + file);
    if (!line) continue;
    const std::string place =
        (std::filesystem::path(shown) / file).lexically_normal().string() + ":1";
    if (may_be_header) {
      if (!config::names_columns(*line, data)) break;  // the other files are of the same kind
      return Error{Errc::kData, fmt::format("{}: the first line names the columns", place),
                   "set [data] header = true"};
    }
    if (Status good = config::check_header(*line, data); !good)
      return std::move(good).error().with(place);
  }
  return {};
}

std::string folder_of(const Context& context, const JobSource& source) {
  return (std::filesystem::path(context.directory) / source.workspace).lexically_normal().string();
}

}  // namespace

Result<config::ResolvedJob> resolve_job(const Context& context, const JobSource& source) {
  const std::string path = folder_of(context, source);
  PADDLE_TRY_STATUS(check_workspace(path));
  auto job = config::resolve_job(path + "/job.toml", source.overrides);
  if (!job) return name_prepare_script(std::move(job).error(), source.workspace, path);
  return job;
}

Result<Workspace> check_job(Context& context, const JobSource& source,
                            const config::ResolvedJob& job, const Placement& placement) {
  const std::string path = folder_of(context, source);
  const config::JobConfig& config = job.config;
  auto workspace =
      scan_workspace(path, config, static_cast<std::uint32_t>(placement.trainers.size()));
  if (!workspace) return name_prepare_script(workspace.error(), source.workspace, path);
  const bool is_alone = placement.trainers.size() == 1 && trains_on_gpus(placement, *workspace);
  PADDLE_TRY_STATUS(check_pservers(config, placement.pservers.size(), is_alone));
  if (trains_on_gpus(placement, *workspace)) {
    PADDLE_TRY_STATUS(check_gpu_engine(context, placement));
    if (placement.trainers.size() > 1 && adds_up_on_gpus(config)) {
      note_missing_nccl(context, placement);
    }
  }
  PADDLE_TRY_STATUS(check_shares(*workspace, config.data.train));
  if (workspace->command.empty()) {
    PADDLE_TRY_STATUS(config::check_dictionary(config.data, path));
    PADDLE_TRY_STATUS(check_headers(config.data, *workspace, source.workspace));
  }
  PADDLE_TRY_STATUS(check_notify(config, path, source.overrides, *workspace));
  if (const auto notify = find_notify(config, user_notify_file()); !notify) return notify.error();
  const std::size_t trainers = placement.trainers.size();
  if (const auto batch = config.train.batch_size_of(0, static_cast<std::uint32_t>(trainers));
      !batch)
    return batch.error();
  if (const auto& left_out = workspace->snapshots; !left_out.empty()) {
    context.console.note(fmt::format(
        "{} in the workspace {} not pushed: {}{}; a line !{} in .paddleignore pushes it",
        counted(left_out.size(), "snapshot"), left_out.size() == 1 ? "is" : "are", left_out.front(),
        left_out.size() == 1 ? "" : " ...", left_out.front()));
  }
  note_size_of_update(context, config, trainers);
  note_unlike_shares(context, config, *workspace);
  note_backups(context, config.data, *workspace);
  return workspace;
}

Result<std::string> describe_placement(Context& context, const JobSource& source,
                                       const ClusterSpec& cluster, const Placement& placement,
                                       const Workspace& workspace) {
  // No node is asked, so the node's name replaces an address that the cluster file lacks.
  std::vector<std::string> addresses;
  for (const ClusterNode& node : cluster.nodes)
    addresses.push_back(node.address.empty() ? node.spec.name : node.address);
  PADDLE_TRY(const JobPorts ports, ports_of_job(cluster, {}, placement, addresses, workspace));
  std::vector<std::string> pservers;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ports.pservers.size(); ++i) {
    pservers.push_back(endpoint_text(ports.pservers[i].address, ports.pservers[i].first));
    names.push_back(cluster.nodes[placement.pservers[i]].spec.name);
  }
  const bool has_parameters = workspace.has_network || !workspace.tables.empty();
  if (!has_parameters || pservers.empty())
    return describe_processes(context, cluster, placement, workspace, pservers);
  std::vector<std::string> arguments{
      "plan",
      "--config=" + workspace.path + "/job.toml",
      fmt::format("--num_gradient_servers={}", placement.trainers.size()),
      fmt::format("--pservers={}", fmt::join(pservers, ",")),
      fmt::format("--pserver_names={}", fmt::join(names, ",")),
      fmt::format("--ports_num={}", workspace.tables.empty() ? cluster.ports_num : 0),
      fmt::format("--ports_num_for_sparse={}", cluster.ports_num_for_sparse)};
  for (const std::string& item : source.overrides) arguments.push_back("--set=" + item);
  if (context.console.json()) arguments.emplace_back("--json");
  PADDLE_TRY(std::string parameters, run_engine(context.engine, std::move(arguments)));
  if (workspace.tables.empty()) return parameters;
  const std::string processes =
      describe_processes(context, cluster, placement, workspace, pservers);
  if (!context.console.json()) return processes + "\n" + parameters;
  // The engine's object with one more member.
  return fmt::format("{{\"processes\":{},{}", processes.substr(0, processes.rfind('\n')),
                     parameters.substr(1));
}

}  // namespace paddle::cli
