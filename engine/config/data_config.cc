#include "engine/config/data_config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/named_rows.h"
#include "engine/config/format_config.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;
constexpr std::int64_t kThreadsMax = 64;
constexpr std::int64_t kFilesAtOnceMax = 64;
constexpr std::int64_t kPipeTimeoutMax = 7 * 24 * 3600;  // seconds
constexpr std::array<std::string_view, 2> kBadRecords{"fail", "skip"};

Result<std::uint64_t> count_lines(const std::string& path) {
  auto text = read_file(path, kDictionaryBytesMax);
  if (!text) return std::move(text).error();
  const auto ends = std::ranges::count(*text, '\n');
  const bool open_end = !text->empty() && text->back() != '\n';
  return static_cast<std::uint64_t>(ends) + (open_end ? 1 : 0);
}

void read_dictionary(TomlTable& data, const std::string& folder, DataConfig& config) {
  config.dictionary = data.string("dictionary");
  if (config.dictionary.empty()) return;
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
}

void read_reading(TomlTable& data, DataConfig& config) {
  config.pipe_command = data.strings("pipe_command");
  if (data.has("pipe_command") &&
      (config.pipe_command.empty() || config.pipe_command.front().empty())) {
    data.fail("pipe_command", "'pipe_command' names no program",
              "it is a list: the program and its arguments");
  }
  for (const std::string& argument : config.pipe_command) {
    if (argument.find('\0') != std::string::npos) {
      data.fail("pipe_command", "an argument holds a NUL byte");
    }
  }
  config.pipe_timeout = std::chrono::seconds(data.integer(
      "pipe_timeout", static_cast<std::int64_t>(config.pipe_timeout.count()), 1, kPipeTimeoutMax));
  config.threads = read_count(data, "threads", config.threads, 1, kThreadsMax);
  config.files_at_once =
      read_count(data, "files_at_once", config.files_at_once, 1, kFilesAtOnceMax);
  config.global_shuffle = data.boolean("global_shuffle", config.global_shuffle);
  config.skip_bad_records = data.choice("on_bad_record", "fail", kBadRecords) == "skip";
}

}  // namespace

DataConfig read_data(TomlTable data, const std::string& folder) {
  DataConfig config;
  require(data, "train", "[data]");
  require(data, "format", "[data]");
  config.train = data.string("train");
  config.test = data.string("test");
  config.format = data.choice("format", "ngram", row_names(data_formats()));
  find_row(data_formats(), config.format)->read(data, config);
  read_dictionary(data, folder, config);
  read_reading(data, config);
  return config;
}

std::vector<SlotConfig> data_slots(const DataConfig& data) {
  const DataFormat* const format = find_row(data_formats(), data.format);
  return format == nullptr ? std::vector<SlotConfig>() : format->slots(data);
}

}  // namespace paddle::config
