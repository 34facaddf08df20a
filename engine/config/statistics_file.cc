#include "engine/config/statistics_file.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/json_reader.h"

namespace paddle::config {
namespace {

constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kFileBucketsMax = 1U << 16U;  // of a column
constexpr const char* kMakeAgain = "make the file again: paddle statistics";

Error wrong_file(std::string message) {
  return {Errc::kData, std::move(message), kMakeAgain};
}

Error wrong_key(std::string_view key, std::string_view expected) {
  return wrong_file(fmt::format("'{}' must be {}", key, expected));
}

// The value of a key of an object; null if it has none.
const JsonValue* member(const JsonValue& object, std::string_view key) {
  const JsonValue* at = object.items();
  for (std::size_t i = 0; i < object.size(); ++i, at = at->next()->next()) {
    if (at->text() == key) return at->next();
  }
  return nullptr;
}

Status read_number(const JsonValue& object, std::string_view key, double& number) {
  const JsonValue* const value = member(object, key);
  if (value == nullptr || !value->is_number() || !std::isfinite(value->number()))
    return wrong_key(key, "a finite number");
  number = value->number();
  return {};
}

Status read_count(const JsonValue& object, std::string_view key, std::uint64_t& count) {
  constexpr double kMax = 9007199254740992.0;  // 2^53
  double number = 0;
  if (!read_number(object, key, number) || number < 0 || number > kMax ||
      std::floor(number) != number)
    return wrong_key(key, "a whole number");
  count = static_cast<std::uint64_t>(number);
  return {};
}

// The items of the list at `key`; a list that is absent is empty.
Result<std::vector<const JsonValue*>> items_of(const JsonValue& object, std::string_view key) {
  std::vector<const JsonValue*> items;
  const JsonValue* const list = member(object, key);
  if (list == nullptr) return items;
  if (!list->is_list()) return wrong_key(key, "a list");
  const JsonValue* item = list->items();
  for (std::size_t i = 0; i < list->size(); ++i, item = item->next()) items.push_back(item);
  return items;
}

Result<ColumnStatistics> read_column(const JsonValue& object, std::uint32_t bucket_count) {
  if (!object.is_object()) return wrong_key("columns", "a list of objects");
  ColumnStatistics column;
  const JsonValue* const name = member(object, "name");
  if (name != nullptr && !name->is_text()) return wrong_key("name", "a text");
  if (name != nullptr) column.name = name->text();
  PADDLE_TRY_STATUS(read_count(object, "count", column.count));
  PADDLE_TRY_STATUS(read_count(object, "missing", column.missing));
  PADDLE_TRY_STATUS(read_number(object, "mean", column.mean));
  PADDLE_TRY_STATUS(read_number(object, "fill", column.fill));
  PADDLE_TRY_STATUS(read_number(object, "filled_mean", column.filled_mean));
  PADDLE_TRY_STATUS(read_number(object, "deviation", column.deviation));
  if (column.deviation < 0) return wrong_key("deviation", "a number from 0");
  PADDLE_TRY_STATUS(read_number(object, "minimum", column.minimum));
  PADDLE_TRY_STATUS(read_number(object, "maximum", column.maximum));
  PADDLE_TRY_STATUS(read_number(object, "quantile_error", column.quantile_error));
  PADDLE_TRY(const auto edges, items_of(object, "edges"));
  for (const JsonValue* const edge : edges) {
    if (!edge->is_number() || !std::isfinite(edge->number()) ||
        (!column.edges.empty() && edge->number() <= column.edges.back()))
      return wrong_key("edges", "a list of ascending numbers");
    column.edges.push_back(edge->number());
  }
  if (column.edges.size() > std::max(bucket_count, 1U) - 1)
    return wrong_key("edges", fmt::format("shorter than 'bucket', which is {}", bucket_count));
  return column;
}

Result<SlotStatistics> read_slot(const JsonValue& object) {
  const JsonValue* const name = object.is_object() ? member(object, "name") : nullptr;
  if (name == nullptr || !name->is_text())
    return wrong_key("slots", "a list of objects with a 'name'");
  SlotStatistics slot{.name = std::string(name->text())};
  if (member(object, "bucket") != nullptr) {
    std::uint64_t buckets = 0;
    if (!read_count(object, "bucket", buckets) || buckets < 2 || buckets > kFileBucketsMax) {
      return wrong_key("bucket", fmt::format("a whole number from 2 to {}", kFileBucketsMax))
          .with(fmt::format("slot '{}'", slot.name));
    }
    slot.bucket_count = static_cast<std::uint32_t>(buckets);
  }
  PADDLE_TRY(const auto columns, items_of(object, "columns"));
  for (const JsonValue* const column : columns) {
    auto read = read_column(*column, slot.bucket_count);
    if (!read) return std::move(read).error().with(fmt::format("slot '{}'", slot.name));
    slot.columns.push_back(*std::move(read));
  }
  PADDLE_TRY(const auto labels, items_of(object, "labels"));
  for (const JsonValue* const label : labels) {
    if (!label->is_text() || label->text().empty() ||
        (!slot.labels.empty() && label->text() <= slot.labels.back()))
      return wrong_key("labels", "a list of different texts, sorted by their bytes")
          .with(fmt::format("slot '{}'", slot.name));
    slot.labels.emplace_back(label->text());
  }
  if (!slot.columns.empty() && !slot.labels.empty())
    return wrong_key("labels", "of a slot without 'columns'")
        .with(fmt::format("slot '{}'", slot.name));
  return slot;
}

// 1 / width; a column without any difference stays as it is.
double scale_of(double width) {
  return width > 0 ? 1 / width : 1;
}

Result<ColumnFit> fit_of(const DataSlotConfig& slot, const ColumnStatistics& column) {
  if (slot.missing == Missing::kMean && column.count == 0) {
    return Error{Errc::kData, "no record has a number, so that there is no mean",
                 "leave the column out, or give a number in its place: missing = 0"};
  }
  const double fill = fill_of(slot, column.mean);
  if (fill != column.fill) {
    return wrong_file(
        fmt::format("it was made with another key 'missing': {} is in place of a missing number, "
                    "not {}",
                    column.fill, fill));
  }
  ColumnFit fit{.fill = fill, .edges = column.edges};
  if (slot.bucket_count == 0) fit.edges.assign(slot.bucket_edges.begin(), slot.bucket_edges.end());
  if (slot.normalize == Normalize::kStandard) {
    fit.offset = column.filled_mean;
    fit.scale = scale_of(column.deviation);
  } else if (slot.normalize == Normalize::kMinMax) {
    fit.offset = column.minimum;
    fit.scale = scale_of(column.maximum - column.minimum);
  }
  return fit;
}

std::string bucket_text(std::uint32_t count) {
  return count == 0 ? "no bucket = N" : fmt::format("bucket = {}", count);
}

// `names` are those of all csv columns; empty for other formats.
Status use_slot(const SlotStatistics& statistics, const std::vector<std::string>& names,
                DataSlotConfig& slot) {
  if (slot.learns_labels) {
    if (statistics.labels.empty() || statistics.labels.size() > kLabelsMax) {
      return Error{Errc::kData,
                   fmt::format("it has {} labels, but from 1 to {} are allowed",
                               statistics.labels.size(), kLabelsMax),
                   kMakeAgain};
    }
    slot.labels = statistics.labels;
    return {};
  }
  if (statistics.columns.size() != slot.width) {
    return Error{Errc::kData,
                 fmt::format("it has {} columns, but the slot has {}", statistics.columns.size(),
                             slot.width),
                 kMakeAgain};
  }
  if (statistics.bucket_count != slot.bucket_count) {
    return wrong_file(fmt::format("it was made with {}, but the slot has {}",
                                  bucket_text(statistics.bucket_count),
                                  bucket_text(slot.bucket_count)));
  }
  slot.fits.clear();
  for (std::size_t i = 0; i < statistics.columns.size(); ++i) {
    const ColumnStatistics& column = statistics.columns[i];
    const std::string name = i < slot.columns.size() ? names[slot.columns[i]] : "";
    if (!name.empty() && !column.name.empty() && name != column.name) {
      return wrong_file(
          fmt::format("column {} is '{}', but in the slot it is '{}'", i + 1, column.name, name));
    }
    auto fit = fit_of(slot, column);
    if (!fit) {
      return std::move(fit).error().with(name.empty() ? fmt::format("column {}", i + 1)
                                                      : fmt::format("column '{}'", name));
    }
    slot.fits.push_back(*std::move(fit));
  }
  return {};
}

std::string column_text(const ColumnStatistics& column) {
  const std::string name =
      column.name.empty() ? "" : fmt::format(R"("name":{},)", json_text(column.name));
  return fmt::format(
      R"({{{}"count":{},"missing":{},"mean":{},"fill":{},"filled_mean":{},"deviation":{},)"
      R"("minimum":{},"maximum":{},"edges":[{}],"quantile_error":{}}})",
      name, column.count, column.missing, column.mean, column.fill, column.filled_mean,
      column.deviation, column.minimum, column.maximum, fmt::join(column.edges, ","),
      column.quantile_error);
}

}  // namespace

std::string statistics_text(const DataStatistics& statistics) {
  std::vector<std::string> slots;
  for (const SlotStatistics& slot : statistics.slots) {
    std::string text = R"({"name":)" + json_text(slot.name);
    if (slot.bucket_count > 0) text += fmt::format(R"(,"bucket":{})", slot.bucket_count);
    if (slot.labels.empty()) {
      std::vector<std::string> columns;
      for (const ColumnStatistics& column : slot.columns) columns.push_back(column_text(column));
      text += fmt::format(R"(,"columns":[{}]}})", fmt::join(columns, ",\n "));
    } else {
      JsonArray labels;
      for (const std::string& label : slot.labels) labels.add(label);
      text += R"(,"labels":)" + labels.text() + "}";
    }
    slots.push_back(std::move(text));
  }
  return fmt::format(R"({{"format":{},"records":{},"slots":[)", kFormat, statistics.records) +
         (slots.empty() ? "" : "\n") + fmt::format("{}", fmt::join(slots, ",\n")) + "]}\n";
}

Result<DataStatistics> parse_statistics(std::string_view text) {
  if (text.starts_with(kPartMark)) {
    return Error{Errc::kData, "it is the part of one trainer, not the statistics of all",
                 "merge the parts: paddle statistics --merge --output=FILE PART..."};
  }
  JsonReader reader({});
  if (Status read = reader.read(text); !read) return wrong_file(read.error().message);
  const JsonValue& all = reader.object();
  std::uint64_t format = 0;
  PADDLE_TRY_STATUS(read_count(all, "format", format));
  if (format != kFormat) {
    return wrong_file(fmt::format("its format is {}, but this program reads {}", format, kFormat));
  }
  DataStatistics statistics;
  PADDLE_TRY_STATUS(read_count(all, "records", statistics.records));
  PADDLE_TRY(const auto slots, items_of(all, "slots"));
  for (const JsonValue* const slot : slots) {
    PADDLE_TRY(SlotStatistics read, read_slot(*slot));
    statistics.slots.push_back(std::move(read));
  }
  return statistics;
}

double fill_of(const DataSlotConfig& slot, double mean) {
  if (slot.missing == Missing::kMean) return mean;
  return slot.missing == Missing::kValue ? slot.missing_value : 0;
}

Status use_statistics(const DataStatistics& statistics, DataConfig& data) {
  for (DataSlotConfig& slot : data.slots) {
    if (!slot.used || !slot.needs_statistics()) continue;
    const auto found = std::ranges::find(statistics.slots, slot.name, &SlotStatistics::name);
    if (found == statistics.slots.end()) {
      return Error{Errc::kData, fmt::format("it has no statistics of slot '{}'", slot.name),
                   kMakeAgain};
    }
    if (Status used = use_slot(*found, data.columns, slot); !used)
      return std::move(used).error().with(fmt::format("slot '{}'", slot.name));
  }
  return {};
}

Status check_statistics(std::string_view text, DataConfig data) {
  PADDLE_TRY(const DataStatistics statistics, parse_statistics(text));
  return use_statistics(statistics, data);
}

}  // namespace paddle::config
