#include "cli/cluster/selection.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cluster/node_list.h"
#include "remote/launcher/trusted_file.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClusterVariable = "PADDLECTL_CLUSTER";
constexpr std::size_t kPlaceBytesMax = 1U << 20U;
constexpr std::size_t kNamesListed = 8;  // above this, on_text() may name the other nodes
constexpr const char* kMadeMark =
    ".paddlectl-made";  // left by bootstrap: teardown may remove the folder

// Reads a place: a line with the cluster file, then one line for each node that `up --any` left
// out.
Result<CurrentCluster> read_place(const std::string& place) {
  PADDLE_TRY(const std::string text, remote::read_trusted_file(place, kPlaceBytesMax));
  CurrentCluster current{"", place, {}};
  std::istringstream lines(text);
  std::getline(lines, current.file);
  for (std::string node; std::getline(lines, node);) current.left_out.push_back(node);
  return current;
}

// Whether this error ends the search. A place that is not trusted, or that cannot be opened because
// descriptors ran out, does not count as missing.
bool decides(const Error& error) {
  return error.code == Errc::kAuth || error.code == Errc::kResource;
}

std::string absolute_in(const char* variable) {
  const char* const value = ::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

// The directory's place, then those of its parents.
std::vector<std::string> places_upward(const std::string& directory) {
  std::vector<std::string> places{cluster_place(directory)};
  const std::string home = absolute_in("HOME");
  std::error_code ignored;
  for (fs::path at(directory); at != at.parent_path() && !fs::equivalent(at, home, ignored);
       at = at.parent_path()) {
    struct stat here {
    }, above{};
    if (::stat(at.c_str(), &here) != 0 || ::stat(at.parent_path().c_str(), &above) != 0 ||
        here.st_dev != above.st_dev)
      break;
    // Another user's folder above, like /tmp, must not choose the programs and hosts that we reach.
    std::string place = cluster_place(at.parent_path().string());
    if (remote::open_trusted(place)) places.push_back(std::move(place));
  }
  return places;
}

// The name of the only cluster file in the folder, or of cluster.toml; "" for none, or several.
std::string cluster_file_here(const std::string& directory) {
  std::error_code error;
  std::string found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name == "cluster.toml") return name;  // `up` says what is wrong in it
    if (!name.ends_with(".toml") || !read_cluster(at->path().string())) continue;
    found = found.empty() ? name : "<cluster file>";
  }
  return found == "<cluster file>" ? "" : found;
}

constexpr const char* kHint = "write nodes, ranges and groups: --on gpu,node[01-04],!node02";

Error unknown(const ClusterSpec& cluster, const std::string& name, bool group_only) {
  std::vector<std::string_view> known;
  for (const ClusterNode& node : cluster.nodes) {
    if (!group_only) known.emplace_back(node.spec.name);
    known.insert(known.end(), node.groups.begin(), node.groups.end());
  }
  std::string message = fmt::format("unknown {} '{}' in cluster '{}'",
                                    group_only ? "group" : "node or group", name, cluster.name);
  if (const std::string near = nearest(name, known); !near.empty())
    message += fmt::format(", did you mean '{}'?", near);
  return Error{Errc::kUsage, message, kHint};
}

// Marks the nodes that a name means: a node, a group, or else a host or address.
Status mark(const ClusterSpec& cluster, const std::string& name, bool group_only, bool chosen,
            std::vector<bool>& marks) {
  const auto mark_where = [&](const auto& is_meant) {
    bool found = false;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      if (!is_meant(cluster.nodes[i])) continue;
      marks[i] = chosen;
      found = true;
    }
    return found;
  };
  const bool found = mark_where([&](const ClusterNode& node) {
    return (!group_only && node.spec.name == name) ||
           std::ranges::find(node.groups, name) != node.groups.end();
  });
  if (found) return {};
  const HostWord word = split_host(name);
  const bool by_host =
      !group_only && !word.host.empty() && mark_where([&](const ClusterNode& node) {
        // Nodes behind one address differ in their ports of sshd.
        return (node.spec.host == word.host && word.may_have_port(node.spec.ssh_port)) ||
               node.address == word.host;
      });
  return by_host ? Status() : unknown(cluster, name, group_only);
}

