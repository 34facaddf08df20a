#include "engine/data/record_block.h"

#include <fmt/format.h>

namespace paddle::data {
namespace {

constexpr std::size_t kSlotIdsMax = 1U << 30U;  // in a batch

template <class T>
std::uint32_t size_of(const std::vector<T>& values) {
  return static_cast<std::uint32_t>(values.size());
}

template <class T>
void take(std::span<const T>& from, std::size_t count, std::vector<T>& to) {
  const std::span<const T> front = take_front(from, count);
  to.insert(to.end(), front.begin(), front.end());
}

}  // namespace

void RecordBlock::clear() {
  ids.clear();
  values.clear();
  counts.clear();
  records.clear();
  chunk_begin = chunk_end = {};
  bad_records = 0;
  first_bad_record.clear();
  empty_fields.clear();
  seen_labels.clear();
  new_labels_.clear();
  zero_label = ZeroLabel::kNone;
  zero_lines = {};
  outcome = Status();
}

RecordBlock::Extent RecordBlock::end() const {
  return {size_of(ids), 0, size_of(values), 0, size_of(counts), 0};
}

RecordBlock::Extent RecordBlock::extent_since(const Extent& from) const {
  return {from.id,    size_of(ids) - from.id,      from.value, size_of(values) - from.value,
          from.count, size_of(counts) - from.count};
}

void RecordBlock::add_record(const Extent& from) {
  records.push_back(extent_since(from));
  if (!new_labels_.empty()) add_new_labels();
}

void RecordBlock::add_new_labels() {
  for (auto& [slot, text] : new_labels_) {
    if (seen_labels.size() <= slot) seen_labels.resize(slot + 1);
    if (!seen_labels[slot].contains(text)) seen_labels[slot].insert(std::move(text));
  }
  new_labels_.clear();
}

void RecordBlock::drop_since(const Extent& from) {
  ids.resize(from.id);
  values.resize(from.value);
  counts.resize(from.count);
  new_labels_.clear();
}

void Record::assign(const RecordView& view) {
  ids.assign(view.ids.begin(), view.ids.end());
  values.assign(view.values.begin(), view.values.end());
  counts.assign(view.counts.begin(), view.counts.end());
}

nn::Batch empty_batch(const std::vector<config::SlotConfig>& slots, std::size_t size) {
  nn::Batch batch;
  batch.slots.resize(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].width > 0) {
      batch.slots[i].values.reserve(size * slots[i].width);
      continue;
    }
    batch.slots[i].ids.reserve(size);
    if (!slots[i].many) continue;
    batch.slots[i].offsets.reserve(size + 1);
    batch.slots[i].offsets.push_back(0);
  }
  return batch;
}

void clear(const std::vector<config::SlotConfig>& slots, nn::Batch& batch) {
  batch.size = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    nn::Slot& slot = batch.slots[i];
    slot.ids.clear();
    slot.weights.clear();
    slot.values.clear();
    if (slot.offsets.size() > 1) slot.offsets.erase(slot.offsets.begin() + 1, slot.offsets.end());
  }
}

Status append(const std::vector<config::SlotConfig>& slots, const RecordView& record,
              nn::Batch& batch) {
  RecordView rest = record;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    nn::Slot& slot = batch.slots[i];
    if (slots[i].width > 0) {
      take(rest.values, slots[i].width, slot.values);
      continue;
    }
    if (!slots[i].many) {
      slot.ids.push_back(rest.ids.front());
      rest.ids = rest.ids.subspan(1);
      continue;
    }
    const std::size_t count = rest.counts.front();
    rest.counts = rest.counts.subspan(1);
    take(rest.ids, count, slot.ids);
    if (slots[i].weighted) take(rest.values, count, slot.weights);
    if (slot.ids.size() > kSlotIdsMax) {
      return Error{
          Errc::kData,
          fmt::format("slot '{}' has over {} ids in one batch", slots[i].name, kSlotIdsMax),
          "lower [train] batch_size"};
    }
    slot.offsets.push_back(static_cast<std::uint32_t>(slot.ids.size()));
  }
  ++batch.size;
  return {};
}

}  // namespace paddle::data
