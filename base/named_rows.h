// Lookup by name in constant tables, such as those of layer types, optimizer methods and data
// formats.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace paddle {

// Null when no row has the name.
template <class Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}

template <class Row>
std::vector<std::string_view> row_names(std::span<const Row> rows) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace paddle