Error no_cluster_file(const std::string& directory, const std::string& asked) {
  std::error_code ignored;
  const fs::path path = fs::path(directory) / asked;
  if (fs::is_regular_file(path / "job.toml", ignored)) {
    return {Errc::kUsage, fmt::format("'{}' is a workspace, not a cluster file", asked),
            "first run paddlectl up CLUSTER_FILE, then: paddlectl train " + asked};
  }
  const std::string with_ending = asked + ".toml";
  if (fs::is_regular_file(path.parent_path() / (path.filename().string() + ".toml"), ignored)) {
    return {Errc::kUsage,
            fmt::format("cannot find cluster file '{}', did you mean '{}'?", asked, with_ending),
            "list the known cluster files: paddlectl cluster list"};
  }
  return {Errc::kUsage, fmt::format("cannot find cluster file '{}'", asked),
          "paddlectl init --hosts n1,n2,n3 " + asked + " writes one"};
}

}  // namespace

std::string cluster_place(const std::string& directory) {
  return (fs::path(directory) / ".paddlectl" / "current").string();
}

std::string default_cluster_place() {
  std::string folder = absolute_in("XDG_CONFIG_HOME");
  if (folder.empty() && !absolute_in("HOME").empty()) folder = absolute_in("HOME") + "/.config";
  return folder.empty() ? "" : folder + "/paddlectl/current";
}

Result<CurrentCluster> find_current(const std::string& directory) {
  for (const std::string& place : places_upward(directory)) {
    auto current = read_place(place);
    if (current || decides(current.error())) return current;
  }
  if (const char* const file = ::getenv(kClusterVariable); file != nullptr && *file != '\0') {
    return CurrentCluster{
        (fs::path(directory) / file).lexically_normal().string(), kClusterVariable, {}};
  }
  if (const std::string place = default_cluster_place(); !place.empty()) {
    auto current = read_place(place);
    if (current || current.error().code == Errc::kResource) return current;
  }
  const std::string found = cluster_file_here(directory);
  const std::string file = found.empty() ? "<cluster file>" : found;
  return Error{Errc::kUsage, "no current cluster, here or in a parent folder",
               fmt::format("run `paddlectl up {0}` here first{1}, or pass --cluster {0}, or set "
                           "PADDLECTL_CLUSTER",
                           file, found.empty() ? " (paddlectl init writes a file)" : "")};
}

std::vector<CurrentCluster> known_places(const std::string& directory) {
  std::vector<CurrentCluster> known;
  for (const std::string& place : places_upward(directory)) {
    if (auto current = read_place(place)) known.push_back(*std::move(current));
  }
  if (const char* const file = ::getenv(kClusterVariable); file != nullptr && *file != '\0') {
    known.push_back(
        {(fs::path(directory) / file).lexically_normal().string(), kClusterVariable, {}});
  }
  if (const std::string place = default_cluster_place(); !place.empty()) {
    if (auto current = read_place(place)) known.push_back(*std::move(current));
  }
  return known;
}

std::vector<std::string> left_out_of(const std::string& directory, const ClusterSpec& cluster) {
  const auto current = find_current(directory);
  return current && current->file == cluster.file ? current->left_out : std::vector<std::string>();
}

Status check_place(const std::string& place) {
  fs::path existing(place);
  std::error_code error;
  while (!fs::exists(existing, error) && existing != existing.parent_path())
    existing = existing.parent_path();
  // Writing replaces the file by a new one, so its folder must be writable.
  if (existing == place) existing = existing.parent_path();
  const bool is_folder = fs::is_directory(existing, error);
  if (is_folder && ::access(existing.c_str(), W_OK | X_OK) == 0) return {};
  return Error{Errc::kResource,
               fmt::format("cannot keep the current cluster in {}: {}", existing.string(),
                           std::generic_category().message(is_folder ? errno : ENOTDIR)),
               "run this in a folder that you can write to, or make the cluster your default with "
               "--default"};
}

Status remember_cluster(const std::string& place, const std::string& file,
                        const std::vector<std::string>& left_out) {
  std::error_code error;
  const fs::path folder = fs::path(place).parent_path();
  fs::create_directories(folder, error);
  if (error) {
    return Error{Errc::kResource, fmt::format("create {}: {}", folder.string(), error.message()),
                 ""};
  }
  std::string text = file + "\n";
  for (const std::string& node : left_out) text += node + "\n";
  return replace_file(place, as_bytes(text), 0644);
}

