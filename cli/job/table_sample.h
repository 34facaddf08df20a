// The first records of a data file by column, from which `init --from` guesses a job.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kSampleBytesMax = 8U << 20U;  // read from the beginning of a file
constexpr std::size_t kSampleColumnsMax = 10'000;

// Texts that keep their place.
class TextPool {
 public:
  std::string_view keep(std::string_view text);

 private:
  std::deque<std::string> blocks_;
};

// A column of csv, a key of jsonl, an array of npz, or the label of libsvm.
struct SampleColumn {
  std::string name;
  // The fields by record, numbers as the file writes them; "": the value is missing. If `width` is
  // not 1, each record has that many.
  std::vector<std::string_view> values = {};
  std::uint32_t width = 1;    // npz, jsonl: numbers of each record
  bool is_text = false;       // jsonl: a value is a text, so that no slot can read it as a number
  bool is_list = false;       // jsonl: lists of texts, joined by blanks
  std::string unusable = {};  // why no slot can read the column; "": one can
};

struct TableSample {
  std::string format;  // of [data]: "csv", "jsonl", "npz" or "libsvm"
  std::vector<SampleColumn> columns;
  std::uint64_t records = 0;         // in the sample
  std::uint64_t records_all = 0;     // in the file; an estimate unless `is_whole`
  std::uint64_t bytes = 0;           // of the file
  std::uint64_t sample_bytes = 0;    // read
  bool is_whole = false;             // the sample has every record
  char delimiter = ',';              // csv
  bool has_header = false;           // csv
  bool is_header_sure = true;        // csv
  std::uint64_t feature_max = 0;     // libsvm: the largest index
  TextPool source = {}, texts = {};  // memory of the values
};

// Reads at most kSampleBytesMax of a regular file, whatever its size. `shown` is its name in
// messages. kUsage: the file does not exist. kData: it is empty, compressed, binary or not UTF-8, a
// line cannot be read, it has one column or fewer than 20 records, or two columns have one name;
// the message names the file and, for a line, its number.
Result<TableSample> sample_table(const std::string& path, const std::string& shown);

// The same for a file with these bytes, all or its beginning, that is no npz.
Result<TableSample> sample_text(std::string text, std::uint64_t file_bytes,
                                const std::string& shown);

// Whether the text is a finite number as the engine reads it: "5", "+1e-3".
bool is_number(std::string_view text);

}  // namespace paddle::cli
