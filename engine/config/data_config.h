// [data] of job.toml: where the records are, and what slots they fill.
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
  kId,    // one whole number from 0 to 2^64-1; csv: one from each of its columns
  kIds,   // multislot: any number of them
  kHash,  // csv: a text as a 64-bit id
  kFloat
};

// [[data.slot]], for the formats that do not have slots of their own.
struct DataSlotConfig {
  std::string name;
  SlotType type = SlotType::kId;
  std::uint32_t width = 1;                  // kFloat: how many
  bool used = true;                         // multislot: false is read and passed over
  std::vector<std::uint32_t> columns = {};  // csv: indexes into DataConfig::columns
  char separator = 0;  // csv: between the ids of one field; 0: a field is one id

  bool has_many_ids() const {
    return type == SlotType::kIds ||
           (type != SlotType::kFloat && (separator != 0 || columns.size() > 1));
  }
};

struct DataConfig {
  std::string train;   // globs relative to the workspace: "data/train.txt-*"
  std::string test;    // may be empty
  std::string format;  // "ngram", "bow", "multislot", "libsvm", "csv" or "criteo"
  // A word a line; the id is the line number from 0; the last line is <unk>.
  std::string dictionary;
  std::uint64_t dictionary_size = 0;  // lines of the dictionary, filled in when the file is read
  std::uint32_t ngram = 5;            // ngram: words in a window, the last one is the label
  std::vector<DataSlotConfig> slots;  // multislot, csv
  std::vector<std::string> columns;   // csv: all of them, in the order of the file
  char delimiter = ',';               // csv
  bool has_header = false;            // csv: the first line of each file names the columns
  bool float_label = false;           // libsvm, criteo: the label is a float, else an id
  std::uint64_t buckets =
      0;  // libsvm, csv, criteo: indexes and hashes are taken mod this; 0: whole

  std::vector<std::string> pipe_command;   // reads a file on its stdin, prints records in `format`
  std::chrono::seconds pipe_timeout{600};  // without a byte from it
  std::uint32_t threads = 2;               // that read and parse
  std::uint32_t files_at_once = 1;         // whose records alternate; the order depends on it
  bool global_shuffle = false;             // a record's trainer changes from pass to pass
  bool skip_bad_records = false;           // and count them; else the first one ends the job
};

// What every example has under one name, as a format of [data] fills it.
struct SlotConfig {
  std::string name;
  std::uint32_t width = 0;  // floats of each example; 0: ids, one or any number of them
  bool many = false;        // any number of ids
  bool weighted = false;    // of which each has a weight
};

// What a format offers to the layers, in the order of nn::Batch.
std::vector<SlotConfig> data_slots(const DataConfig& data);

// The data files of one trainer, sorted by name, each "<workspace>/<name>": when all end in
// -<number>, before .gz or .zst, a file goes to number mod trainers; else, and with
// DataConfig::global_shuffle, all go to every trainer and `records_split` says that it takes its
// part of the lines only. No match is an empty share: a node holds its own trainer's files only.
struct DataShare {
  std::vector<std::string> files;
  bool records_split = false;
};
Result<DataShare> data_share(const std::string& workspace, const std::string& glob,
                             std::uint32_t trainer_id, std::uint32_t num_trainers,
                             bool global_shuffle = false);

}  // namespace paddle::config
