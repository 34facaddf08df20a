// Prepares the numbers of records as the options of their slots say: fills missing ones in, scales
// them, marks those that were missing, and turns numbers into the ids of buckets.
//
// A record as a parser makes it has the slots of config::raw_slots, and NaN for a missing number of
// a slot with DataSlotConfig::marks_missing(); a prepared one has those of config::data_slots.
// Everything is computed in double and rounded once to float32; the bits are the same on every
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/data/record_block.h"

namespace paddle::data {

class Preparation {
 public:
  // REQUIRES: !lacks_statistics(data), unless `keeps_raw`: then prepare() only refuses records.
  explicit Preparation(const config::DataConfig& data, bool keeps_raw = false);

  // Prepares the records of the block from number `first` on, which must be the last ones in its
  // arrays. kData: a number is missing where missing = "refuse"; the caller drops the values and
  // records from `first` on.
  Status prepare(std::size_t first, RecordBlock& block);

 private:
  struct Column {
    config::Normalize normalize = config::Normalize::kNone;
    bool refuses_missing = false;
    config::ColumnFit fit = {};
    std::string name = {};  // of the csv column, or "dense[3]"
  };
  struct Slot {
    bool many = false;  // any number of ids
    bool has_indicator = false;
    std::uint32_t buckets = 0;         // 0: floats stay floats
    bool is_prepared = false;          // false: its floats stay as they are
    std::vector<Column> columns = {};  // of floats; empty: ids
  };

  void add_slot(const config::DataConfig& data, const config::DataSlotConfig& slot);
  Status check(std::span<const float> values) const;
  static float scaled(float value, const Column& column);
  void scale(float* value) const;
  void rebuild(std::span<RecordBlock::Extent> records, RecordBlock& block);
  static void add_floats(const Slot& slot, std::span<const float> values, RecordBlock& block);

  std::vector<Slot> slots_;  // in the order of a raw record
  bool keeps_raw_;
  bool is_empty_ = true;      // records stay as they are
  bool refuses_ = false;      // some column refuses missing numbers
  bool keeps_layout_ = true;  // no slot has indicators or buckets
  Record raw_;                // the input of rebuild()
};

}  // namespace paddle::data
