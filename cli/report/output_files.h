// Files in a job's output folder: lines of text, and flat JSON objects, one a line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/console/json.h"

namespace paddle::cli {

class FlatRecord {
 public:
  explicit FlatRecord(std::vector<JsonField> fields) : fields_(std::move(fields)) {}
  std::string text(std::string_view key) const;  // "" where it has none
  double number(std::string_view key) const;     // 0 where it has none between 0 and 1e18
  std::optional<double> any_number(std::string_view key) const;  // within +-1e9

 private:
  std::vector<JsonField> fields_;
};

// Visits the lines of a regular file that a node named, unless its path leaves the folder or leads
// through a link; over-long lines are left out.
void each_line(const std::string& folder, const std::string& path,
               const std::function<void(const std::string&)>& visit);

// Nothing where there is no such file; damaged lines are left out.
std::vector<FlatRecord> read_flat_records(const std::string& path);

}  // namespace paddle::cli
