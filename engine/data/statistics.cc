#include "engine/data/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "engine/data/objects.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kRecordsMax = 1ULL << 53U;  // a whole number that the file can hold
constexpr std::uint32_t kTextBytesMax = 1U << 20U;  // of a name or label
constexpr std::uint32_t kBucketsMax = 1U << 16U;    // of a column
constexpr double kBucketWidthMin = 1e-8;            // as scikit-learn's KBinsDiscretizer

std::size_t distinct_max_of(std::size_t columns) {
  const std::size_t each = std::bit_floor(kDistinctOfAllMax / std::max<std::size_t>(columns, 1));
  return std::clamp<std::size_t>(each, 2, kDistinctMax);
}

// A part is read field by field from its front. Each returns kData if it is not there.
Error damaged() {
  return {Errc::kData, "it is damaged", "make it again"};
}

template <class T>
Status take(ByteSpan& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return damaged();
  value = load_le<T>(bytes.data());
  bytes = bytes.subspan(sizeof(T));
  return {};
}

Status take(ByteSpan& bytes, double& value) {
  std::uint64_t bits = 0;
  PADDLE_TRY_STATUS(take(bytes, bits));
  value = std::bit_cast<double>(bits);
  return {};
}

Status take(ByteSpan& bytes, float& value) {
  std::uint32_t bits = 0;
  PADDLE_TRY_STATUS(take(bytes, bits));
  value = std::bit_cast<float>(bits);
  return {};
}

void append_text(std::string_view text, Bytes& bytes) {
  append_le(bytes, static_cast<std::uint32_t>(text.size()));
  append_bytes(bytes, as_bytes(text));
}

Status take_text(ByteSpan& bytes, std::string& text) {
  std::uint32_t size = 0;
  PADDLE_TRY_STATUS(take(bytes, size));
  if (size > kTextBytesMax || size > bytes.size()) return damaged();
  text = as_text(bytes.first(size));
  bytes = bytes.subspan(size);
  return {};
}

Status take_keys(ByteSpan& bytes, std::size_t distinct_max, ValueHistogram::Keys& keys) {
  std::uint32_t dropped_bits = 0, size = 0;
  PADDLE_TRY_STATUS(take(bytes, dropped_bits));
  PADDLE_TRY_STATUS(take(bytes, size));
  keys.dropped_bits = dropped_bits;
  if (size > bytes.size() / (sizeof(std::uint32_t) + sizeof(std::uint64_t))) return damaged();
  keys.keys.resize(size);
  keys.counts.resize(size);
  for (std::uint32_t& key : keys.keys) PADDLE_TRY_STATUS(take(bytes, key));
  for (std::uint64_t& count : keys.counts) PADDLE_TRY_STATUS(take(bytes, count));
  return ValueHistogram::are_keys(keys, distinct_max) ? Status() : damaged();
}

// Adds counts up to `sum` only. Returns whether there are `sum` in all.
bool have_sum(const std::vector<std::uint64_t>& counts, std::uint64_t sum) {
  for (const std::uint64_t count : counts) {
    if (count > sum) return false;
    sum -= count;
  }
  return sum == 0;
}

// The inner edges of buckets: the quantiles without the first and the last, and without those that
// would make a bucket of no width, as KBinsDiscretizer leaves them out.
std::vector<double> inner_edges(const std::vector<double>& quantiles) {
  std::vector<double> edges;
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    if (i == 0 || quantiles[i] - quantiles[i - 1] > kBucketWidthMin) edges.push_back(quantiles[i]);
  }
  if (edges.size() < 3) return {};
  return {edges.begin() + 1, edges.end() - 1};
}

}  // namespace

bool Statistics::Slot::is_like(const Slot& other) const {
  return name == other.name && missing == other.missing &&
         std::bit_cast<std::uint64_t>(missing_value) ==
             std::bit_cast<std::uint64_t>(other.missing_value) &&
         bucket_count == other.bucket_count && learns_labels == other.learns_labels &&
         std::ranges::equal(columns, other.columns, {}, &Column::name, &Column::name);
}

bool Statistics::Slot::has_too_many_labels() const {
  return labels.size() > config::kLabelsMax || label_bytes > kLabelBytesMax;
}

