// The rows of a table by rising id, in bounded memory: runs of them are sorted, kept in a file that
// has no name, and merged.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace paddle::exporting {

class SortedRows {
 public:
  static constexpr std::size_t kBytesMax = 64U << 20U;       // of rows in memory
  static constexpr std::size_t kSealedBytesMax = 1U << 20U;  // likewise, after seal()

  // The file is made in `folder` when there are more rows than fit `bytes_max`.
  SortedRows(std::size_t width, std::string folder, std::size_t bytes_max = kBytesMax)
      : width_(width), folder_(std::move(folder)), bytes_max_(bytes_max) {}

  // kResource: no room for the file.
  Status add(std::uint64_t id, std::span<const float> values);
  // Gives back the memory of the rows, which go to the file unless they are few.
  Status seal();
  std::uint64_t rows() const { return rows_; }
  std::size_t memory_bytes() const;
  // Any number of times, once all rows are added. The first error ends it and is returned.
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
  std::vector<std::uint64_t> ids_;  // of the run in memory
  std::vector<float> values_;
  std::vector<std::uint32_t> order_;  // of that run, once it is sorted
  std::vector<Run> runs_;             // in the file
  std::uint64_t file_bytes_ = 0;
  UniqueFd file_;
};

}  // namespace paddle::exporting
