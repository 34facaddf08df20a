// Check of a record against the network's conditions on its slots.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/data/record_block.h"
#include "engine/nn/batch.h"

namespace paddle::data {

class RecordRules {
 public:
  // Leaves out rules that every record of `data` keeps, such as a rule for words of the dictionary.
  RecordRules(const config::DataConfig& data, std::span<const nn::SlotRule> rules);

  bool empty() const { return last_ == 0; }
  // kData: the record breaks a rule.
  Status check(const RecordView& record) const;

 private:
  struct Slot {
    config::SlotConfig config;
    std::vector<nn::SlotRule> rules;
  };

  Status check(const nn::SlotRule& rule, std::span<const std::uint64_t> ids,
               std::span<const float> values) const;

  std::vector<Slot> slots_;
  std::size_t last_ = 0;  // number of slots up to the last one with rules
  std::string labels_key_;
};

}  // namespace paddle::data
