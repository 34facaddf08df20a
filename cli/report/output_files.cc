#include "cli/report/output_files.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/fd.h"
#include "base/safe_path.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kBytesMax = 64U << 20U;
constexpr std::size_t kLineBytesMax = 64U << 10U;

template <class Value>
const Value* find(const std::vector<JsonField>& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &JsonField::key);
  return found == fields.end() ? nullptr : std::get_if<Value>(&found->value);
}

}  // namespace

std::string FlatRecord::text(std::string_view key) const {
  const auto* const value = find<std::string>(fields_, key);
  return value == nullptr ? "" : *value;
}

double FlatRecord::number(std::string_view key) const {
  const auto* const value = find<double>(fields_, key);
  return value == nullptr || !(*value > 0 && *value < 1e18) ? 0 : *value;
}

std::optional<double> FlatRecord::any_number(std::string_view key) const {
  const auto* const value = find<double>(fields_, key);
  if (value == nullptr || !(std::abs(*value) < 1e9)) return std::nullopt;
  return *value;
}

void each_line(const std::string& folder, const std::string& path,
               const std::function<void(const std::string&)>& visit) {
  if (!SafePath::parse(path)) return;
  std::ifstream file(folder + "/" + path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() <= kLineBytesMax) visit(line);
  }
}

std::vector<FlatRecord> read_flat_records(const std::string& path) {
  std::vector<FlatRecord> records;
  const auto text = read_file(path, kBytesMax);
  if (!text) return records;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    auto fields = read_flat_object(std::string_view(*text).substr(begin, end - begin));
    begin = end + 1;
    if (fields) records.emplace_back(*std::move(fields));
  }
  return records;
}

}  // namespace paddle::cli
