// Warnings about the numbers in a trainer's first records: about columns whose numbers are far
// larger than others', from which most networks learn badly, and about empty fields, read as 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/data/record_block.h"
#include "engine/nn/batch.h"

namespace paddle::data {

class NumberNotes {
 public:
  // Slots that are labels in `rules`, and those whose numbers are prepared, are left out.
  NumberNotes(const config::DataConfig& data, std::span<const nn::SlotRule> rules);

  // Whether enough records were added.
  bool is_done() const {
    return records_ >= kRecordsMax || records_ * columns_.size() >= kNumbersMax;
  }
  void add(const RecordBlock& block);
  // Each warning is a sentence that ends with a next step.
  std::vector<std::string> warnings() const;

 private:
  static constexpr std::uint64_t kRecordsMax = 10000;
  static constexpr std::uint64_t kNumbersMax = 10'000'000;

  struct Column {
    std::string name;
    std::size_t place = 0;  // index in a record's values
    double sum = 0;         // sum of absolute values
  };
  void add_columns(const config::DataConfig& data, const config::SlotConfig& slot,
                   std::size_t place);
  std::string large_columns() const;
  std::string empty_fields() const;

  std::vector<std::string> field_names_;  // in the order of RecordBlock::empty_fields
  std::vector<Column> columns_;
  std::vector<std::uint64_t> empty_fields_;
  std::uint64_t records_ = 0;
};

}  // namespace paddle::data
