// Warnings about the numbers of a trainer's first records: of columns of very unlike sizes,
// which most networks learn badly from, and empty fields, which are read as 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/data/records/record_block.h"
#include "engine/nn/batch.h"

namespace paddle::data {

class NumberNotes {
 public:
  // Slots that `rules` have as labels are left out.
  NumberNotes(const config::DataConfig& data, std::span<const nn::SlotRule> rules);

  // Whether it has seen enough records.
  bool is_done() const {
    return records_ >= kRecordsMax || records_ * columns_.size() >= kNumbersMax;
  }
  void add(const RecordBlock& block);
  // A sentence and a next step each.
  std::vector<std::string> warnings() const;

 private:
  static constexpr std::uint64_t kRecordsMax = 10000;
  static constexpr std::uint64_t kNumbersMax = 10'000'000;

  struct Column {
    std::string name;
    std::size_t place = 0;  // of its number in a record's values
    double sum = 0;         // of absolute values
  };
  void add_columns(const config::DataConfig& data, const config::SlotConfig& slot,
                   std::size_t place);
  std::string large_columns() const;
  std::string empty_fields() const;

  std::vector<std::string> field_names_;  // as RecordBlock::empty_fields numbers them
  std::vector<Column> columns_;
  std::vector<std::uint64_t> empty_fields_;
  std::uint64_t records_ = 0;
};

}  // namespace paddle::data
