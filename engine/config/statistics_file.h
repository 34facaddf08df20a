// The file of constants by which the columns of a job's data are prepared: a JSON text that `paddle
// statistics` makes of the training data, and that [data] statistics names.
//
//   {"format":1,"records":150,"slots":[
//   {"name":"age","columns":[{"name":"age","count":149,"missing":1,"mean":38.5,"fill":38.5,
//    "filled_mean":38.5,"deviation":13.6,"minimum":17,"maximum":90,"edges":[],
//    "quantile_error":0}]},
//   {"name":"pay","bucket":3,"columns":[{...,"edges":[28,47],"quantile_error":0}]},
//   {"name":"species","labels":["setosa","virginica"]}]}
//
// Numbers are the shortest texts that read back as the same double.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/data_config.h"

namespace paddle::config {

constexpr std::size_t kStatisticsBytesMax = 256U << 20U;
constexpr std::string_view kPartMark = "paddle statistics part 1\n";  // begins a trainer's part
constexpr std::size_t kLabelsMax = 1U << 16U;                         // of a slot

// One column of a slot of floats.
struct ColumnStatistics {
  std::string name = {};      // of the csv column; "" in other formats
  std::uint64_t count = 0;    // records that have a number
  std::uint64_t missing = 0;  // records without one
  double mean = 0;            // of the numbers that are there; 0 if there is none
  double fill = 0;            // in place of a missing number

  // These are of all records, with the missing numbers filled in.
  double filled_mean = 0;
  double deviation = 0;  // of the population: the root of the mean square
  double minimum = 0, maximum = 0;
  // bucket = N: at most N - 1 edges, ascending; a number's bucket is the number of edges <= it.
  std::vector<double> edges = {};
  double quantile_error = 0;  // largest relative error of an edge; 0: they are exact

  bool operator==(const ColumnStatistics&) const = default;
};

struct SlotStatistics {
  std::string name;
  std::vector<ColumnStatistics> columns = {};  // for floats, in the order of the record
  std::vector<std::string> labels = {};        // for labels = "learned", sorted by their bytes
  std::uint32_t bucket_count = 0;              // bucket = N, for which the edges are; 0: none

  bool operator==(const SlotStatistics&) const = default;
};

struct DataStatistics {
  std::uint64_t records = 0;
  std::vector<SlotStatistics> slots;

  bool operator==(const DataStatistics&) const = default;
};

std::string statistics_text(const DataStatistics& statistics);
// kData: the text is not that of such a file, or contains what no `paddle statistics` writes.
Result<DataStatistics> parse_statistics(std::string_view text);

// The number in place of a missing one, in a column whose other numbers have this mean.
double fill_of(const DataSlotConfig& slot, double mean);

// Sets the constants and labels of the slots that need statistics. kData: a slot has none, or they
// were made with other columns or keys; the message names the slot, and the caller adds the file.
Status use_statistics(const DataStatistics& statistics, DataConfig& data);
// Whether the text is that of a file of statistics for these slots. kData: as the two above.
Status check_statistics(std::string_view text, DataConfig data);

}  // namespace paddle::config
