#include "engine/config/data_config.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/named_rows.h"
#include "base/text_file.h"
#include "engine/config/sections.h"
#include "engine/config/statistics_file.h"

namespace paddle::config {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 50;
constexpr std::int64_t kThreadsMax = 64;
constexpr std::int64_t kFilesAtOnceMax = 64;
constexpr std::int64_t kPipeTimeoutMax = std::int64_t{7} * 24 * 3600;  // seconds
constexpr std::array<std::string_view, 2> kBadRecords{"fail", "skip"};

constexpr std::int64_t kNgramMax = 64;
constexpr std::int64_t kSlotWidthMax = 1 << 16;  // floats
constexpr std::int64_t kBucketsMax = 1 << 16;
constexpr std::uint64_t kConstantsMax = 1U << 22U;  // of all prepared numbers of a record
constexpr std::array<std::string_view, 2> kLabels{"id", "float"};
constexpr std::array<std::string_view, 3> kMultiSlotTypes{"id", "ids", "float"};  // npz's too
constexpr std::array<std::string_view, 3> kCsvTypes{"id", "hash", "float"};
constexpr std::array<std::string_view, 5> kJsonTypes{"id", "ids", "hash", "hashes", "float"};
constexpr std::array<std::string_view, 4> kScales{"none", "standard", "min_max", "log"};
constexpr std::array<std::string_view, 2> kMissingWays{"mean", "refuse"};
constexpr std::array<std::string_view, 4> kPreparationKeys{"normalize", "missing",
                                                           "missing_indicator", "bucket"};

// Reads one character; TOML's "\t" is a tab.
char read_character(TomlTable& table, std::string_view key, char fallback) {
  if (!table.has(key)) return fallback;
  const std::string text = table.string(key);
  const bool good = text.size() == 1 && text[0] != '"' && text[0] != '\n' && text[0] != '\r';
  if (good && text[0] != 0) return text[0];
  table.fail(key, fmt::format("'{}' must be one ASCII character, not a quote or a line end", key));
  return fallback;
}

// Reads names of classes, without duplicates.
std::vector<std::string> read_labels(TomlTable& table) {
  std::vector<std::string> labels = table.words("labels");
  std::set<std::string> seen;
  for (const std::string& label : labels) {
    if (label.empty()) table.fail("labels", "a label is empty");
    if (!seen.insert(label).second)
      table.fail("labels", fmt::format("the label '{}' occurs twice", label));
  }
  if (table.has("labels") && labels.empty()) table.fail("labels", "'labels' is empty");
  if (labels.size() > kLabelsMax)
    table.fail("labels",
               fmt::format("there are {} labels; the limit is {}", labels.size(), kLabelsMax));
  return labels;
}

SlotType slot_type(std::string_view word) {
  if (word == "ids") return SlotType::kIds;
  if (word == "hash") return SlotType::kHash;
  if (word == "hashes") return SlotType::kHashes;
  return word == "float" ? SlotType::kFloat : SlotType::kId;
}

using ColumnPlaces = std::map<std::string_view, std::uint32_t>;  // in DataConfig::columns

void read_columns(TomlTable& table, const DataConfig& data, const ColumnPlaces& places,
                  DataSlotConfig& slot) {
  std::vector<std::string> names = table.strings("columns");
  if (!table.has("columns")) names.push_back(slot.name);
  for (const std::string& name : names) {
    const auto found = places.find(name);
    if (found == places.end()) {
      table.fail(table.has("columns") ? "columns" : "name",
                 fmt::format("'{}' is not in [data] columns", name),
                 "they are " + listed(std::vector<std::string_view>(data.columns.begin(),
                                                                    data.columns.end())));
      break;
    }
    slot.columns.push_back(found->second);
  }
  if (names.empty()) table.fail("columns", "'columns' is empty");
  slot.width = static_cast<std::uint32_t>(slot.columns.size());
  slot.separator = read_character(table, "separator", 0);
  if (slot.separator != 0 && slot.type == SlotType::kFloat) {
    table.fail("separator",
               "'separator' applies to slots of ids; a slot of floats reads several columns");
  }
}

// Reads the labels of a slot: a list, or "learned".
void read_slot_labels(TomlTable& table, const DataConfig& data, DataSlotConfig& slot) {
  constexpr std::array<std::string_view, 1> kLearned{"learned"};
  if (!table.is_string("labels")) {
    slot.labels = read_labels(table);
    if (!slot.labels.empty() && slot.type != SlotType::kId && slot.type != SlotType::kIds) {
      table.fail("labels", "'labels' applies only to slots of ids",
                 "with type = \"id\" each label is a class");
    }
    return;
  }
  slot.learns_labels = table.choice("labels", "", kLearned) == "learned";
  if (slot.learns_labels && slot.type != SlotType::kId) {
    table.fail("labels", "labels = \"learned\" applies only to slots of type \"id\"",
               "with type = \"id\" each text of the training data is a class");
  } else if (slot.learns_labels && data.format != "csv" && data.format != "jsonl") {
    table.fail(
        "labels",
        fmt::format("labels = \"learned\" needs texts, but format '{}' has numbers", data.format),
        "list them: labels = [1, 2, 3]");
  }
}

void read_missing(TomlTable& table, DataSlotConfig& slot) {
  if (table.is_string("missing")) {
    const std::string word = table.choice("missing", "", kMissingWays);
    if (word == "mean") slot.missing = Missing::kMean;
    if (word == "refuse") slot.missing = Missing::kRefuse;
  } else if (table.has("missing")) {
    slot.missing = Missing::kValue;
    slot.missing_value = table.number("missing", 0, -double{kFloatMax}, double{kFloatMax});
  }
  slot.missing_indicator = table.boolean("missing_indicator", false);
  if (slot.missing_indicator && slot.missing == Missing::kRefuse) {
    table.fail("missing_indicator",
               "'missing_indicator' cannot be combined with missing = \"refuse\"",
               "with missing = \"mean\" or a number, records without the number are kept");
  }
}

void read_bucket(TomlTable& table, DataSlotConfig& slot) {
  if (!table.is_list("bucket")) {
    if (table.has("bucket")) slot.bucket_count = read_count(table, "bucket", 2, 2, kBucketsMax);
    return;
  }
  for (const double edge : table.numbers("bucket", kBucketsMax - 1)) {
    const auto rounded = static_cast<float>(edge);
    if (!(std::abs(edge) <= double{kFloatMax})) {
      table.fail("bucket", fmt::format("the edge {} is not a finite float32", edge));
    } else if (!slot.bucket_edges.empty() && rounded <= slot.bucket_edges.back()) {
      table.fail("bucket", fmt::format("the edge {} is not above the one before it", edge),
                 "list the edges from the smallest to the largest");
    }
    slot.bucket_edges.push_back(rounded);
  }
  if (slot.bucket_edges.empty()) {
    table.fail("bucket", "'bucket' has no edges",
               "bucket = [18, 65] makes three buckets, and bucket = 10 ten of similar size");
  }
}

// Reads how the numbers of a slot are prepared.
void read_preparation(TomlTable& table, DataSlotConfig& slot) {
  if (slot.type != SlotType::kFloat) {
    for (const std::string_view key : kPreparationKeys) {
      if (!table.has(key)) continue;
      table.fail(key, fmt::format("'{}' applies only to slots of floats", key),
                 "set type = \"float\"");
    }
    return;
  }
  read_missing(table, slot);
  if (table.has("normalize")) {
    const std::string word = table.choice("normalize", "none", kScales);
    slot.normalize = word == "log"        ? Normalize::kLog
                     : word == "min_max"  ? Normalize::kMinMax
                     : word == "standard" ? Normalize::kStandard
                                          : Normalize::kNone;
  }
  read_bucket(table, slot);
  if (!slot.is_bucketed()) return;
  if (slot.normalize != Normalize::kNone)
    table.fail("normalize", "'normalize' cannot be combined with 'bucket'",
               "a bucket does not depend on the scale; leave out one of the two");
  if (slot.missing_indicator)
    table.fail("missing_indicator", "'missing_indicator' cannot be combined with 'bucket'",
               "leave out one of the two");
}

// Sets the constants of a slot that needs no statistics. `constants`: how many all slots have.
void set_fits(TomlTable& table, DataSlotConfig& slot, std::uint64_t& constants) {
  if (!slot.is_prepared()) return;
  constants += slot.width * (1 + std::max<std::uint64_t>(slot.bucket_edges.size(), 1));
  if (constants > kConstantsMax) {
    return table.fail(slot.bucket_edges.empty() ? "type" : "bucket",
                      fmt::format("the numbers up to this slot are prepared by {} constants, but "
                                  "at most {} are allowed",
                                  constants, kConstantsMax),
                      "prepare fewer numbers, or with fewer edges");
  }
  if (slot.needs_statistics()) return;
  const std::vector<double> edges(slot.bucket_edges.begin(), slot.bucket_edges.end());
  slot.fits.assign(slot.width, {.fill = fill_of(slot, 0), .edges = edges});
}

void read_slots(TomlTable& data, DataConfig& config) {
  const bool is_csv = config.format == "csv";
  std::span<const std::string_view> types = kMultiSlotTypes;
  if (is_csv) types = kCsvTypes;
  if (config.format == "jsonl") types = kJsonTypes;
  ColumnPlaces places;
  for (std::uint32_t i = 0; i < config.columns.size(); ++i) places.emplace(config.columns[i], i);
  std::set<std::string> names;
  std::uint64_t constants = 0;
  for (TomlTable& table : data.tables("slot")) {
    DataSlotConfig slot;
    require(table, "name", "the slot");
    require(table, "type", "the slot");
    slot.name = table.string("name");
    slot.type = slot_type(table.choice("type", "id", types));
    if (is_csv) {
      read_columns(table, config, places, slot);
    } else {
      if (slot.type == SlotType::kFloat) {
        slot.width = read_count(table, "width", 1, 1, kSlotWidthMax);
      }
      if (config.format == "multislot") slot.used = table.boolean("used", true);
    }
    read_slot_labels(table, config, slot);
    read_preparation(table, slot);
    set_fits(table, slot, constants);
    if (!slot.name.empty() && !names.insert(slot.name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", slot.name));
    }
    config.slots.push_back(std::move(slot));
  }
  if (config.slots.empty()) {
    data.fail("slot", fmt::format("format '{}' has no slots of its own", config.format),
              "declare them with [[data.slot]]");
  }
  config.statistics = data.string("statistics");
}

void read_buckets(TomlTable& data, DataConfig& config) {
  config.buckets = static_cast<std::uint64_t>(data.integer("buckets", 0));
}

std::vector<SlotConfig> declared_slots(const DataConfig& data) {
  std::vector<SlotConfig> slots;
  for (const DataSlotConfig& slot : data.slots) {
    if (!slot.used) continue;
    slots.push_back({.name = slot.name,
                     .width = slot.type == SlotType::kFloat ? slot.width : 0,
                     .many = slot.has_many_ids(),
                     .labels = slot.labels,
                     .hashed = slot.is_hashed(),
                     .buckets = slot.is_hashed() ? data.buckets : 0});
  }
  return slots;
}

SlotConfig label_slot(const DataConfig& data) {
  return {.name = "label", .width = data.float_label ? 1U : 0U, .labels = data.labels};
}

void read_ngram(TomlTable& data, DataConfig& config) {
  config.ngram = read_count(data, "ngram", config.ngram, 2, kNgramMax);
  require(data, "dictionary", "format 'ngram'");
}

std::vector<SlotConfig> ngram_slots(const DataConfig& data) {
  std::vector<SlotConfig> slots;
  for (std::uint32_t i = 0; i + 1 < data.ngram; ++i) {
    slots.push_back({.name = fmt::format("word{}", i)});
  }
  slots.push_back({.name = "next"});
  return slots;
}

void read_bow(TomlTable& data, DataConfig& config) {
  require(data, "dictionary", "format 'bow'");
  config.labels = read_labels(data);
}

std::vector<SlotConfig> bow_slots(const DataConfig& data) {
  return {{.name = "words", .many = true}, label_slot(data)};
}

void read_libsvm(TomlTable& data, DataConfig& config) {
  config.float_label = data.choice("label", "id", kLabels) == "float";
  config.labels = read_labels(data);
  if (config.float_label && !config.labels.empty())
    data.fail("labels", "'labels' cannot be combined with label = \"float\"",
              "the label is either a class or a number");
  read_buckets(data, config);
}

std::vector<SlotConfig> libsvm_slots(const DataConfig& data) {
  return {label_slot(data), {.name = "features", .many = true, .weighted = true}};
}

std::vector<SlotConfig> criteo_slots(const DataConfig& data) {
  std::vector<SlotConfig> slots{label_slot(data), {.name = "dense", .width = kCriteoIntegers}};
  for (std::uint32_t i = 1; i <= kCriteoCategories; ++i) {
    slots.push_back({.name = fmt::format("C{}", i), .hashed = true, .buckets = data.buckets});
  }
  return slots;
}

void read_csv(TomlTable& data, DataConfig& config) {
  require(data, "columns", "format 'csv'");
  config.columns = data.strings("columns");
  config.delimiter = read_character(data, "delimiter", config.delimiter);
  config.has_header = data.boolean("header", false);
  config.trim = data.boolean("trim", config.trim);
  std::set<std::string> names;
  for (const std::string& name : config.columns) {
    if (!names.insert(name).second) {
      data.fail("columns", fmt::format("the column '{}' is named twice", name));
    }
  }
  read_slots(data, config);
  read_buckets(data, config);
}

void read_jsonl(TomlTable& data, DataConfig& config) {
  read_slots(data, config);
  read_buckets(data, config);
}

void read_npz(TomlTable& data, DataConfig& config) {
  read_slots(data, config);
  if (data.has("pipe_command")) {
    data.fail("pipe_command", "'pipe_command' prints lines, but format 'npz' is binary",
              "let it print jsonl or multislot");
  }
}

constexpr std::array<DataFormat, 8> kFormats{{{"ngram", read_ngram, ngram_slots},
                                              {"bow", read_bow, bow_slots},
                                              {"multislot", read_slots, declared_slots},
                                              {"libsvm", read_libsvm, libsvm_slots},
                                              {"csv", read_csv, declared_slots},
                                              {"criteo", read_libsvm, criteo_slots},
                                              {"jsonl", read_jsonl, declared_slots},
                                              {"npz", read_npz, declared_slots}}};

Result<std::uint64_t> count_lines(const std::string& path) {
  PADDLE_TRY(std::string bytes, read_file(path, kDictionaryBytesMax));
  const std::string text = text_of_lines(std::move(bytes));
  const auto ends = std::ranges::count(text, '\n');
  const bool open_end = !text.empty() && text.back() != '\n';
  return static_cast<std::uint64_t>(ends) + (open_end ? 1 : 0);
}

void read_dictionary(TomlTable& data, const std::string& folder, DataConfig& config) {
  config.dictionary = data.string("dictionary");
  if (config.dictionary.empty()) return;
  const std::string path = in_folder(folder, config.dictionary);
  const auto lines = count_lines(path);
  if (!lines) {
    data.fail("dictionary", lines.error().message, "a template's ./prepare script makes it");
  } else if (*lines == 0) {
    data.fail("dictionary", fmt::format("{} is empty", path), "its last line must be <unk>");
  } else {
    config.dictionary_size = *lines;
  }
}

void read_statistics(TomlTable& data, const std::string& folder, DataConfig& config) {
  if (config.statistics.empty()) return;
  const std::string path = in_folder(folder, config.statistics);
  const auto text = read_file(path, kStatisticsBytesMax);
  if (!text) {
    return data.fail("statistics", text.error().message,
                     "paddle statistics makes the file; paddle train makes one without this key");
  }
  const auto statistics = parse_statistics(*text);
  const Status used = statistics ? use_statistics(*statistics, config) : statistics.error();
  if (!used)
    data.fail("statistics", fmt::format("{}: {}", path, used.error().message), used.error().hint);
}

void read_weight(TomlTable& data, DataConfig& config) {
  config.weight = data.string("weight");
  if (config.weight.empty()) return;
  const auto slots = data_slots(config);
  const auto found = std::ranges::find(slots, config.weight, &SlotConfig::name);
  if (found == slots.end()) {
    data.fail("weight", fmt::format("there is no slot '{}'", config.weight),
              "name a slot of one float: the factor of an example's cost");
  } else if (found->width != 1) {
    data.fail("weight", fmt::format("the slot '{}' is not one float", config.weight),
              "declare it with type = \"float\", one column, and neither 'bucket' nor "
              "'missing_indicator'");
  }
}

// Reads which part of the training records is held out.
void read_split(TomlTable& data, DataConfig& config) {
  config.test_fraction = data.number("test_fraction", 0, 0, 1);
  config.split_by = data.string("split_by");
  if (config.test_fraction == 1) {
    data.fail("test_fraction", "'test_fraction' is 1, which leaves no record for training");
  } else if (config.test_fraction > 0 && !config.test.empty()) {
    data.fail("test_fraction", "'test_fraction' cannot be combined with 'test'",
              "hold out either a part of the training records or files of their own");
  }
  if (config.split_by.empty()) return;
  if (!data.has("test_fraction")) {
    data.fail("split_by", "'split_by' needs 'test_fraction', the part that is held out",
              "test_fraction = 0.1");
  } else if (config.format != "csv" && config.format != "jsonl") {
    data.fail("split_by",
              fmt::format("'split_by' names a column of csv or a key of jsonl, but the format is "
                          "'{}'",
                          config.format),
              "leave it out: then each line or record is held out for itself");
  } else if (config.format == "csv" &&
             std::ranges::find(config.columns, config.split_by) == config.columns.end()) {
    data.fail("split_by", fmt::format("'{}' is not in [data] columns", config.split_by),
              "they are " + listed(std::vector<std::string_view>(config.columns.begin(),
                                                                 config.columns.end())));
  }
}

// The keys of [data] that only some formats have.
struct FormatKey {
  std::string_view name;
  std::vector<std::string_view> formats;
};

std::span<const FormatKey> format_keys() {
  static const std::vector<FormatKey> keys{{"ngram", {"ngram"}},
                                           {"label", {"libsvm", "criteo"}},
                                           {"labels", {"bow", "libsvm", "criteo"}},
                                           {"buckets", {"libsvm", "csv", "jsonl", "criteo"}},
                                           {"columns", {"csv"}},
                                           {"delimiter", {"csv"}},
                                           {"header", {"csv"}},
                                           {"trim", {"csv"}},
                                           {"slot", {"multislot", "csv", "jsonl", "npz"}}};
  return keys;
}

// Refuses the keys of other formats.
void check_format_keys(TomlTable& data, const std::string& format) {
  for (const FormatKey& key : format_keys()) {
    if (!data.has(key.name) || std::ranges::find(key.formats, format) != key.formats.end())
      continue;
    const bool is_in_slots = key.name.starts_with("label") && data.has("slot");
    data.fail(key.name,
              fmt::format("'{}' is for format = \"{}\"; this job has \"{}\"", key.name,
                          fmt::join(key.formats, "\" or \""), format),
              is_in_slots ? "layers and evaluators name the slot of the label; a slot may have "
                            "'labels'"
                          : "");
  }
}

std::vector<std::string> read_data_program(TomlTable& data, std::string_view key) {
  std::vector<std::string> program = read_program(data, key);
  for (const std::string& argument : program) {
    if (argument.find('\0') != std::string::npos) data.fail(key, "an argument holds a NUL byte");
  }
  return program;
}

void read_reading(TomlTable& data, DataConfig& config) {
  // With --set, an empty list removes the program: then the data are files.
  if (!data.strings("command").empty()) config.command = read_data_program(data, "command");
  config.pipe_command = read_data_program(data, "pipe_command");
  if (!config.command.empty() && !config.pipe_command.empty()) {
    data.fail("pipe_command", "'pipe_command' cannot be combined with 'command'",
              "let 'command' print the converted data itself");
  }
  config.pipe_timeout = std::chrono::seconds(data.integer(
      "pipe_timeout", static_cast<std::int64_t>(config.pipe_timeout.count()), 1, kPipeTimeoutMax));
  config.threads = read_count(data, "threads", config.threads, 1, kThreadsMax);
  config.files_at_once =
      read_count(data, "files_at_once", config.files_at_once, 1, kFilesAtOnceMax);
  config.global_shuffle = data.boolean("global_shuffle", config.global_shuffle);
  config.cache = data.boolean("cache", config.cache);
  config.cache_bytes_max = static_cast<std::uint64_t>(data.integer(
      "cache_bytes_max", static_cast<std::int64_t>(config.cache_bytes_max), 1, kBytesMax));
  if (data.has("cache_bytes_max") && !config.cache)
    data.fail("cache_bytes_max", "'cache_bytes_max' needs cache = true");
  if (config.cache && config.global_shuffle) {
    data.fail("cache",
              "'cache' cannot be combined with global_shuffle, which distributes records again in "
              "each pass",
              "train.shuffle_records shuffles within each trainer");
  }
  config.skip_bad_records = data.choice("on_bad_record", "fail", kBadRecords) == "skip";
}

}  // namespace

std::span<const DataFormat> data_formats() {
  return kFormats;
}

DataConfig read_data(TomlTable data, const std::string& folder) {
  DataConfig config;
  require(data, "train", "[data]");
  require(data, "format", "[data]");
  config.train = data.string("train");
  config.test = data.string("test");
  config.format = data.choice("format", "ngram", row_names(data_formats()));
  data.decides("format");
  find_row(data_formats(), config.format)->read(data, config);
  check_format_keys(data, config.format);
  read_dictionary(data, folder, config);
  read_split(data, config);
  read_weight(data, config);
  read_statistics(data, folder, config);
  read_reading(data, config);
  return config;
}

std::vector<SlotConfig> raw_slots(const DataConfig& data) {
  const DataFormat* const format = find_row(data_formats(), data.format);
  return format == nullptr ? std::vector<SlotConfig>() : format->slots(data);
}

std::vector<SlotConfig> data_slots(const DataConfig& data) {
  std::vector<SlotConfig> slots = raw_slots(data);
  for (SlotConfig& slot : slots) {
    slot.is_weight = !data.weight.empty() && slot.name == data.weight;
    const auto declared = std::ranges::find(data.slots, slot.name, &DataSlotConfig::name);
    if (declared == data.slots.end()) continue;
    if (declared->missing_indicator) slot.width *= 2;
    if (!declared->is_bucketed()) continue;
    slot.many = slot.width > 1;
    slot.width = 0;
  }
  return slots;
}

bool lacks_statistics(const DataConfig& data) {
  return std::ranges::any_of(data.slots, [](const DataSlotConfig& slot) {
    if (!slot.used || !slot.needs_statistics()) return false;
    return slot.learns_labels ? slot.labels.empty() : slot.fits.empty();
  });
}

// The files of a trainer.

namespace {

// Links to parent folders make the names that a pattern matches endless.
constexpr std::uint64_t kNamesMax = 1'000'000;

// glob(3) passes no context to its callbacks.
thread_local std::uint64_t names_read = 0;
thread_local std::string unreadable;  // "FOLDER: reason"

// A folder that does not exist has no files; any other unreadable folder ends the search.
int note_unreadable(const char* folder, int error) {
  if (error == ENOENT) return 0;
  unreadable = fmt::format("{}: {}", folder, std::strerror(error));
  return 1;
}

struct GlobResult {
  glob_t found{};
  GlobResult() {
    names_read = 0;
    found.gl_opendir = [](const char* path) -> void* {
      if (names_read <= kNamesMax) return ::opendir(path);
      errno = E2BIG;
      return nullptr;
    };
    found.gl_readdir = [](void* folder) -> dirent* {
      return ++names_read > kNamesMax ? nullptr : ::readdir(static_cast<DIR*>(folder));
    };
    found.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
    found.gl_lstat = ::lstat;
    found.gl_stat = ::stat;
  }
  ~GlobResult() { ::globfree(&found); }
};

bool leads_up(std::string_view pattern) {
  return fmt::format("/{}/", pattern).find("/../") != std::string::npos;
}

// In glob(3), "**" is the same as "*", so that files at other depths would be left out without an
// error.
bool has_any_depth(std::string_view pattern) {
  return fmt::format("/{}/", pattern).find("/**/") != std::string::npos;
}

// Returns N of "train.txt-N", "train.txt-N.gz" (.zst, .bz2, .xz) or "train-N.npz".
std::optional<std::uint64_t> number_of(std::string_view file) {
  for (const std::string_view ending : {".gz", ".zst", ".bz2", ".xz", ".npz"}) {
    if (file.ends_with(ending)) file.remove_suffix(ending.size());
  }
  const std::size_t dash = file.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == file.size()) return {};
  std::uint64_t number = 0;
  const char* const end = file.data() + file.size();
  const auto [at, error] = std::from_chars(file.data() + dash + 1, end, number);
  if (error != std::errc() || at != end) return {};
  return number;
}

// Special characters in the workspace's own name are not part of the pattern.
std::string escape_pattern(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Result<std::vector<std::string>> matching_files(const std::string& workspace,
                                                const std::string& pattern) {
  if (leads_up(pattern)) {
    return Error{Errc::kUsage, fmt::format("'..' is not allowed in the pattern '{}'", pattern),
                 "name a folder of the workspace, or begin with '/'"};
  }
  if (has_any_depth(pattern)) {
    return Error{Errc::kUsage,
                 fmt::format("'**' is not supported in the pattern '{}': it would match one folder",
                             pattern),
                 "write '*' for each folder, as in data/*/*.csv, with all files at the same depth"};
  }
  const std::string full =
      pattern.starts_with('/') ? pattern : escape_pattern(workspace) + "/" + pattern;
  GlobResult result;
  const int failed = ::glob(full.c_str(), GLOB_ALTDIRFUNC, note_unreadable, &result.found);
  if (names_read > kNamesMax) {
    return Error{Errc::kData,
                 fmt::format("the search for '{}' in {} reads more than {} names", pattern,
                             workspace, kNamesMax),
                 "write a pattern with fewer '*'"};
  }
  std::vector<std::string> files;
  std::string folder;
  if (failed == GLOB_NOMATCH) return files;
  if (failed != 0) {
    return Error{Errc::kData,
                 fmt::format("cannot search for '{}' in {}: {}", pattern, workspace, unreadable),
                 "let this user read the folder, or name another one"};
  }
  for (std::size_t i = 0; i < result.found.gl_pathc; ++i) {
    struct stat status {};
    const char* const path = result.found.gl_pathv[i];
    if (::stat(path, &status) != 0) {
      const int reason = errno;
      if (::lstat(path, &status) != 0) continue;  // removed meanwhile
      return Error{Errc::kData,
                   fmt::format("{}, which matches '{}', is a link that cannot be followed: {}",
                               path, pattern, std::generic_category().message(reason)),
                   "bring back the file or the mount that it leads to, or remove the link"};
    }
    if (S_ISREG(status.st_mode)) files.emplace_back(path);
    if (S_ISDIR(status.st_mode)) folder = path;
  }
  if (files.empty() && !folder.empty()) {
    return Error{
        Errc::kData, fmt::format("'{}' in {} matches no file, but a folder", pattern, workspace),
        fmt::format("name the files in it: {}{}*", pattern, pattern.ends_with('/') ? "" : "/")};
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<DataShare> data_share(const std::string& workspace, const std::string& glob,
                             std::uint32_t trainer_id, std::uint32_t num_trainers,
                             bool global_shuffle) {
  PADDLE_TRY(auto files, matching_files(workspace, glob));
  return deal_files(std::move(files), trainer_id, num_trainers, global_shuffle);
}

Result<DataShare> deal_files(std::vector<std::string> files, std::uint32_t trainer_id,
                             std::uint32_t num_trainers, bool global_shuffle) {
  if (trainer_id >= num_trainers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer {} of {} trainers does not exist", trainer_id, num_trainers)};
  }
  DataShare share;
  share.files = std::move(files);
  const bool numbered = std::ranges::all_of(
      share.files, [](const std::string& file) { return number_of(file).has_value(); });
  if (!numbered || global_shuffle) {
    share.records_split = num_trainers > 1;
    return share;
  }
  std::erase_if(share.files, [&](const std::string& file) {
    return number_of(file).value_or(0) % num_trainers != trainer_id;
  });
  return share;
}

}  // namespace paddle::config
