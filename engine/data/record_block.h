// Parsed records, many in a few arrays: no memory of their own, no copy on the way to a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/nn/batch.h"

namespace paddle::data {

// One example, slot after slot in the order of config::data_slots: a slot of floats has its width
// of values; a slot of one id has an id; a slot of many has a count, that many ids, and as many
// values if its ids are weighted.
struct RecordView {
  std::span<const std::uint64_t> ids;
  std::span<const float> values;
  std::span<const std::uint32_t> counts;
};

struct RecordBlock {
  // Where a record's parts are; two records may overlap.
  struct Place {
    std::uint32_t id = 0, ids = 0;  // the first, and how many
    std::uint32_t value = 0, values = 0;
    std::uint32_t count = 0, counts = 0;
  };
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<std::uint32_t> counts;
  std::vector<Place> records;
  std::uint64_t bad_records = 0;  // left out
  std::string first_bad_record;   // what is wrong with it
  Status outcome;                 // what ended the block, after its records

  void clear();
  // All that was appended since `from`, a Place with the sizes of the arrays, is one record.
  Place end() const;
  void add_record(const Place& from);
  void drop_since(const Place& from);
  RecordView view(const Place& place) const {
    return {{ids.data() + place.id, place.ids},
            {values.data() + place.value, place.values},
            {counts.data() + place.count, place.counts}};
  }
};

// A copy of a record.
struct Record {
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<std::uint32_t> counts;

  void assign(const RecordView& view);  // keeps the memory
  RecordView view() const { return {ids, values, counts}; }
};

// Room for `size` examples.
nn::Batch empty_batch(const std::vector<config::SlotConfig>& slots, std::size_t size);
// kData when a slot would have more ids than a batch can number.
Status append(const std::vector<config::SlotConfig>& slots, const RecordView& record,
              nn::Batch& batch);

}  // namespace paddle::data
