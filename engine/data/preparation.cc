#include "engine/data/preparation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/math/portable_math.h"

namespace paddle::data {
namespace {

constexpr double kSmall = 0x1p-24;

// ln(1 + x) for x >= 0. The sum loses the digits of a small x, of which two terms of the series are
// exact enough.
double logarithm_of_next(double x) {
  return x < kSmall ? x * (1 - x / 2) : kernels::logarithm(1 + x);
}

double filled(float value, const config::ColumnFit& fit) {
  return std::isnan(value) ? fit.fill : static_cast<double>(value);
}

// The number of edges that are at most the value: a search without branches, which would be
// mispredicted for most values.
std::uint64_t bucket_of(float value, const config::ColumnFit& fit) {
  const double number = filled(value, fit);
  const double* begin = fit.edges.data();
  for (std::size_t left = fit.edges.size(); left > 0;) {
    const std::size_t half = (left + 1) / 2;
    begin += begin[half - 1] <= number ? half : 0;
    left -= half;
  }
  return static_cast<std::uint64_t>(begin - fit.edges.data());
}

template <class T>
void add_all(std::span<const T> from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

float Preparation::scaled(float value, const Column& column) {
  const double number = filled(value, column.fit);
  if (column.normalize == config::Normalize::kLog)
    return static_cast<float>(std::copysign(logarithm_of_next(std::abs(number)), number));
  return static_cast<float>((number - column.fit.offset) * column.fit.scale);
}

Preparation::Preparation(const config::DataConfig& data, bool keeps_raw) : keeps_raw_(keeps_raw) {
  PADDLE_CHECK(keeps_raw || !config::lacks_statistics(data));
  for (const config::DataSlotConfig& slot : data.slots) {
    if (slot.used) add_slot(data, slot);
  }
}

void Preparation::add_slot(const config::DataConfig& data, const config::DataSlotConfig& slot) {
  const std::uint32_t width = slot.type == config::SlotType::kFloat ? slot.width : 0;
  Slot made{.many = slot.has_many_ids()};
  if (width > 0) {
    made.has_indicator = slot.missing_indicator;
    made.buckets = slot.is_bucketed() ? slot.buckets() : 0;
    made.is_prepared = slot.is_prepared();
  }
  for (std::uint32_t i = 0; i < width; ++i) {
    Column column{.normalize = slot.normalize,
                  .refuses_missing = slot.missing == config::Missing::kRefuse};
    if (i < slot.fits.size()) column.fit = slot.fits[i];
    column.name = i < slot.columns.size() ? data.columns[slot.columns[i]]
                  : slot.width == 1       ? slot.name
                                          : fmt::format("{}[{}]", slot.name, i);
    refuses_ = refuses_ || column.refuses_missing;
    made.columns.push_back(std::move(column));
  }
  keeps_layout_ = keeps_layout_ && !made.has_indicator && made.buckets == 0;
  is_empty_ = is_empty_ && !made.is_prepared;
  slots_.push_back(std::move(made));
}

Status Preparation::prepare(std::size_t first, RecordBlock& block) {
  if (is_empty_ || first == block.records.size()) return {};
  const std::span<RecordBlock::Extent> records = std::span(block.records).subspan(first);
  if (refuses_) {
    for (const RecordBlock::Extent& record : records)
      PADDLE_TRY_STATUS(check(block.view(record).values));
  }
  if (keeps_raw_) return {};
  if (!keeps_layout_) {
    rebuild(records, block);
    return {};
  }
  for (const RecordBlock::Extent& record : records) scale(block.values.data() + record.value);
  return {};
}

Status Preparation::check(std::span<const float> values) const {
  std::size_t place = 0;
  for (const Slot& slot : slots_) {
    for (const Column& column : slot.columns) {
      if (!std::isnan(values[place++]) || !column.refuses_missing) continue;
      return Error{Errc::kData, fmt::format("column '{}': the number is missing", column.name),
                   "missing = \"mean\", or a number, in the slot fills it in"};
    }
  }
  return {};
}

void Preparation::scale(float* value) const {
  for (const Slot& slot : slots_) {
    if (slot.is_prepared) {
      for (std::size_t i = 0; i < slot.columns.size(); ++i)
        value[i] = scaled(value[i], slot.columns[i]);
    }
    value += slot.columns.size();
  }
}

// Moves the records out of the arrays, and appends them as prepared ones.
void Preparation::rebuild(std::span<RecordBlock::Extent> records, RecordBlock& block) {
  const RecordBlock::Extent begin = records.front();
  raw_.ids.assign(block.ids.begin() + begin.id, block.ids.end());
  raw_.values.assign(block.values.begin() + begin.value, block.values.end());
  raw_.counts.assign(block.counts.begin() + begin.count, block.counts.end());
  block.drop_since(begin);
  RecordView rest = raw_.view();
  for (RecordBlock::Extent& record : records) {
    const RecordBlock::Extent from = block.end();
    for (const Slot& slot : slots_) {
      if (!slot.columns.empty()) {
        add_floats(slot, take_front(rest.values, slot.columns.size()), block);
        continue;
      }
      const std::size_t count = slot.many ? take_front(rest.counts, 1).front() : 1;
      add_all(take_front(rest.ids, count), block.ids);
      if (slot.many) block.counts.push_back(static_cast<std::uint32_t>(count));
    }
    record = block.extent_since(from);
  }
}

void Preparation::add_floats(const Slot& slot, std::span<const float> values, RecordBlock& block) {
  if (slot.buckets > 0) {
    const std::size_t first = block.ids.size();
    block.ids.resize(first + values.size());
    const std::span<std::uint64_t> ids = std::span(block.ids).subspan(first);
    for (std::size_t i = 0; i < values.size(); ++i)
      ids[i] = i * slot.buckets + bucket_of(values[i], slot.columns[i].fit);
    if (values.size() > 1) block.counts.push_back(static_cast<std::uint32_t>(values.size()));
    return;
  }
  const std::size_t first = block.values.size();
  block.values.resize(first + values.size() * (slot.has_indicator ? 2 : 1));
  const std::span<float> floats = std::span(block.values).subspan(first);
  for (std::size_t i = 0; i < values.size(); ++i)
    floats[i] = slot.is_prepared ? scaled(values[i], slot.columns[i]) : values[i];
  if (!slot.has_indicator) return;
  for (std::size_t i = 0; i < values.size(); ++i)
    floats[values.size() + i] = std::isnan(values[i]) ? 1.0F : 0.0F;
}

}  // namespace paddle::data
