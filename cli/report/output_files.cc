#include "cli/report/output_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

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
  const auto safe = SafePath::parse(path);
  const UniqueFd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!safe || !at) return;
  const auto file = safe->open_read(at.get());
  if (!file) return;
  std::array<char, kLineBytesMax> buffer;
  std::string line;  // of one that is too long only its begin
  for (ssize_t got = 0; (got = ::read(file->get(), buffer.data(), buffer.size())) > 0;) {
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      if (line.size() <= kLineBytesMax) line += rest.substr(0, end);
      if (end == rest.size()) break;
      if (line.size() <= kLineBytesMax) visit(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
  if (!line.empty() && line.size() <= kLineBytesMax) visit(line);
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
