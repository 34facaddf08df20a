// A chunk of lines as records.
#pragma once

#include "engine/data/chunk_reader.h"
#include "engine/data/format.h"
#include "engine/data/line_filter.h"

namespace paddle::data {

class ChunkParser {
 public:
  // All must outlive the parser.
  ChunkParser(const DatasetOptions& options, const Dictionary& dictionary, const LineFilter& filter)
      : options_(options), filter_(filter), format_(make_format(options.data, dictionary)) {}

  // Replaces `block` by the chunk's records, as far as the filter takes them. Its outcome is the
  // first bad record, "data/train.txt-00001:17: ...", or bad ones are counted and left out.
  void parse(const Chunk& chunk, RecordBlock& block);

 private:
  Status parse_lines(const Chunk& chunk, RecordBlock& block);
  Error at(const Chunk& chunk, std::uint64_t line, Error error) const;

  const DatasetOptions& options_;
  const LineFilter& filter_;
  std::unique_ptr<Format> format_;
};

}  // namespace paddle::data
