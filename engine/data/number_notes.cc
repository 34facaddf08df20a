#include "engine/data/number_notes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paddle::data {
namespace {

// The size of a column is the mean of its absolute values. A column gives a warning if its size is
// above kLargeAlone, or above kLarge and above kTimesOthers times the median of the other columns.
constexpr double kLarge = 100;
constexpr double kLargeAlone = 1000;
constexpr double kTimesOthers = 100;
constexpr std::size_t kColumnsShown = 5;

// The median of sorted sizes without one that equals `size`; 0 if there is no other.
double median_of_others(const std::vector<double>& sorted, double size) {
  if (sorted.size() < 2) return 0;
  const auto rank = std::ranges::lower_bound(sorted, size) - sorted.begin();
  const auto middle = static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  return sorted[static_cast<std::size_t>(middle < rank ? middle : middle + 1)];
}

// The size rounded to two digits: "29000".
std::string rounded(double size) {
  const double unit = std::pow(10, std::floor(std::log10(size)) - 1);
  return fmt::format("{:.6g}", std::round(size / unit) * unit);
}

std::string list_of(std::vector<std::string> names) {
  const std::size_t more = names.size() > kColumnsShown ? names.size() - kColumnsShown : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

bool is_prepared(const config::DataConfig& data, const std::string& slot) {
  const auto found = std::ranges::find(data.slots, slot, &config::DataSlotConfig::name);
  return found != data.slots.end() && found->is_prepared();
}

}  // namespace

NumberNotes::NumberNotes(const config::DataConfig& data, std::span<const nn::SlotRule> rules)
    : field_names_(data.columns) {
  if (field_names_.empty()) {
    for (const config::DataSlotConfig& slot : data.slots) field_names_.push_back(slot.name);
  }
  empty_fields_.resize(field_names_.size());
  const auto slots = config::data_slots(data);
  if (std::ranges::any_of(slots, &config::SlotConfig::weighted) || data.format == "criteo") return;
  std::size_t place = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool is_label = std::ranges::any_of(
        rules, [&](const nn::SlotRule& rule) { return rule.is_label && rule.slot == i; });
    if (!is_label && !is_prepared(data, slots[i].name)) add_columns(data, slots[i], place);
    place += slots[i].width;
  }
}

void NumberNotes::add_columns(const config::DataConfig& data, const config::SlotConfig& slot,
                              std::size_t place) {
  const auto found = std::ranges::find(data.slots, slot.name, &config::DataSlotConfig::name);
  for (std::size_t i = 0; i < slot.width; ++i) {
    std::string name = slot.width == 1 ? slot.name : fmt::format("{}[{}]", slot.name, i);
    if (found != data.slots.end() && i < found->columns.size())
      name = data.columns[found->columns[i]];
    columns_.push_back({.name = std::move(name), .place = place + i});
  }
}

void NumberNotes::add(const RecordBlock& block) {
  for (const RecordBlock::Extent& extent : block.records) {
    ++records_;
    const std::span<const float> values = block.view(extent).values;
    for (Column& column : columns_)
      column.sum += std::abs(static_cast<double>(values[column.place]));
  }
  for (std::size_t i = 0; i < block.empty_fields.size() && i < empty_fields_.size(); ++i)
    empty_fields_[i] += block.empty_fields[i];
}

std::string NumberNotes::large_columns() const {
  std::vector<double> sizes;
  for (const Column& column : columns_) sizes.push_back(column.sum / static_cast<double>(records_));
  std::vector<double> sorted = sizes;
  std::ranges::sort(sorted);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool is_large =
        sizes[i] > kLargeAlone ||
        (sizes[i] > kLarge && sizes[i] > kTimesOthers * median_of_others(sorted, sizes[i]));
    if (is_large)
      names.push_back(fmt::format("{} (about {})", columns_[i].name, rounded(sizes[i])));
  }
  if (names.empty()) return "";
  return fmt::format(
      "the numbers of {} are large: a network trains poorly on columns of very different scale; "
      "scale them with normalize = \"standard\" in their slots",
      list_of(std::move(names)));
}

std::string NumberNotes::empty_fields() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < empty_fields_.size(); ++i) {
    if (empty_fields_[i] > 0)
      names.push_back(fmt::format("{} ({})", field_names_[i], empty_fields_[i]));
  }
  if (names.empty()) return "";
  return fmt::format(
      "empty fields were read as 0, in the first {} records those of {}; if 0 has another meaning, "
      "set missing = \"mean\" in their slots, and missing_indicator = true to mark them",
      records_, list_of(std::move(names)));
}

std::vector<std::string> NumberNotes::warnings() const {
  std::vector<std::string> warnings;
  if (records_ == 0) return warnings;
  for (std::string one : {large_columns(), empty_fields()}) {
    if (!one.empty()) warnings.push_back(std::move(one));
  }
  return warnings;
}

}  // namespace paddle::data
