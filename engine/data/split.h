// The records of the training files that are held out for tests: [data] test_fraction and split_by.
//
// INVARIANT: whether a record is held out depends only on the seed, and on its file's name and its
// line or on its text in `split_by`, not on trainers, threads, passes or folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "engine/config/csv_line.h"
#include "engine/data/dataset.h"

namespace paddle::data {

// Each parsing thread has its own, which keeps memory between lines.
class Split {
 public:
  // Empty if the stream has all records. The options must outlive the split.
  static std::optional<Split> of(const DatasetOptions& options);

  // Whether the stream takes the line or record `number` of `file`, an index in share.files.
  // `line` is "" for arrays. A line that has no readable text in `split_by` is a training record,
  // so that its parser reports the mistake once. kData: the text is a list or an object of JSON.
  Result<bool> takes(std::uint64_t file, std::uint64_t number, std::string_view line);

 private:
  explicit Split(const DatasetOptions& options);
  std::optional<std::uint64_t> hash_of_csv(std::string_view line);
  Result<std::optional<std::uint64_t>> hash_of_json(std::string_view line);

  const config::DataConfig& data_;
  const bool held_out_;
  const std::uint64_t stream_;
  std::vector<std::uint64_t> names_;  // hashes of the files' names, without folders
  config::CsvLine csv_;
  std::size_t column_ = 0;  // csv: of split_by
  JsonReader json_;         // its only key is split_by
};

// Whether a record of the files has the key that split_by names; true if it is a column, or if a
// program delivers the records. Reads the files until a record has it.
bool has_split_key(const DatasetOptions& options);

}  // namespace paddle::data
