#include "cli/cluster/node_selection.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/cluster/host_range.h"

namespace paddle::cli {
namespace {

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
