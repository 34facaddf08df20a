#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/base/fd.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;
constexpr std::int64_t kNgramMax = 64;
constexpr std::array<std::string_view, 2> kFormats{"ngram", "bow"};

Result<std::uint64_t> count_lines(const std::string& path) {
  auto text = read_file(path, kDictionaryBytesMax);
  if (!text) return std::move(text).error();
  const auto ends = std::ranges::count(*text, '\n');
  const bool open_end = !text->empty() && text->back() != '\n';
  return static_cast<std::uint64_t>(ends) + (open_end ? 1 : 0);
}

}  // namespace

DataConfig read_data(TomlTable data, const std::string& folder) {
  DataConfig config;
  require(data, "train", "[data]");
  require(data, "format", "[data]");
  require(data, "dictionary", "[data]");
  config.train = data.string("train");
  config.test = data.string("test");
  config.format = data.choice("format", "ngram", kFormats);
  config.dictionary = data.string("dictionary");
  config.ngram = read_count(data, "ngram", config.ngram, 2, kNgramMax);
  if (config.dictionary.empty()) return config;
  const std::string path =
      config.dictionary.starts_with('/') ? config.dictionary : folder + "/" + config.dictionary;
  const auto lines = count_lines(path);
  if (!lines) {
    data.fail("dictionary", lines.error().message, "a template's ./prepare script makes it");
  } else if (*lines == 0) {
    data.fail("dictionary", fmt::format("{} is empty", path), "its last line must be <unk>");
  } else {
    config.dictionary_size = *lines;
  }
  return config;
}

std::vector<SlotConfig> data_slots(const DataConfig& data) {
  if (data.format == "bow") return {{"words", 0}, {"label", 0}};
  std::vector<SlotConfig> slots;
  for (std::uint32_t i = 0; i + 1 < data.ngram; ++i) slots.push_back({fmt::format("word{}", i), 0});
  slots.push_back({"next", 0});
  return slots;
}

}  // namespace paddle::config
