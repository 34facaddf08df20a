// Parameters of a snapshot for export: rows in order, tables by rising id.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/export/sorted_rows.h"
#include "engine/snapshot/reader.h"

namespace paddle::exporting {

class Source {
 public:
  // Reads a table's rows; those that do not fit in memory go to a file in `scratch`. Ids that wait
  // for admission have no row. The snapshot must outlive the source.
  static Result<Source> open(const snapshot::SnapshotReader& snapshot,
                             const wire::ParameterSpec& spec, const std::string& scratch);

  const std::string& name() const { return spec_.name(); }
  bool is_table() const { return rows_ != nullptr; }
  std::uint64_t rows() const;
  std::size_t width() const { return width_; }  // floats of a row
  // A dense parameter's own, or {rows, width}.
  std::vector<std::uint64_t> shape() const;
  // Gives back most of a table's memory, for an export of several.
  Status seal() { return rows_ ? rows_->seal() : Status(); }
  // A row of a dense parameter, which is read here, is its last dimension; its id is its number.
  Status for_rows(
      const std::function<Status(std::uint64_t id, std::span<const float> values)>& use) const;

 private:
  explicit Source(const snapshot::SnapshotReader& snapshot) : snapshot_(&snapshot) {}

  const snapshot::SnapshotReader* snapshot_;
  wire::ParameterSpec spec_;
  std::size_t width_ = 0;
  std::unique_ptr<SortedRows> rows_;  // of a table
};

// As Source::shape(), without reading values.
Result<std::vector<std::uint64_t>> shape_of(const snapshot::SnapshotReader& snapshot,
                                            const wire::ParameterSpec& spec);

// The folder for the file of Source::open: that of the output, or $TMPDIR.
std::string scratch_folder(const std::string& output);

// Those of the snapshot with that name, or all for "". kUsage: there is none, with a suggestion.
Result<std::vector<wire::ParameterSpec>> choose_parameters(const snapshot::SnapshotReader& snapshot,
                                                           const std::string& name);

}  // namespace paddle::exporting
