// What a line of a data file means. docs/job.md describes each format.
#pragma once

#include <memory>
#include <string_view>

#include "engine/data/dictionary.h"
#include "engine/data/record_block.h"

namespace paddle::data {

// One for each thread that parses: it may keep memory between lines.
class Format {
 public:
  virtual ~Format() = default;
  // Appends the records of a line, with their places. kData says what is wrong with it, without its
  // place; what it then left at the end of the block is the caller's to drop.
  virtual Status parse(std::string_view line, RecordBlock& block) = 0;
  // Whether the first line of each file is no record, and whether it says what was expected.
  virtual bool has_header() const { return false; }
  virtual Status check_header(std::string_view /*line*/) { return {}; }
};

// data.format is one of those that engine/config accepts. Both must outlive the format.
std::unique_ptr<Format> make_format(const config::DataConfig& data, const Dictionary& dictionary);

// One a file.
std::unique_ptr<Format> make_ngram(const config::DataConfig& data, const Dictionary& dictionary);
std::unique_ptr<Format> make_bow(const Dictionary& dictionary);
std::unique_ptr<Format> make_multislot(const config::DataConfig& data);
std::unique_ptr<Format> make_libsvm(const config::DataConfig& data);
std::unique_ptr<Format> make_csv(const config::DataConfig& data);
std::unique_ptr<Format> make_criteo(const config::DataConfig& data);

}  // namespace paddle::data
