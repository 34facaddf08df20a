#include "cli/cluster/selection.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPathBytesMax = 4096;
constexpr const char* kMadeMark =
    ".paddlectl-made";  // left by bootstrap: teardown may remove the folder

fs::path state_folder(const std::string& directory) {
  return fs::path(directory) / ".paddlectl";
}

Result<std::string> current(const std::string& directory) {
  PADDLE_TRY(std::string text,
             read_file((state_folder(directory) / "current").string(), kPathBytesMax));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

constexpr const char* kHint = "write nodes, ranges and groups: --on gpu,node[01-04],!node02";

// Splits at commas outside brackets.
std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> terms(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0) {
      terms.emplace_back();
    } else if (c != ' ') {
      terms.back().push_back(c);
    }
  }
  return terms;
}

Error unknown(const ClusterSpec& cluster, const std::string& name, bool group_only) {
  std::vector<std::string_view> known;
  for (const ClusterNode& node : cluster.nodes) {
    if (!group_only) known.emplace_back(node.spec.name);
    known.insert(known.end(), node.groups.begin(), node.groups.end());
  }
  std::string message = fmt::format("no {} '{}' in cluster '{}'",
                                    group_only ? "group" : "node or group", name, cluster.name);
  if (const std::string near = nearest(name, known); !near.empty())
    message += fmt::format(", did you mean '{}'?", near);
  return Error{Errc::kUsage, message, kHint};
}

// Marks the nodes that a name stands for.
Status mark(const ClusterSpec& cluster, const std::string& name, bool group_only, bool chosen,
            std::vector<bool>& marks) {
  bool found = false;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const ClusterNode& node = cluster.nodes[i];
    if (std::ranges::find(node.groups, name) == node.groups.end() &&
        (group_only || node.spec.name != name))
      continue;
    marks[i] = chosen;
    found = true;
  }
  return found ? Status() : unknown(cluster, name, group_only);
}

}  // namespace

Status remember_cluster(const std::string& directory, const std::string& file) {
  std::error_code error;
  fs::create_directories(state_folder(directory), error);
  if (error) {
    return Error{Errc::kResource,
                 fmt::format("create {}: {}", state_folder(directory).string(), error.message()),
                 ""};
  }
  return replace_file((state_folder(directory) / "current").string(), as_bytes(file + "\n"), 0644);
}

void forget_cluster(const std::string& directory, const std::string& file) {
  if (const auto known = current(directory); !known || *known != file) return;
  std::error_code ignored;
  fs::remove(state_folder(directory) / "current", ignored);
  fs::remove(state_folder(directory), ignored);
  // The folder may also be the workdir of a local node, when the cluster is used in $HOME. Its mark
  // says that bootstrap made it; teardown left it because `current` was in it.
  const fs::path mark = state_folder(directory) / kMadeMark;
  if (!fs::exists(mark, ignored) || fs::exists(state_folder(directory) / "current", ignored))
    return;
  const fs::directory_iterator entries(state_folder(directory), ignored);
  if (std::distance(begin(entries), end(entries)) != 1) return;
  fs::remove(mark, ignored);
  fs::remove(state_folder(directory), ignored);
}

Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked) {
  if (!asked.empty()) {
    const fs::path path = fs::path(directory) / asked;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) {
      return Error{Errc::kUsage, fmt::format("no cluster file '{}'", asked),
                   "paddlectl init writes one to edit: paddlectl init " + asked};
    }
    return read_cluster(path.lexically_normal().string());
  }
  const auto known = current(directory);
  if (!known) {
    return Error{Errc::kUsage, "no current cluster in this directory",
                 "run `paddlectl up <cluster file>` here first, or pass --cluster <file>"};
  }
  auto cluster = read_cluster(*known);
  if (!cluster) return std::move(cluster).error().with("the current cluster (.paddlectl/current)");
  return cluster;
}

Result<std::vector<std::string>> expand_range(const std::string& pattern) {
  const auto refuse = [&](const std::string& why) {
    return Error{Errc::kUsage, fmt::format("bad range in '{}': {}", pattern, why),
                 "write a range as node[01-16].lab"};
  };
  const auto open = pattern.find('[');
  if (open == std::string::npos) {
    if (pattern.find(']') != std::string::npos) return refuse("']' without '['");
    return std::vector<std::string>{pattern};
  }
  const auto close = pattern.find(']', open);
  if (close == std::string::npos) return refuse("'[' without ']'");
  if (pattern.find_first_of("[]", close + 1) != std::string::npos) return refuse("only one range");
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  const auto dash = inside.find('-');
  if (dash == std::string::npos) return refuse("expected first-last");
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (!parse_number(std::string_view(inside).substr(0, dash), first) ||
      !parse_number(std::string_view(inside).substr(dash + 1), last)) {
    return refuse("first and last must be numbers");
  }
  if (last < first) return refuse("last is below first");
  if (last - first >= kRangeNamesMax) return refuse(fmt::format("over {} names", kRangeNamesMax));
  const bool padded = dash > 1 && inside.front() == '0';
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i <= last - first; ++i) {
    names.push_back(fmt::format("{}{:0{}}{}", pattern.substr(0, open), first + i, padded ? dash : 1,
                                pattern.substr(close + 1)));
  }
  return names;
}

Result<std::vector<std::size_t>> select_nodes(const ClusterSpec& cluster, std::string_view text) {
  std::vector<std::string> terms = split_terms(text);
  if (terms.size() == 1 && terms.front().empty()) terms = {std::string(kAllNodes)};
  const bool only_less = std::ranges::all_of(terms, [](auto& t) { return t.starts_with('!'); });
  std::vector<bool> marks(cluster.nodes.size(), only_less);
  // Exclusions come last, wherever in the list they stand.
  std::ranges::stable_partition(terms, [](auto& term) { return !term.starts_with('!'); });
  for (const std::string& term : terms) {
    const bool chosen = !term.starts_with('!');
    std::string pattern = chosen ? term : term.substr(1);
    const bool group_only = pattern.starts_with('@');
    if (group_only) pattern.erase(0, 1);
    if (pattern.empty()) {
      return Error{Errc::kUsage, fmt::format("an empty name in '{}'", text), kHint};
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
  if (chosen.empty()) return Error{Errc::kUsage, fmt::format("'{}' leaves no node", text), kHint};
  return chosen;
}

}  // namespace paddle::cli
