#include "engine/data/split.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/data/chunk_reader.h"
#include "engine/data/fields.h"

namespace paddle::data {

std::optional<Split> Split::of(const DatasetOptions& options) {
  if (options.data.test_fraction <= 0) return {};
  return Split(options);
}

Split::Split(const DatasetOptions& options)
    : data_(options.data),
      held_out_(options.held_out),
      stream_(hash_combine(options.seed, stable_hash("held out"))),
      csv_(data_.delimiter, data_.trim),
      json_({data_.split_by}) {
  for (const std::string_view file : options.share.files)
    names_.push_back(stable_hash(file.substr(file.rfind('/') + 1)));
  const auto column = std::ranges::find(data_.columns, data_.split_by);
  column_ = static_cast<std::size_t>(column - data_.columns.begin());
}

Result<bool> Split::takes(std::uint64_t file, std::uint64_t number, std::string_view line) {
  std::optional<std::uint64_t> place;
  if (data_.split_by.empty()) {
    place = hash_combine(names_[file], number);
  } else if (data_.format == "csv") {
    place = hash_of_csv(line);
  } else {
    auto hash = hash_of_json(line);
    if (!hash && !held_out_) return std::move(hash).error();
    if (hash) place = *hash;
  }
  if (!place) return !held_out_;
  // Uniform in [0, 1).
  const auto share = static_cast<double>(hash_combine(stream_, *place) >> 11U) * 0x1.0p-53;
  return (share < data_.test_fraction) == held_out_;
}

std::optional<std::uint64_t> Split::hash_of_csv(std::string_view line) {
  if (!csv_.split(line) || csv_.fields().size() != data_.columns.size()) return {};
  return stable_hash(csv_.fields()[column_]);
}

Result<std::optional<std::uint64_t>> Split::hash_of_json(std::string_view line) {
  if (!json_.read(line)) return std::optional<std::uint64_t>();
  const JsonValue* const value = json_.find(0);
  if (value == nullptr || value->is_null()) return std::optional(stable_hash(""));
  if (value->is_list() || value->is_object()) {
    return Error{Errc::kData,
                 fmt::format("'{}' must be a text or a number, because [data] split_by names it",
                             data_.split_by)};
  }
  const std::uint64_t hash =
      value->is_text() ? stable_hash(value->text()) : stable_hash(value->shown());
  json_.trim();
  return std::optional(hash);
}

bool has_split_key(const DatasetOptions& options) {
  const config::DataConfig& data = options.data;
  if (data.format != "jsonl" || !data.command.empty() || !data.pipe_command.empty()) return true;
  JsonReader json({data.split_by});
  Chunk chunk;
  for (std::size_t file = 0; file < options.share.files.size(); ++file) {
    ChunkReader reader(options.share.files[file], static_cast<std::uint32_t>(file), {});
    for (auto found = reader.next(chunk); found && *found; found = reader.next(chunk)) {
      Lines lines(as_text(chunk.text));
      while (const auto line = lines.next()) {
        if (json.read(*line) && json.find(0) != nullptr) return true;
      }
    }
  }
  return false;
}

}  // namespace paddle::data