Statistics::Statistics(const config::DataConfig& data) {
  std::size_t place = 0, with_quantiles = 0;
  for (std::size_t i = 0; i < data.slots.size(); ++i) {
    const config::DataSlotConfig& slot = data.slots[i];
    if (!slot.used) continue;
    const std::size_t first = place;
    const bool is_float = slot.type == config::SlotType::kFloat;
    if (is_float) place += slot.width;
    if (!slot.needs_statistics()) continue;
    slots_.push_back({.name = slot.name,
                      .missing = slot.missing,
                      .missing_value = slot.missing_value,
                      .bucket_count = slot.bucket_count,
                      .learns_labels = slot.learns_labels,
                      .place = is_float ? first : i,
                      .columns = std::vector<Column>(is_float ? slot.width : 0),
                      .labels = {}});
    for (std::size_t j = 0; is_float && j < slot.columns.size(); ++j)
      slots_.back().columns[j].name = data.columns[slot.columns[j]];
    if (slot.bucket_count > 0) with_quantiles += slot.width;
  }
  distinct_max_ = distinct_max_of(with_quantiles);
  for (Slot& slot : slots_) {
    for (Column& column : slot.columns) {
      if (slot.bucket_count > 0) column.histogram.emplace(distinct_max_);
    }
  }
}

void Statistics::add_label(std::string_view label, Slot& slot) {
  if (slot.has_too_many_labels() || slot.labels.contains(label)) return;
  slot.labels.emplace(label);
  slot.label_bytes += label.size();
}

namespace {

// Some columns of records of one block. They are read together, so that additions to one column
// need not wait for each other.
constexpr std::size_t kColumnsAtOnce = 8;

struct ColumnGroup {
  std::array<NumberBins, kColumnsAtOnce> bins;
  std::array<float, kColumnsAtOnce> minima, maxima;  // of the numbers that are not NaN

  // Adds the numbers of `places`, counted from the first number of each record.
  void read(const RecordBlock& block, std::span<const RecordBlock::Extent> records,
            std::span<const std::size_t> places) {
    minima.fill(std::numeric_limits<float>::infinity());
    maxima.fill(-std::numeric_limits<float>::infinity());
    for (const RecordBlock::Extent& record : records) {
      const float* const numbers = block.values.data() + record.value;
      for (std::size_t i = 0; i < places.size(); ++i) {
        const float number = numbers[places[i]];
        bins[i].add(number);
        minima[i] = std::min(minima[i], number);
        maxima[i] = std::max(maxima[i], number);
      }
    }
  }
};

}  // namespace

void Statistics::add_numbers(const RecordBlock& block) {
  std::vector<Column*> columns;
  std::vector<std::size_t> places;
  for (Slot& slot : slots_) {
    for (Column& column : slot.columns) {
      places.push_back(slot.place + static_cast<std::size_t>(&column - slot.columns.data()));
      columns.push_back(&column);
    }
  }
  const auto group = std::make_unique<ColumnGroup>();
  std::vector<float> numbers;
  for (std::size_t first = 0; first < block.records.size(); first += NumberBins::kNumbersMax) {
    const auto rest = std::span(block.records).subspan(first);
    const auto records = rest.first(std::min(rest.size(), NumberBins::kNumbersMax));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::size_t in_group = i % kColumnsAtOnce;
      if (in_group == 0) {
        group->read(block, records,
                    std::span(places).subspan(i, std::min(columns.size() - i, kColumnsAtOnce)));
      }
      Column& column = *columns[i];
      if (column.histogram) {
        numbers.clear();
        for (const RecordBlock::Extent& record : records) {
          const float number = block.values[record.value + places[i]];
          if (!std::isnan(number)) numbers.push_back(number);
        }
      }
      const std::scoped_lock lock(column.lock.mutex);
      const ExactMoments::Counts counts = column.moments.add(group->bins[in_group]);
      column.count += counts.numbers;
      column.missing += counts.missing;
      // Without -0, which is neither below nor above 0.
      column.minimum = std::min(column.minimum, group->minima[in_group]) + 0.0F;
      column.maximum = std::max(column.maximum, group->maxima[in_group]) + 0.0F;
      if (column.histogram) column.histogram->add(numbers);
    }
  }
}

void Statistics::add(const RecordBlock& block) {
  add_numbers(block);
  const std::scoped_lock lock(lock_.mutex);
  records_ += block.records.size();
  for (Slot& slot : slots_) {
    if (!slot.learns_labels || slot.place >= block.seen_labels.size()) continue;
    for (const std::string& label : block.seen_labels[slot.place]) add_label(label, slot);
  }
}

