// Parser from a chunk of lines, or of arrays, to a block of records.
#pragma once

#include <memory>

#include "engine/data/chunk_reader.h"
#include "engine/data/dataset.h"
#include "engine/data/record_rules.h"
#include "engine/data/records/format.h"

namespace paddle::data {

class ChunkParser {
 public:
  // The options and the dictionary must outlive the parser.
  ChunkParser(const DatasetOptions& options, const Dictionary& dictionary, std::uint32_t pass);

  // Replaces `block` with the records that this trainer takes. The first bad record is its outcome,
  // "data/train.txt-00001:17: ...", unless the options leave out and count them.
  void parse(const Chunk& chunk, RecordBlock& block);

 private:
  bool takes(std::uint64_t file, std::uint64_t number) const;
  Error at(const Chunk& chunk, std::uint64_t number, Error error) const;
  std::string hint(std::uint64_t number, std::string_view line, const std::string& of_field) const;
  // Whether the records since `first` keep the rules.
  Status check_records(std::size_t first, RecordBlock& block) const;
  Status bad_record(const Chunk& chunk, std::uint64_t number, std::string_view line,
                    const RecordBlock::Extent& begin, Error error, RecordBlock& block) const;
  Status parse_lines(const Chunk& chunk, RecordBlock& block);
  Status parse_numbers(const Chunk& chunk, RecordBlock& block) const;

  const DatasetOptions& options_;
  const bool has_lines_;
  const RecordRules rules_;
  std::unique_ptr<Format> format_;       // of lines
  std::vector<ClassNames> class_names_;  // by slot, of arrays
  std::uint64_t trainers_;
  std::uint64_t stream_;
};

}  // namespace paddle::data
