// Statistics of the training data: the constants by which columns are prepared, and the labels of
// slots that learn them. config/statistics_file.h has the file that they become.
//
// INVARIANT: the result has the same bits for any order of the records, and for any division of
// them into parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/config/statistics_file.h"
#include "engine/data/dataset.h"
#include "engine/data/exact_moments.h"
#include "engine/data/record_block.h"
#include "engine/data/value_histogram.h"

namespace paddle::data {

// The quantiles of a column are exact up to this number of different numbers in it. Where more than
// kDistinctOfAllMax / kDistinctMax columns have bucket = N, each gets an equal part of
// kDistinctOfAllMax, which bounds the memory.
constexpr std::size_t kDistinctMax = 1U << 16U;
constexpr std::size_t kDistinctOfAllMax = 1U << 24U;
constexpr std::size_t kLabelBytesMax = 16U << 20U;  // of all labels of a slot

class Statistics {
 public:
  Statistics() = default;
  // Statistics of the slots that need them.
  explicit Statistics(const config::DataConfig& data);

  // Adds records with the slots of config::raw_slots(data), in which NaN is a missing number.
  // Several threads may call this at once. REQUIRES: no number is infinite, as in every record of a
  // parser.
  void add(const RecordBlock& block);
  // Adds the records of another part. kData: it is of other slots, or of too many records.
  Status merge(const Statistics& other);

  // kData: there is no record, or a slot has too many labels.
  Result<config::DataStatistics> result() const;

  // The content in a form for another program, with numbers as little-endian integers.
  void append_to(Bytes& bytes) const;
  // Reads that form from the front of `bytes`, and removes it. kData: it is damaged. Allocates no
  // more than a small multiple of the bytes that are there, and kDistinctOfAllMax counts.
  static Result<Statistics> take(ByteSpan& bytes);

 private:
  // Guards what it stands in; a copy of that has a lock of its own.
  struct Lock {
    Lock() = default;
    Lock(const Lock& /*other*/) {}
    Lock& operator=(const Lock& /*other*/) { return *this; }

    std::mutex mutex;
  };
  struct Column {
    Lock lock = {};
    std::string name = {};  // config::ColumnStatistics::name
    std::uint64_t count = 0, missing = 0;
    ExactMoments moments;
    float minimum = std::numeric_limits<float>::infinity();
    float maximum = -std::numeric_limits<float>::infinity();
    std::optional<ValueHistogram> histogram;  // for quantiles
  };
  struct Slot {
    // The keys that the statistics depend on.
    std::string name;
    config::Missing missing = config::Missing::kZero;
    double missing_value = 0;
    std::uint32_t bucket_count = 0;
    bool learns_labels = false;

    std::size_t place = 0;  // of its numbers in a record; of the slot, for labels
    std::vector<Column> columns;
    std::set<std::string, std::less<>> labels;
    std::size_t label_bytes = 0;

    bool is_like(const Slot& other) const;
    bool has_too_many_labels() const;
  };

  void add_numbers(const RecordBlock& block);
  static void add_label(std::string_view label, Slot& slot);
  static config::ColumnStatistics result_of(const Slot& slot, const Column& column);
  static void append_column(const Column& column, Bytes& bytes);
  static Status take_column(ByteSpan& bytes, std::size_t distinct_max, Column& column);
  static Status take_slot(ByteSpan& bytes, std::size_t distinct_max, Slot& slot);
  static Status take_labels(ByteSpan& bytes, Slot& slot);

  Lock lock_;  // of records_ and of all labels
  std::uint64_t records_ = 0;
  std::size_t distinct_max_ = kDistinctMax;  // of each column
  std::vector<Slot> slots_;
};

// Reads the records of `options` once. kData: as BatchStream::next().
Result<Statistics> observe_pass(DatasetOptions options, const Dictionary& dictionary);
// Reads the training records of one trainer, with file names relative to `folder`. kData: no file
// matches [data] train, or as above.
Result<Statistics> observe_training(const config::JobConfig& job, const std::string& folder,
                                    std::uint32_t trainer, std::uint32_t trainers);

// The keys by which records are held out from training, "test_fraction = 0.1, seed = 1".
std::string held_out_text(const config::JobConfig& job);

// The statistics of one trainer's records, as a file.
struct StatisticsPart {
  std::uint32_t trainer = 0, trainers = 1;
  std::string held_out = {};  // held_out_text() of the job
  Statistics statistics;
};
constexpr std::size_t kPartBytesMax = 1U << 30U;
Bytes encode(const StatisticsPart& part);
// kData: the bytes are no such file, or a damaged one.
Result<StatisticsPart> decode_part(ByteSpan bytes);

}  // namespace paddle::data