void forget_cluster(const std::string& directory, const std::string& file) {
  std::vector<std::string> places = places_upward(directory);
  places.push_back(default_cluster_place());
  for (const std::string& place : places) {
    if (const auto known = read_place(place); !known || known->file != file) continue;
    const fs::path folder = fs::path(place).parent_path();
    std::error_code ignored;
    fs::remove(place, ignored);
    fs::remove(folder, ignored);
    // The folder may also be the workdir of a local node, when the cluster is used in $HOME. Its
    // mark says that bootstrap made it; teardown left it because `current` was in it.
    const fs::path mark = folder / kMadeMark;
    if (!fs::exists(mark, ignored) || fs::exists(place, ignored)) continue;
    const fs::directory_iterator entries(folder, ignored);
    if (std::distance(begin(entries), end(entries)) != 1) continue;
    fs::remove(mark, ignored);
    fs::remove(folder, ignored);
  }
}

Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked) {
  PADDLE_TRY(ClusterSpec cluster, choose_cluster_file(directory, asked));
  PADDLE_TRY_STATUS(add_nodes(cluster));
  return cluster;
}

Result<ClusterSpec> choose_cluster_file(const std::string& directory, const std::string& asked) {
  if (!asked.empty()) {
    const fs::path path = fs::path(directory) / asked;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) {
      return no_cluster_file(directory, asked);
    }
    return read_cluster(path.lexically_normal().string());
  }
  PADDLE_TRY(const CurrentCluster current, find_current(directory));
  auto cluster = read_cluster(current.file);
  if (!cluster)
    return std::move(cluster).error().with(fmt::format("the current cluster ({})", current.source));
  return cluster;
}

Result<std::vector<std::size_t>> select_nodes(const ClusterSpec& cluster, std::string_view text) {
  std::vector<std::string> terms = split_list(text);
  if (terms.size() == 1 && terms.front().empty()) terms = {std::string(kAllNodes)};
  const bool only_less = std::ranges::all_of(terms, [](auto& t) { return t.starts_with('!'); });
  std::vector<bool> marks(cluster.nodes.size(), only_less);
  // Applies exclusions last, wherever they are in the list.
  std::stable_partition(terms.begin(), terms.end(),
                        [](const std::string& term) { return !term.starts_with('!'); });
  for (const std::string& term : terms) {
    const bool chosen = !term.starts_with('!');
    std::string pattern = chosen ? term : term.substr(1);
    const bool group_only = pattern.starts_with('@');
    if (group_only) pattern.erase(0, 1);
    if (pattern.empty()) {
      return Error{Errc::kUsage, fmt::format("'{}' contains an empty name", text), kHint};
    }
    if (pattern == kAllNodes) {
      marks.assign(marks.size(), chosen);
      continue;
    }
    PADDLE_TRY(const auto names, expand_range(pattern));
    for (const std::string& name : names) {
      PADDLE_TRY_STATUS(mark(cluster, name, group_only, chosen, marks));
    }
  }
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) chosen.push_back(i);
  }
  if (chosen.empty()) return Error{Errc::kUsage, fmt::format("'{}' selects no node", text), kHint};
  return chosen;
}

std::string on_text(const ClusterSpec& cluster, const std::vector<std::size_t>& nodes) {
  std::vector<std::string> chosen, others;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const std::string& name = cluster.nodes[i].spec.name;
    if (std::ranges::find(nodes, i) != nodes.end()) {
      chosen.push_back(name);
    } else {
      others.push_back("!" + name);
    }
  }
  if (others.size() >= chosen.size() || chosen.size() <= kNamesListed)
    return fmt::format("{}", fmt::join(chosen, ","));
  return fmt::format("'{}'", fmt::join(others, ","));
}

ClusterSpec with_roles_on(ClusterSpec cluster, const std::vector<std::size_t>& nodes) {
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    if (std::ranges::find(nodes, i) != nodes.end()) continue;
    cluster.nodes[i].runs_pserver = cluster.nodes[i].runs_trainer = false;
  }
  return cluster;
}

}  // namespace paddle::cli
