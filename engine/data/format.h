// Parsers of the lines of data files, and of their arrays of numbers; docs/job.md describes each
// format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/config/data_config.h"
#include "engine/data/chunk.h"
#include "engine/data/dictionary.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// Parser of lines. Each parsing thread has its own, so a parser may keep memory between lines.
class Format {
 public:
  virtual ~Format() = default;
  // Appends the records of a line. kData: the line is wrong; the caller drops the values left at
  // the end of the block and adds file and line to the message.
  virtual Status parse(std::string_view line, RecordBlock& block) = 0;
  // True if the first line of each file that is not blank is a header; check_header() validates it.
  virtual bool has_header() const { return false; }
  virtual bool is_blank_line(std::string_view line) const { return line.empty(); }
  virtual Status check_header(std::string_view /*line*/) { return {}; }
  // Sets the number of classes of the slot "label"; 0: the network reads the label as a number.
  virtual void set_classes(std::uint64_t /*count*/) {}
};

// data.format must be one of config::data_formats(). Both arguments must outlive the parser.
std::unique_ptr<Format> make_format(const config::DataConfig& data, const Dictionary& dictionary);

// The parsers, each in its own file.
std::unique_ptr<Format> make_ngram(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_bow(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_multislot(const config::DataConfig& data,
                                       const Dictionary& dictionary);
std::unique_ptr<Format> make_libsvm(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_csv(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_criteo(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_jsonl(const config::DataConfig& data, const Dictionary& dictionary);

// Reader of the label in a line of bow, libsvm or Criteo: a class, given by its name in
// `data.labels` or as a whole number from 0, or a float.
class LabelReader {
 public:
  explicit LabelReader(const config::DataConfig& data)
      : as_float_(data.float_label), names_(data.labels) {}
  Status append(std::string_view text, RecordBlock& block) const;
  // The same, but with two classes "-1" stands for class 0, as in libsvm. With more classes "-1" is
  // the name of a class, which must be in `data.labels`. A label that is a float stays -1. Sets
  // block.zero_label, because a file with both "-1" and "0" has more than two classes.
  Status append_signed(std::string_view text, RecordBlock& block) const;
  void set_classes(std::uint64_t count) { classes_ = count; }

 private:
  std::uint64_t classes_ = 2;
  bool as_float_;
  ClassNames names_;
};

// Npz has no lines: the slots of its records are arrays of numbers.

// Appends a record of the chunk, whose slots are those of `data`. kData: an id is not a whole
// number from 0, or a number is not a finite float32 nor marked as missing; the caller drops the
// values left at the end of the block. `classes`: the names of classes, by slot.
Status append_numbers(const config::DataConfig& data, std::span<const ClassNames> classes,
                      const Chunk& chunk, std::uint64_t record, RecordBlock& block);

}  // namespace paddle::data
