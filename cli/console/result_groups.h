// Groups of nodes with equal results: "node[01-15]: ...".
#pragma once

#include <string>
#include <vector>

namespace paddle::cli {

struct NodeResult {
  std::string node;
  std::string text;
};
struct ResultGroup {
  std::vector<std::string> nodes;
  std::string text;
};
// Groups nodes by equal text, in the order of the first node of each group.
std::vector<ResultGroup> group_results(const std::vector<NodeResult>& results);

// "node[01-15,20].lab, other": names that differ in one number become ranges, in the order of each
// range's first name. Zero padding is kept; a single name stays as it is.
std::string fold_names(const std::vector<std::string>& names);

}  // namespace paddle::cli