Status Statistics::merge(const Statistics& other) {
  const auto are_like = [](const Slot& a, const Slot& b) { return a.is_like(b); };
  if (!std::ranges::equal(slots_, other.slots_, are_like)) {
    return Error{Errc::kData, "it is of other slots, or of slots with other keys",
                 "make all parts with the same job.toml and --set"};
  }
  if (other.records_ > kRecordsMax - records_)
    return Error{Errc::kData, "the parts have over 2^53 records", "make them again"};
  records_ += other.records_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    for (const std::string& label : other.slots_[i].labels) add_label(label, slots_[i]);
    for (std::size_t j = 0; j < slots_[i].columns.size(); ++j) {
      Column& column = slots_[i].columns[j];
      const Column& added = other.slots_[i].columns[j];
      column.count += added.count;
      column.missing += added.missing;
      column.moments.add(added.moments);
      column.minimum = std::min(column.minimum, added.minimum);
      column.maximum = std::max(column.maximum, added.maximum);
      if (column.histogram) column.histogram->add(*added.histogram);
    }
  }
  return {};
}

config::ColumnStatistics Statistics::result_of(const Slot& slot, const Column& column) {
  config::ColumnStatistics result{
      .name = column.name, .count = column.count, .missing = column.missing};
  config::DataSlotConfig filled;
  filled.missing = slot.missing;
  filled.missing_value = slot.missing_value;
  result.mean = column.moments.moments(column.count, 0, 0).mean;
  result.fill = config::fill_of(filled, result.mean);
  const Moments moments = column.moments.moments(column.count, column.missing, result.fill);
  result.filled_mean = moments.mean;
  result.deviation = moments.deviation;
  // All that is missing has the same value in its place; the minimum of no number is infinite.
  result.minimum = column.count > 0 ? column.minimum : result.fill;
  result.maximum = column.count > 0 ? column.maximum : result.fill;
  if (column.missing > 0) {
    result.minimum = std::min(result.minimum, result.fill);
    result.maximum = std::max(result.maximum, result.fill);
  }
  if (!column.histogram || column.count + column.missing == 0) return result;
  const ValueHistogram::Counts counts = column.histogram->counts();
  result.edges =
      inner_edges(quantiles(counts.entries, column.missing, result.fill, slot.bucket_count));
  result.quantile_error = counts.relative_error;
  return result;
}

Result<config::DataStatistics> Statistics::result() const {
  if (records_ == 0) {
    return Error{Errc::kData, "the training data has no record",
                 "see whether the files of [data] train are empty, or all records are bad"};
  }
  config::DataStatistics all{.records = records_, .slots = {}};
  for (const Slot& slot : slots_) {
    if (slot.has_too_many_labels()) {
      return Error{Errc::kData,
                   fmt::format("slot '{}' has over {} labels, or over {} MiB of them", slot.name,
                               config::kLabelsMax, kLabelBytesMax >> 20U),
                   "a column of so many texts is no class: type = \"hash\" reads it"};
    }
    config::SlotStatistics found{
        .name = slot.name, .columns = {}, .labels = {}, .bucket_count = slot.bucket_count};
    found.labels.assign(slot.labels.begin(), slot.labels.end());
    for (const Column& column : slot.columns) found.columns.push_back(result_of(slot, column));
    all.slots.push_back(std::move(found));
  }
  return all;
}

// The form of a part.

void Statistics::append_column(const Column& column, Bytes& bytes) {
  append_text(column.name, bytes);
  append_le(bytes, column.count);
  append_le(bytes, column.missing);
  append_le(bytes, std::bit_cast<std::uint32_t>(column.minimum));
  append_le(bytes, std::bit_cast<std::uint32_t>(column.maximum));
  for (const std::int64_t digit : column.moments.digits()) append_le(bytes, digit);
  if (!column.histogram) return;
  const ValueHistogram::Keys keys = column.histogram->keys();
  append_le(bytes, keys.dropped_bits);
  append_le(bytes, static_cast<std::uint32_t>(keys.keys.size()));
  for (const std::uint32_t key : keys.keys) append_le(bytes, key);
  for (const std::uint64_t count : keys.counts) append_le(bytes, count);
}

