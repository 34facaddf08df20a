#include "engine/export/source.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/row_notes.h"

namespace paddle::exporting {

Result<Source> Source::open(const snapshot::SnapshotReader& snapshot,
                            const wire::ParameterSpec& spec, const std::string& scratch) {
  Source source(snapshot);
  source.spec_ = spec;
  if (!spec.sparse()) {
    source.width_ = static_cast<std::size_t>(spec.dims(spec.dims_size() - 1));
    return source;
  }
  source.width_ = static_cast<std::size_t>(parameter::row_width(spec));
  source.rows_ = std::make_unique<SortedRows>(source.width_, scratch);
  PADDLE_TRY_STATUS(snapshot.read_rows(spec.name(), [&](const snapshot::SparseRow& row) -> Status {
    if (parameter::RowMarks::unpack(row.marks).sightings > 0) return {};
    return source.rows_->add(row.id, row.value);
  }));
  return source;
}

std::uint64_t Source::rows() const {
  return rows_ ? rows_->rows() : parameter::element_count(spec_) / width_;
}

std::vector<std::uint64_t> Source::shape() const {
  if (rows_) return {rows(), width_};
  return {spec_.dims().begin(), spec_.dims().end()};
}

Status Source::for_rows(
    const std::function<Status(std::uint64_t id, std::span<const float> values)>& use) const {
  if (rows_) return rows_->for_each(use);
  PADDLE_TRY(const std::vector<float> values, snapshot_->read_dense_value(name()));
  for (std::uint64_t row = 0; row < rows(); ++row)
    PADDLE_TRY_STATUS(use(row, std::span(values).subspan(row * width_, width_)));
  return {};
}

Result<std::vector<std::uint64_t>> shape_of(const snapshot::SnapshotReader& snapshot,
                                            const wire::ParameterSpec& spec) {
  if (!spec.sparse()) return std::vector<std::uint64_t>(spec.dims().begin(), spec.dims().end());
  std::uint64_t rows = 0;
  PADDLE_TRY_STATUS(snapshot.read_rows(spec.name(), [&](const snapshot::SparseRow& row) -> Status {
    rows += parameter::RowMarks::unpack(row.marks).sightings > 0 ? 0 : 1;
    return {};
  }));
  return std::vector<std::uint64_t>{rows, parameter::row_width(spec)};
}

std::string scratch_folder(const std::string& output) {
  if (!output.empty()) {
    const std::size_t slash = output.rfind('/');
    return slash == std::string::npos ? "." : output.substr(0, slash + 1);
  }
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == 0 ? "/tmp" : folder;
}

Result<std::vector<wire::ParameterSpec>> choose_parameters(const snapshot::SnapshotReader& snapshot,
                                                           const std::string& name) {
  std::vector<wire::ParameterSpec> specs = snapshot.parameters();
  if (name.empty()) return specs;
  const auto found = std::ranges::find(specs, name, &wire::ParameterSpec::name);
  if (found != specs.end()) return std::vector<wire::ParameterSpec>{*found};
  std::vector<std::string_view> names;
  for (const auto& each : specs) names.push_back(each.name());
  const std::string near = nearest(name, names);
  return Error{Errc::kUsage, fmt::format("{} has no parameter '{}'", snapshot.directory(), name),
               near.empty() ? fmt::format("it has: {}", fmt::join(names, ", "))
                            : fmt::format("did you mean '{}'?", near)};
}

}  // namespace paddle::exporting
