// The parts of a snapshot that an export reads: rows of its parameters in order, those of a table
// by rising id, and the words of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "engine/snapshot/reader.h"

namespace paddle::exporting {

// The rows of a table by rising id, in bounded memory: runs of rows are sorted, written to a file
// without a name, and merged.
class SortedRows {
 public:
  static constexpr std::size_t kBytesMax = 64U << 20U;       // rows in memory
  static constexpr std::size_t kSealedBytesMax = 1U << 20U;  // rows in memory after seal()

  // If there are more rows than fit `bytes_max`, a file is created in `folder`.
  SortedRows(std::size_t width, std::string folder, std::size_t bytes_max = kBytesMax)
      : width_(width), folder_(std::move(folder)), bytes_max_(bytes_max) {}

  // kResource: no room for the file.
  Status add(std::uint64_t id, std::span<const float> values);
  // Frees the memory of the rows; writes them to the file unless they are few.
  Status seal();
  std::uint64_t rows() const { return rows_; }
  std::size_t memory_bytes() const;
  // Calls `use` for each row, any number of times, once all rows are added. The first error of
  // `use` stops it and is returned.
  Status for_each(
      const std::function<Status(std::uint64_t id, std::span<const float> values)>& use);

 private:
  struct Run {
    std::uint64_t offset = 0;  // in the file
    std::uint64_t rows = 0;
  };
  class RunReader;

  std::size_t row_bytes() const { return sizeof(std::uint64_t) + width_ * sizeof(float); }
  void sort_latest();
  Status write_latest();

  std::size_t width_;
  std::string folder_;
  std::size_t bytes_max_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> ids_;  // the run in memory
  std::vector<float> values_;
  std::vector<std::uint32_t> order_;  // order of that run, once it is sorted
  std::vector<Run> runs_;             // in the file
  std::uint64_t file_bytes_ = 0;
  UniqueFd file_;
};

// A parameter of a snapshot to be exported: its rows in order, those of a table by rising id.
class Source {
 public:
  // Reads a table's rows; rows that do not fit in memory go to a file in `scratch`. Ids that are
  // not admitted yet have no row. The snapshot must outlive the source.
  static Result<Source> open(const snapshot::SnapshotReader& snapshot,
                             const wire::ParameterSpec& spec, const std::string& scratch);

  const std::string& name() const { return spec_.name(); }
  bool is_table() const { return rows_ != nullptr; }
  std::uint64_t rows() const;
  std::size_t width() const { return width_; }  // floats of a row
  // The dims of a dense parameter, or {rows, width} of a table.
  std::vector<std::uint64_t> shape() const;
  // Frees most of a table's memory, for an export of several tables.
  Status seal() { return rows_ ? rows_->seal() : Status(); }
  // Calls `use` for each row. A dense parameter is read here; its rows are runs of its last
  // dimension, and their ids are their numbers.
  Status for_rows(
      const std::function<Status(std::uint64_t id, std::span<const float> values)>& use) const;

 private:
  explicit Source(const snapshot::SnapshotReader& snapshot) : snapshot_(&snapshot) {}

  const snapshot::SnapshotReader* snapshot_;
  wire::ParameterSpec spec_;
  std::size_t width_ = 0;
  std::unique_ptr<SortedRows> rows_;  // null for a dense parameter
};

// The same as Source::shape(), without reading the values of dense parameters.
Result<std::vector<std::uint64_t>> shape_of(const snapshot::SnapshotReader& snapshot,
                                            const wire::ParameterSpec& spec);

// The folder for the file of Source::open(): the folder of the output, or $TMPDIR.
std::string scratch_folder(const std::string& output);

// The snapshot's parameter of that name, or all parameters for "". kUsage, with a suggestion: there
// is none of that name.
Result<std::vector<wire::ParameterSpec>> choose_parameters(const snapshot::SnapshotReader& snapshot,
                                                           const std::string& name);

// Words for the rows of a parameter, by id from 0 on: the lines of the file `given` or, if that is
// "", of the dictionary in the snapshot. The snapshot's dictionary is used for tables and for dense
// parameters with a row for each word; the result is empty if there is none. Blanks in a word
// become '_', since formats with words in lines need that. kUsage: the snapshot has only the hash
// of its dictionary; kData: `given` cannot be read, or is not that dictionary.
Result<std::vector<std::string>> words_of(const snapshot::SnapshotReader& snapshot,
                                          const wire::ParameterSpec& parameter,
                                          const std::string& given);

}  // namespace paddle::exporting