void Statistics::append_to(Bytes& bytes) const {
  append_le(bytes, records_);
  append_le(bytes, static_cast<std::uint32_t>(distinct_max_));
  append_le(bytes, static_cast<std::uint32_t>(slots_.size()));
  for (const Slot& slot : slots_) {
    append_text(slot.name, bytes);
    append_le(bytes, static_cast<std::uint32_t>(slot.missing));
    append_le(bytes, std::bit_cast<std::uint64_t>(slot.missing_value));
    append_le(bytes, slot.bucket_count);
    append_le(bytes, std::uint32_t{slot.learns_labels});
    append_le(bytes, static_cast<std::uint32_t>(slot.columns.size()));
    for (const Column& column : slot.columns) append_column(column, bytes);
    append_le(bytes, static_cast<std::uint32_t>(slot.labels.size()));
    for (const std::string& label : slot.labels) append_text(label, bytes);
  }
}

Status Statistics::take_column(ByteSpan& bytes, std::size_t distinct_max, Column& column) {
  PADDLE_TRY_STATUS(take_text(bytes, column.name));
  PADDLE_TRY_STATUS(data::take(bytes, column.count));
  PADDLE_TRY_STATUS(data::take(bytes, column.missing));
  PADDLE_TRY_STATUS(data::take(bytes, column.minimum));
  PADDLE_TRY_STATUS(data::take(bytes, column.maximum));
  std::array<std::int64_t, ExactMoments::kDigits> digits{};
  for (std::int64_t& digit : digits) PADDLE_TRY_STATUS(data::take(bytes, digit));
  const bool has_range = column.count == 0
                             ? std::isinf(column.minimum) && std::isinf(column.maximum)
                             : std::isfinite(column.minimum) && std::isfinite(column.maximum) &&
                                   column.minimum <= column.maximum;
  if (!has_range || !ExactMoments::are_digits(digits)) return damaged();
  column.moments = ExactMoments::from_digits(digits);
  if (!column.histogram) return {};
  ValueHistogram::Keys keys;
  PADDLE_TRY_STATUS(take_keys(bytes, distinct_max, keys));
  if (!have_sum(keys.counts, column.count)) return damaged();
  column.histogram->add(keys);
  return {};
}

Status Statistics::take_labels(ByteSpan& bytes, Slot& slot) {
  std::uint32_t labels = 0;
  PADDLE_TRY_STATUS(data::take(bytes, labels));
  if (labels > config::kLabelsMax + 1) return damaged();
  for (std::uint32_t i = 0; i < labels; ++i) {
    std::string label;
    PADDLE_TRY_STATUS(take_text(bytes, label));
    add_label(label, slot);
  }
  return {};
}

Status Statistics::take_slot(ByteSpan& bytes, std::size_t distinct_max, Slot& slot) {
  constexpr std::size_t kColumnBytes = ExactMoments::kDigits * sizeof(std::int64_t);
  std::uint32_t missing = 0, learns_labels = 0, columns = 0;
  PADDLE_TRY_STATUS(take_text(bytes, slot.name));
  PADDLE_TRY_STATUS(data::take(bytes, missing));
  PADDLE_TRY_STATUS(data::take(bytes, slot.missing_value));
  PADDLE_TRY_STATUS(data::take(bytes, slot.bucket_count));
  PADDLE_TRY_STATUS(data::take(bytes, learns_labels));
  PADDLE_TRY_STATUS(data::take(bytes, columns));
  constexpr auto kMissingMax = static_cast<std::uint32_t>(config::Missing::kRefuse);
  if (missing > kMissingMax || learns_labels > 1 || !std::isfinite(slot.missing_value) ||
      slot.bucket_count > kBucketsMax || columns > bytes.size() / kColumnBytes)
    return damaged();
  slot.missing = static_cast<config::Missing>(missing);
  slot.learns_labels = learns_labels == 1;
  for (std::uint32_t i = 0; i < columns; ++i) {
    Column& column = slot.columns.emplace_back();
    if (slot.bucket_count > 0) column.histogram.emplace(distinct_max);
    PADDLE_TRY_STATUS(take_column(bytes, distinct_max, column));
  }
  return take_labels(bytes, slot);
}

