// The [data] section of job.toml: location and format of the records, and the slots they fill.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::config {

constexpr std::uint32_t kCriteoIntegers = 13;    // I1 .. I13, in the slot "dense"
constexpr std::uint32_t kCriteoCategories = 26;  // in the slots C1 .. C26

enum class SlotType {
  kId,      // one whole number from 0 to 2^64-1; csv: one from each of the slot's columns
  kIds,     // multislot, jsonl, npz: any number of ids
  kHash,    // csv, jsonl: a text as a 64-bit id
  kHashes,  // jsonl: any number of texts
  kFloat
};

// The number in place of a missing one: of an empty csv field, null or a missing key in JSON, NaN
// in npz, or a word such as NA.
enum class Missing {
  kZero,    // 0; words such as NA are bad records
  kValue,   // DataSlotConfig::missing_value
  kMean,    // the mean of the column in the training data
  kRefuse,  // a bad record
};

// How a number is scaled, after missing ones were filled in.
enum class Normalize {
  kNone,
  kStandard,  // (x - mean) / standard deviation, as scikit-learn's StandardScaler
  kMinMax,    // (x - minimum) / (maximum - minimum), as its MinMaxScaler
  kLog,       // sign(x) ln(1 + |x|); needs no statistics
};

// The constants by which one column of a slot of floats is prepared. They are those of the data in
// DataConfig::statistics, after missing values were filled in.
struct ColumnFit {
  double fill = 0;                 // in place of a missing number
  double offset = 0, scale = 1;    // y = (x - offset) * scale
  std::vector<double> edges = {};  // ascending; a number's bucket is the number of edges <= it
};

// [[data.slot]], for the formats without slots of their own.
struct DataSlotConfig {
  std::string name;
  SlotType type = SlotType::kId;
  std::uint32_t width = 1;                  // kFloat: number of floats
  bool used = true;                         // multislot: false drops its values
  std::vector<std::uint32_t> columns = {};  // csv: indexes into DataConfig::columns
  char separator = 0;  // csv: between the ids of one field; 0: a field is one id
  // kId, kIds: names that the data contains in place of the ids 0, 1, ...; empty: it contains ids.
  std::vector<std::string> labels = {};
  bool learns_labels = false;  // labels = "learned": those of the training data, sorted by name

  // kFloat: how its numbers are prepared.
  Missing missing = Missing::kZero;
  double missing_value = 0;
  bool missing_indicator = false;  // `width` more floats: 1 where a number was missing, else 0
  Normalize normalize = Normalize::kNone;
  std::uint32_t bucket_count = 0;        // bucket = N: buckets by quantiles; 0: none
  std::vector<float> bucket_edges = {};  // bucket = [...]
  std::vector<ColumnFit> fits = {};      // by column; empty: they are not known yet

  // The numbers become ids: column j's are j * buckets() + bucket.
  bool is_bucketed() const { return bucket_count > 0 || !bucket_edges.empty(); }
  std::uint32_t buckets() const {
    return bucket_count > 0 ? bucket_count : static_cast<std::uint32_t>(bucket_edges.size() + 1);
  }
  // Whether a missing number is read as NaN until it is filled in.
  bool marks_missing() const { return missing != Missing::kZero || missing_indicator; }
  // Whether records differ from what the parser reads.
  bool is_prepared() const {
    return marks_missing() || normalize != Normalize::kNone || is_bucketed();
  }
  // Whether constants or labels come from DataConfig::statistics.
  bool needs_statistics() const {
    return learns_labels || missing == Missing::kMean || bucket_count > 0 ||
           normalize == Normalize::kStandard || normalize == Normalize::kMinMax;
  }
  bool is_hashed() const { return type == SlotType::kHash || type == SlotType::kHashes; }
  bool has_many_ids() const {
    return type == SlotType::kIds || type == SlotType::kHashes ||
           (type != SlotType::kFloat && (separator != 0 || columns.size() > 1));
  }
};

