#include "engine/snapshot/export_text.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "engine/parameter/row_notes.h"
#include "engine/snapshot/reader.h"

namespace paddle::snapshot {
namespace {

Status write_row(std::uint64_t id, std::span<const float> values, std::FILE* out) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "{}", id);
  // fmt prints the shortest text that reads back as the same float.
  for (const float value : values) fmt::format_to(std::back_inserter(line), " {}", value);
  line.push_back('\n');
  if (std::fwrite(line.data(), 1, line.size(), out) != line.size()) {
    return system_error(Errc::kResource, "writing the export");
  }
  return {};
}

Status export_sparse(const SnapshotReader& reader, const std::string& name, std::FILE* out) {
  std::vector<SparseRow> rows;
  PADDLE_TRY_STATUS(reader.read_rows(name, [&](const SparseRow& row) {
    if (parameter::RowMarks::unpack(row.marks).sightings == 0) rows.push_back(row);
    return Status{};
  }));
  std::ranges::sort(rows, {}, &SparseRow::id);
  for (const SparseRow& row : rows) PADDLE_TRY_STATUS(write_row(row.id, row.value, out));
  return {};
}

Status export_dense(const SnapshotReader& reader, const wire::ParameterSpec& spec, std::FILE* out) {
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  PADDLE_TRY_STATUS(reader.read_dense(spec.name(), value, state, update_count));
  const auto width = static_cast<std::size_t>(spec.dims(spec.dims_size() - 1));
  for (std::size_t row = 0; row * width < value.size(); ++row) {
    PADDLE_TRY_STATUS(
        write_row(row, std::span<const float>(value).subspan(row * width, width), out));
  }
  return {};
}

}  // namespace

Status export_text(const std::string& snapshot, const std::string& parameter, std::FILE* out) {
  PADDLE_TRY(const SnapshotReader reader, SnapshotReader::open(snapshot));
  const std::vector<wire::ParameterSpec> specs = reader.parameters();
  const auto spec = std::ranges::find(specs, parameter, &wire::ParameterSpec::name);
  if (spec == specs.end()) {
    std::vector<std::string_view> names;
    for (const auto& each : specs) names.push_back(each.name());
    const std::string near = nearest(parameter, names);
    return Error{Errc::kData, fmt::format("{} has no parameter '{}'", snapshot, parameter),
                 near.empty() ? fmt::format("it has: {}", fmt::join(names, ", "))
                              : fmt::format("did you mean '{}'?", near)};
  }
  PADDLE_TRY_STATUS(spec->sparse() ? export_sparse(reader, parameter, out)
                                   : export_dense(reader, *spec, out));
  if (std::fflush(out) != 0) return system_error(Errc::kResource, "writing the export");
  return {};
}

}  // namespace paddle::snapshot