Result<Statistics> Statistics::take(ByteSpan& bytes) {
  Statistics statistics;
  std::uint32_t distinct_max = 0, slots = 0;
  PADDLE_TRY_STATUS(data::take(bytes, statistics.records_));
  PADDLE_TRY_STATUS(data::take(bytes, distinct_max));
  PADDLE_TRY_STATUS(data::take(bytes, slots));
  if (statistics.records_ > kRecordsMax || distinct_max < 2 || distinct_max > kDistinctMax)
    return damaged();
  statistics.distinct_max_ = distinct_max;
  std::size_t with_quantiles = 0;
  for (std::uint32_t i = 0; i < slots; ++i) {
    Slot& slot = statistics.slots_.emplace_back();
    PADDLE_TRY_STATUS(take_slot(bytes, distinct_max, slot));
    if (slot.bucket_count > 0) with_quantiles += slot.columns.size();
    for (const Column& column : slot.columns) {
      if (column.count > statistics.records_ ||
          column.missing != statistics.records_ - column.count)
        return damaged();
    }
  }
  // Parts of one job have the same value, which histograms need to be added up.
  if (distinct_max != distinct_max_of(with_quantiles)) return damaged();
  return statistics;
}

Result<Statistics> observe_pass(DatasetOptions options, const Dictionary& dictionary) {
  Statistics statistics(options.data);
  options.cache = nullptr;
  options.rules = {};
  options.shuffle_records = 0;
  options.observe = [&statistics](const RecordBlock& block) { statistics.add(block); };
  const auto stream = open_pass(options, dictionary, 0);
  for (;;) {
    PADDLE_TRY(const auto batch, stream->next());
    if (!batch) return statistics;
  }
}

Result<Statistics> observe_training(const config::JobConfig& job, const std::string& folder,
                                    std::uint32_t trainer, std::uint32_t trainers) {
  DatasetOptions options{.data = job.data,
                         .share = {},
                         .folder = folder,
                         .trainer_id = trainer,
                         .num_trainers = trainers,
                         .seed = job.seed};
  PADDLE_TRY(options.share, find_share(job.data, folder, job.data.train, trainer, trainers,
                                       job.data.global_shuffle));
  // A trainer without a file adds no record.
  if (options.share.files.empty() && trainers == 1) {
    return Error{Errc::kData,
                 fmt::format("no file matches [data] train = '{}' in {}", job.data.train, folder),
                 "patterns are relative to that folder; a template's ./prepare makes its data"};
  }
  return observe_pass(std::move(options), Dictionary());
}

std::string held_out_text(const config::JobConfig& job) {
  const config::DataConfig& data = job.data;
  if (data.test_fraction == 0) return "no test_fraction";
  return fmt::format("test_fraction = {}, {}seed = {}", data.test_fraction,
                     data.split_by.empty() ? "" : fmt::format("split_by = \"{}\", ", data.split_by),
                     job.seed);
}

Bytes encode(const StatisticsPart& part) {
  Bytes bytes;
  append_bytes(bytes, as_bytes(config::kPartMark));
  append_le(bytes, part.trainer);
  append_le(bytes, part.trainers);
  append_text(part.held_out, bytes);
  part.statistics.append_to(bytes);
  append_le(bytes, crc32c(bytes));
  return bytes;
}

Result<StatisticsPart> decode_part(ByteSpan bytes) {
  const Error no_part{Errc::kData, "it is no part of statistics",
                      "paddle statistics makes parts, with --num_gradient_servers above 1"};
  if (!as_text(bytes).starts_with(config::kPartMark)) return no_part;
  if (bytes.size() < config::kPartMark.size() + sizeof(std::uint32_t)) return damaged();
  const ByteSpan content = bytes.first(bytes.size() - sizeof(std::uint32_t));
  if (load_le<std::uint32_t>(bytes.data() + content.size()) != crc32c(content)) return damaged();
  ByteSpan rest = content.subspan(config::kPartMark.size());
  StatisticsPart part;
  PADDLE_TRY_STATUS(take(rest, part.trainer));
  PADDLE_TRY_STATUS(take(rest, part.trainers));
  PADDLE_TRY_STATUS(take_text(rest, part.held_out));
  if (part.trainer >= part.trainers) return damaged();
  PADDLE_TRY(part.statistics, Statistics::take(rest));
  return rest.empty() ? Result(std::move(part)) : damaged();
}

}  // namespace paddle::data