struct DataConfig {
  // Globs relative to the workspace, "data/train.txt-*", or patterns for `command`.
  std::string train;
  std::string test;  // may be empty
  // The part of the training records that is held out for tests, 0 to 1; 0: none. All records with
  // the same text in `split_by`, a csv column or a key of jsonl, are held out together or not at
  // all; "": each record for itself.
  double test_fraction = 0;
  std::string split_by;
  std::string format;  // "ngram", "bow", "multislot", "libsvm", "csv", "jsonl", "npz" or "criteo"
  // One word per line; the id is the line number from 0; the last line is <unk>.
  std::string dictionary;
  std::uint64_t dictionary_size = 0;  // in lines
  // A slot with one float: the factor of an example's cost, 0 or more; "": all are 1.
  std::string weight;
  // A file that `paddle statistics` made of the training data: constants and labels of slots.
  std::string statistics;
  std::uint32_t ngram = 5;            // ngram: words in a window, the last one is the label
  std::vector<DataSlotConfig> slots;  // multislot, csv, jsonl, npz
  std::vector<std::string> columns;   // csv: every column in the order of the file
  char delimiter = ',';               // csv
  bool has_header = false;            // csv: the first line of each file names the columns
  bool trim = true;                   // csv: blanks around a field are not part of it
  bool float_label = false;           // libsvm, criteo: the label is a float, else an id
  // bow, libsvm, criteo: DataSlotConfig::labels of the slot "label".
  std::vector<std::string> labels;
  std::uint64_t buckets = 0;  // libsvm, csv, jsonl, criteo: modulus of indexes and hashes; 0: none

  // A program that lists and reads objects, which replace the data files.
  std::vector<std::string> command;
  std::vector<std::string> pipe_command;   // reads a file on its stdin, prints records in `format`
  std::chrono::seconds pipe_timeout{600};  // longest time without output of the pipe_command
  std::uint32_t threads = 2;               // readers and parsers
  std::uint32_t files_at_once = 1;         // number of files whose records alternate
  bool global_shuffle = false;             // a record's trainer changes from pass to pass
  bool cache = false;                      // keep parsed records for later passes
  std::uint64_t cache_bytes_max = 4ULL << 30U;
  bool skip_bad_records = false;  // count bad records; else the first one ends the job
};

// A named part of every example, as a format of [data] fills it.
struct SlotConfig {
  std::string name;
  std::uint32_t width = 0;  // floats of each example; 0: ids, one or any number of them
  bool many = false;        // any number of ids
  bool weighted = false;    // each id has a weight
  std::vector<std::string> labels = {};  // names of the ids 0, 1, ...; empty: no names
  bool hashed = false;                   // the ids are hashes of texts
  bool is_weight = false;                // DataConfig::weight
  std::uint64_t buckets = 0;             // hashed: all ids are below it; 0: any 64 bits
};

// The slots that layers can read, in the order of nn::Batch.
std::vector<SlotConfig> data_slots(const DataConfig& data);
// The slots as the parsers fill them, before their numbers are prepared.
std::vector<SlotConfig> raw_slots(const DataConfig& data);
// Whether a slot needs statistics that are not known yet.
bool lacks_statistics(const DataConfig& data);

// The data files of one trainer, sorted by name, each "<workspace>/<name>". If all names end in
// -<number>, before .npz, .gz, .zst, .bz2 or .xz, a file belongs to trainer <number> modulo
// `num_trainers`. Otherwise, and with DataConfig::global_shuffle, all files belong to every
// trainer, and `records_split` is set: each trainer takes only its part of the records. A share
// without files is no error: a node may store only the files of its own trainer.
struct DataShare {
  std::vector<std::string> files;
  bool records_split = false;
  std::uint64_t names_hash = 0;  // of the names of all objects; 0: the data is in files
};
Result<DataShare> data_share(const std::string& workspace, const std::string& glob,
                             std::uint32_t trainer_id, std::uint32_t num_trainers,
                             bool global_shuffle = false);
// data_share() of these files, or names of objects, in this order.
Result<DataShare> deal_files(std::vector<std::string> files, std::uint32_t trainer_id,
                             std::uint32_t num_trainers, bool global_shuffle = false);

}  // namespace paddle::config
