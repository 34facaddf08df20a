// Records of a trainer's files, in file order.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/trainer/dataset.h"
#include "engine/trainer/line_reader.h"

namespace paddle::trainer {

// ngram: the n ids of a window. bow: the ids of the tokens, then the label.
using Record = std::vector<std::uint64_t>;

class RecordReader {
 public:
  RecordReader(const DatasetOptions& options, const Dictionary& dictionary)
      : options_(options), dictionary_(dictionary), lines_(options.share.files) {}

  // Replaces `record`; false after the last one.
  Result<bool> next(Record& record);

 private:
  Result<bool> read_any(Record& record);
  Status read_bow(std::string_view line, Record& record) const;
  void append_ids(std::string_view text, Record& ids) const;

  const DatasetOptions& options_;
  const Dictionary& dictionary_;
  LineReader lines_;
  std::uint64_t index_ = 0;  // of the next record over all files
  Record sentence_;          // ngram: ids of the current line
  std::size_t window_ = 0;   // ngram: where the next window begins
};

}  // namespace paddle::trainer
