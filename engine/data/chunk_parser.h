// Parser from a chunk of lines to a block of records.
#pragma once

#include "engine/data/chunk_reader.h"
#include "engine/data/format.h"
#include "engine/data/line_filter.h"

namespace paddle::data {

class ChunkParser {
 public:
  // The arguments must outlive the parser.
  ChunkParser(const DatasetOptions& options, const Dictionary& dictionary, const LineFilter& filter)
      : options_(options), filter_(filter), format_(make_format(options.data, dictionary)) {}

  // Replaces `block` with the records of the lines that the filter takes. The first bad record is
  // its outcome, "data/train.txt-00001:17: ...", unless the options leave out and count them.
  void parse(const Chunk& chunk, RecordBlock& block);

 private:
  Status parse_lines(const Chunk& chunk, RecordBlock& block);
  Error at(const Chunk& chunk, std::uint64_t line, Error error) const;

  const DatasetOptions& options_;
  const LineFilter& filter_;
  std::unique_ptr<Format> format_;
};

}  // namespace paddle::data
