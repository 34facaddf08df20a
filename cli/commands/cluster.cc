// The command `cluster` shows, lists and switches the current cluster, and contacts no node.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/cluster/selection.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/job/results.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

struct ClusterOptions {
  std::string action = "show";
  std::string file;
  bool is_default = false;
};

OptionList cluster_options(ClusterOptions& options) {
  return {{.name = "action",
           .help = "show the current cluster (the default), list the clusters known here, or "
                   "switch to FILE",
           .target = &options.action,
           .choices = {"show", "list", "switch"}},
          {.name = "file",
           .help = "the cluster file to switch to",
           .target = &options.file,
           .value_name = "FILE"},
          {"--default",
           "with switch: make it the cluster of every folder that has none, instead of this "
           "folder's",
           &options.is_default}};
}

struct KnownCluster {
  CurrentCluster place;  // source "": a cluster file here that no place names
  Result<ClusterSpec> spec;
  std::string name() const { return spec ? spec->name : "cannot be read"; }
  // False also for a cluster with a provider, which is not asked for them here.
  bool has_nodes() const { return spec && !spec->provider; }
  Json nodes() const { return has_nodes() ? Json(spec->nodes.size()) : Json(); }
};

// The clusters known in a folder: the current one first, then the cluster files in the folder and
// in its `clusters`.
std::vector<KnownCluster> known_here(const Context& context) {
  std::vector<KnownCluster> known;
  for (CurrentCluster& place : known_places(context.directory)) {
    auto spec = read_cluster(place.file);
    known.push_back({std::move(place), std::move(spec)});
  }
  for (const fs::path& folder :
       {fs::path(context.directory), fs::path(context.directory) / "clusters"}) {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".toml" && entry.is_regular_file(error))
        files.push_back(entry.path().string());
    }
    std::ranges::sort(files);
    for (std::string& file : files) {
      const bool is_named = std::ranges::any_of(
          known, [&](const KnownCluster& one) { return one.place.file == file; });
      if (is_named) continue;
      if (auto spec = read_cluster(file)) known.push_back({{file, "", {}}, std::move(spec)});
    }
  }
  return known;
}

Json to_json(const KnownCluster& cluster, bool is_current) {
  const auto& left_out = cluster.place.left_out;
  return Json::object(
      {{"name", cluster.spec ? Json(cluster.spec->name) : Json()},
       {"file", cluster.place.file},
       {"nodes", cluster.nodes()},
       {"current", is_current},
       {"named_by", cluster.place.source.empty() ? Json() : Json(cluster.place.source)},
       {"left_out", Json::list({left_out.begin(), left_out.end()})}});
}

Status show_current(Context& context) {
  PADDLE_TRY(CurrentCluster current, find_current(context.directory));
  auto spec = read_cluster(current.file);
  const KnownCluster cluster{std::move(current), std::move(spec)};
  if (context.console.json()) {
    context.console.json_line(to_json(cluster, true));
  } else {
    std::string nodes = cluster.spec ? counted(cluster.spec->nodes.size(), "node") : "";
    if (cluster.spec && cluster.spec->provider) nodes = cluster.spec->provider->describe();
    context.console.result(fmt::format(
        "{}: {}{}, named by {}", cluster.name(), shown_path(context, cluster.place.file),
        nodes.empty() ? "" : ", " + nodes, shown_path(context, cluster.place.source)));
    if (!cluster.place.left_out.empty()) {
      context.console.result(
          fmt::format("left out by `up --any`: {}", fmt::join(cluster.place.left_out, ", ")));
    }
  }
  if (cluster.spec) return {};
  return cluster.spec.error();
}

Status list_clusters(Context& context) {
  const std::vector<KnownCluster> known = known_here(context);
  const auto is_current = [&](std::size_t i) { return i == 0 && !known[i].place.source.empty(); };
  if (context.console.json()) {
    std::vector<Json> list;
    for (std::size_t i = 0; i < known.size(); ++i) list.push_back(to_json(known[i], is_current(i)));
    context.console.json_line(Json::list(list));
    return {};
  }
  Table table{
      {{"", ""}, {"cluster", ""}, {"file", ""}, {"nodes", "", 0, true}, {"named by", "", 1}}, {}};
  for (std::size_t i = 0; i < known.size(); ++i) {
    const KnownCluster& one = known[i];
    table.rows.push_back({text_cell(is_current(i) ? "*" : ""), text_cell(one.name()),
                          text_cell(shown_path(context, one.place.file)),
                          one.has_nodes() ? number_cell(one.spec->nodes.size()) : empty_cell(),
                          one.place.source.empty()
                              ? empty_cell()
                              : text_cell(shown_path(context, one.place.source))});
  }
  context.console.table(table);
  return {};
}

Status switch_to(Context& context, const ClusterOptions& options) {
  if (options.file.empty()) {
    return Error{Errc::kUsage, "name the cluster file to switch to",
                 "list the known cluster files: paddlectl cluster list"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.file));
  std::vector<std::string> left_out;
  for (const CurrentCluster& place : known_places(context.directory)) {
    if (place.file == cluster.file && left_out.empty()) left_out = place.left_out;
  }
  const std::string place =
      options.is_default ? default_cluster_place() : cluster_place(context.directory);
  PADDLE_TRY_STATUS(check_place(place));
  const auto before = find_current(context.directory);
  PADDLE_TRY_STATUS(remember_cluster(place, cluster.file, left_out));
  note_other_cluster(context, before);
  PADDLE_TRY(const CurrentCluster current, find_current(context.directory));
  if (current.file != cluster.file) {
    context.console.note(fmt::format("commands here still use {}, which {} names",
                                     shown_path(context, current.file),
                                     shown_path(context, current.source)));
  }
  context.console.note("no node was contacted; prepare new nodes with paddlectl up");
  return show_current(context);
}

Status run_cluster(Context& context, const ClusterOptions& options) {
  if (options.action == "switch") return switch_to(context, options);
  if (!options.file.empty() || options.is_default) {
    return Error{Errc::kUsage,
                 fmt::format("cluster {} takes no {}", options.action,
                             options.file.empty() ? "--default" : "file"),
                 "to use another cluster: paddlectl cluster switch FILE"};
  }
  return options.action == "list" ? list_clusters(context) : show_current(context);
}

}  // namespace

void note_other_cluster(Context& context, const Result<CurrentCluster>& before) {
  const auto now = find_current(context.directory);
  if (!before || !now || before->file == now->file) return;
  const std::string former = shown_path(context, before->file);
  context.console.note(
      fmt::format("commands here now use {}, not {} (to go back: paddlectl cluster switch {})",
                  shown_path(context, now->file), former, former));
}

Command cluster_command() {
  return {"cluster", "show, list or switch the cluster that commands use here",
          "  paddlectl cluster\n"
          "  paddlectl cluster list\n"
          "  paddlectl cluster switch lab.toml",
          [] { return invocation(cluster_options, run_cluster); }};
}

}  // namespace paddle::cli
