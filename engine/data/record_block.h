// Parsed records in a few shared arrays: no allocation per record, no copy on the way to a batch.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/data/chunk.h"
#include "engine/nn/batch.h"

namespace paddle::data {

// One example, slot after slot in the order of config::data_slots, or of config::raw_slots before
// it is prepared (engine/data/preparation.h). A slot of floats has as many
// values as its width; a slot of one id has an id; a slot of many has a count, that many ids, and
// as many values if its ids are weighted.
struct RecordView {
  std::span<const std::uint64_t> ids;
  std::span<const float> values;
  std::span<const std::uint32_t> counts;
};

// Removes the first `count` values from `from` and returns them.
template <class T>
std::span<const T> take_front(std::span<const T>& from, std::size_t count) {
  const std::span<const T> front = from.first(count);
  from = from.subspan(count);
  return front;
}

// How the label of a record of class 0 is written, if "-1" may stand for that class.
enum class ZeroLabel : std::uint8_t { kNone, kZero, kMinusOne };

// The first lines whose labels are "0" and "-1", counted from 1; 0: there is none.
struct ZeroLines {
  std::uint64_t zero = 0, minus_one = 0;
};

struct RecordBlock {
  // The parts of a record in the arrays; two records may overlap.
  struct Extent {
    std::uint32_t id = 0, ids = 0;  // index of the first, and number
    std::uint32_t value = 0, values = 0;
    std::uint32_t count = 0, counts = 0;
  };
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<std::uint32_t> counts;
  std::vector<Extent> records;
  ChunkPlace chunk_begin, chunk_end;
  std::uint64_t bad_records = 0;  // lines that were left out
  std::string first_bad_record;   // its error message
  // By column for csv, by slot for jsonl: how many fields of floats were empty and read as 0.
  std::vector<std::uint32_t> empty_fields;
  // By slot of DataConfig::slots, while the labels of labels = "learned" are not known: the texts
  // of these records. Empty: there are none.
  std::vector<std::set<std::string, std::less<>>> seen_labels;
  ZeroLabel zero_label = ZeroLabel::kNone;  // of the last line that was parsed
  ZeroLines zero_lines;                     // of the records
  Status outcome;  // the error after the last record, if one ended the block

  void clear();
  void count_empty(std::size_t field) {
    if (empty_fields.size() <= field) empty_fields.resize(field + 1);
    ++empty_fields[field];
  }
  // Notes a label of the record that is being appended; add_record() adds it to seen_labels.
  void see_label(std::size_t slot, std::string_view text) { new_labels_.emplace_back(slot, text); }
  // Bytes of the file that were read for this block, as compressed.
  std::uint64_t file_bytes() const { return chunk_end.position - chunk_begin.position; }
  // An extent that begins at the sizes of the arrays.
  Extent end() const;
  // The part of the arrays behind `from`, an earlier end().
  Extent extent_since(const Extent& from) const;
  // Makes a record of everything that was appended since `from`.
  void add_record(const Extent& from);
  void drop_since(const Extent& from);
  RecordView view(const Extent& extent) const {
    return {{ids.data() + extent.id, extent.ids},
            {values.data() + extent.value, extent.values},
            {counts.data() + extent.count, extent.counts}};
  }

 private:
  void add_new_labels();

  std::vector<std::pair<std::size_t, std::string>> new_labels_;  // slot and text
};

// A copy of a record.
struct Record {
  std::vector<std::uint64_t> ids;
  std::vector<float> values;
  std::vector<std::uint32_t> counts;

  void assign(const RecordView& view);  // keeps the memory
  RecordView view() const { return {ids, values, counts}; }
};

// An empty batch with memory for `size` examples.
nn::Batch empty_batch(const std::vector<config::SlotConfig>& slots, std::size_t size);
// Removes the examples of a batch and keeps its memory.
void clear(const std::vector<config::SlotConfig>& slots, nn::Batch& batch);
// Adds the record as an example. kData: a slot would have more ids than a batch can number.
Status append(const std::vector<config::SlotConfig>& slots, const RecordView& record,
              nn::Batch& batch);

}  // namespace paddle::data
