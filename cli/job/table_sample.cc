#include "cli/job/table_sample.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/text_file.h"
#include "cli/console/console.h"
#include "cli/job/npz_sample.h"
#include "engine/config/csv_line.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kBlockBytes = 64U << 10U;
constexpr std::uint64_t kRecordsMin = 20;
constexpr std::size_t kLinesForDelimiter = 1000;
constexpr std::size_t kShownFieldBytes = 40;
// If two delimiters divide all lines evenly, the first one is right: commas are often the points of
// numbers, and blanks parts of texts.
constexpr std::string_view kDelimiters = "\t;|, ";
constexpr auto kTotals = std::to_array<std::string_view>(
    {"total", "total:", "totals", "grand total", "sum", "sum:", "gesamt", "summe"});
constexpr double kHeaderNumbers = 0.9;  // share of numbers in a column whose first field is a name

std::string shown_text(std::string_view text) {
  return fmt::format("'{}{}'", escape_control(text.substr(0, kShownFieldBytes)),
                     text.size() > kShownFieldBytes ? "..." : "");
}

constexpr std::string_view kTooWide =
    "wide records fit better into an array of npz, or into libsvm";

// The beginnings of files that are no tables, and the way to make tables of them.
struct OtherFile {
  std::string_view magic;
  std::string_view what;
  std::string_view hint;
};
constexpr std::string_view kPandas =
    "write its table as csv: pandas' to_csv(\"new.csv\", index=False)";
constexpr std::string_view kSheet = "save the sheet as \"CSV UTF-8\"";
constexpr std::string_view kUnpack =
    "init reads plain files; unpack it, and compress DIR/data later if you like";
constexpr std::array<OtherFile, 10> kOtherFiles{{
    {"\x1f\x8b", "compressed by gzip", kUnpack},
    {"\x28\xb5\x2f\xfd", "compressed by zstd", kUnpack},
    {"BZh", "compressed by bzip2", kUnpack},
    {"\xfd"
     "7zXZ",
     "compressed by xz", kUnpack},
    {"\xd0\xcf\x11\xe0", "an old Excel spreadsheet", kSheet},
    {"PAR1", "a Parquet file", kPandas},
    {"ARROW1", "an Arrow file", kPandas},
    {"\x89HDF", "an HDF5 file", kPandas},
    {"\x93NUMPY", "one numpy array",
     "save it with a label: numpy.savez(\"new.npz\", x=x, label=y)"},
    {"SQLite format 3", "an SQLite database",
     "write a table as csv: sqlite3 -csv -header FILE 'select * from TABLE' >new.csv"},
}};

Status check_kind(std::string_view text, const std::string& shown) {
  // The name of a column may begin in the same way.
  const bool is_binary = text.find('\0') != text.npos || !is_utf8(text);
  for (const OtherFile& other : kOtherFiles) {
    if (!is_binary || !text.starts_with(other.magic)) continue;
    return Error{Errc::kData, fmt::format("{}: it is {}, not lines of text", shown, other.what),
                 std::string(other.hint)};
  }
  if (is_utf16(text)) {
    return Error{Errc::kData, shown + ": it is in UTF-16",
                 "make it UTF-8: iconv -f UTF-16 -t UTF-8 OLD >NEW"};
  }
  if (text.find('\0') != text.npos) {
    return Error{Errc::kData, shown + ": it has zero bytes, so it is no text",
                 "init reads csv, jsonl, npz and libsvm"};
  }
  return {};
}

Error not_utf8(const std::string& shown) {
  return {Errc::kData, shown + ": it is not UTF-8",
          "make it UTF-8: iconv -f WINDOWS-1252 -t UTF-8 OLD >NEW, or save it as \"CSV UTF-8\""};
}

struct Line {
  std::string_view text;
  std::uint64_t number = 0;  // from 1
};

// The lines that are not blank.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != line.npos) lines.push_back({line, number});
  }
  return lines;
}

Error at_line(const std::string& shown, const Line& line, Error error) {
  return std::move(error).with(fmt::format("{}:{}", shown, line.number));
}

std::string delimiter_text(char delimiter) {
  if (delimiter == '\t') return "a tab";
  return delimiter == ' ' ? "a blank" : fmt::format("'{}'", delimiter);
}

// csv

// How the most lines have the same number of fields.
struct Division {
  char delimiter = 0;
  std::size_t fields = 1;
  std::size_t lines = 0;  // with so many fields
};

Division divide(std::span<const Line> lines, char delimiter) {
  config::CsvLine fields(delimiter, true);
  std::map<std::size_t, std::size_t> counts;
  for (const Line& line : lines) {
    if (fields.split(line.text)) ++counts[fields.fields().size()];
  }
  Division best{.delimiter = delimiter};
  for (const auto& [count, times] : counts) {
    if (count > 1 && times > best.lines) best = {delimiter, count, times};
  }
  return best;
}

Result<Division> find_division(std::span<const Line> lines, const std::string& shown) {
  const auto first = lines.first(std::min(lines.size(), kLinesForDelimiter));
  Division best;
  for (const char delimiter : kDelimiters) {
    const Division division = divide(first, delimiter);
    if (division.lines > best.lines) best = division;
  }
  if (best.lines > 0) return best;
  config::CsvLine fields(',', true);
  for (const Line& line : first) {
    if (Status good = fields.split(line.text); !good)
      return at_line(shown, line, std::move(good).error());
  }
  return Error{Errc::kData, shown + ": it has one column",
               "a table has a label and at least one other column, with ',', ';', '|' or a tab "
               "between them"};
}

Error wrong_fields(const std::string& shown, const Line& line, std::size_t count,
                   const Division& division) {
  const std::string_view hint =
      line.number == 1 ? "remove what is above the table: sed 1d OLD >NEW"
                       : "complete the line, or put a field with this character between quotes";
  return at_line(
      shown, line,
      {Errc::kData,
       fmt::format("{}, but most lines have {}, with {} between them", counted(count, "field"),
                   division.fields, delimiter_text(division.delimiter)),
       std::string(hint)});
}

// Another line with a quote that is not closed, whose other part has a wrong number of fields.
Status check_quotes(std::span<const Line> lines, char delimiter, const std::string& shown) {
  config::CsvLine fields(delimiter, true);
  for (const Line& line : lines) {
    if (Status good = fields.split(line.text); !good)
      return at_line(shown, line, std::move(good).error());
  }
  return {};
}

// Refuses a last record that is a sum: "Total,,500".
Status check_total(const TableSample& sample, const Line& line, const std::string& shown) {
  bool has_total = false, has_gap = false;
  for (const SampleColumn& column : sample.columns) {
    const std::string_view value = column.values.back();
    const std::string word = lower_case(value.substr(0, kShownFieldBytes));
    const bool is_total = std::ranges::find(kTotals, word) != kTotals.end();
    has_total = has_total || (is_total && std::ranges::count(column.values, value) == 1);
    has_gap = has_gap || value.empty();
  }
  if (!has_total || !has_gap) return {};
  return at_line(shown, line,
                 {Errc::kData, "the last line is a total, not a record",
                  "sed '$d' OLD >NEW removes the last line"});
}

// Whether the first line has the names of the columns, and whether that is sure.
struct Header {
  bool is_there = false;
  bool is_sure = true;
};

double share_of_numbers(std::span<const std::string_view> values) {
  std::size_t numbers = 0, present = 0;
  for (const std::string_view value : values) {
    if (value.empty() || config::is_missing_value(value)) continue;
    ++present;
    numbers += is_number(value) ? 1 : 0;
  }
  return present == 0 ? 0 : static_cast<double>(numbers) / static_cast<double>(present);
}

// Whether the first line is like "2021,2022,target": numbers that count up, and texts that do not
// occur below, where numbers or other texts repeat.
bool is_header_with_numbers(const std::vector<SampleColumn>& columns) {
  std::optional<std::int64_t> last;
  std::size_t texts = 0;
  for (const SampleColumn& column : columns) {
    const std::string_view name = column.values.front();
    const std::span<const std::string_view> rest = std::span(column.values).subspan(1);
    if (name.empty() || config::is_missing_value(name)) return false;
    if (!is_number(name)) {
      const std::set<std::string_view> distinct(rest.begin(), rest.end());
      const bool repeats = 2 * distinct.size() < rest.size();
      if (distinct.contains(name) || (!repeats && share_of_numbers(rest) < kHeaderNumbers))
        return false;
      ++texts;
      continue;
    }
    std::int64_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) return false;
    if (last && number != *last + 1) return false;
    last = number;
  }
  return texts > 0 && texts + 1 < columns.size();
}

Header find_header(const std::vector<SampleColumn>& columns) {
  bool all_new = true;
  std::set<std::string_view> names;
  for (const SampleColumn& column : columns) {
    const std::string_view name = column.values.front();
    if (is_number(name)) return {.is_there = is_header_with_numbers(columns), .is_sure = false};
    if (config::is_missing_value(name)) return {.is_there = false};
    const std::span<const std::string_view> rest = std::span(column.values).subspan(1);
    all_new = all_new && names.insert(name).second && std::ranges::find(rest, name) == rest.end();
  }
  for (const SampleColumn& column : columns) {
    const bool is_named = !column.values.front().empty();
    if (is_named && share_of_numbers(std::span(column.values).subspan(1)) >= kHeaderNumbers)
      return {.is_there = true};
  }
  return {.is_there = all_new, .is_sure = false};
}

// Takes the names off the columns, or makes some up.
Status name_columns(TableSample& sample, const std::string& shown) {
  const Header header = find_header(sample.columns);
  sample.has_header = header.is_there;
  sample.is_header_sure = header.is_sure;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < sample.columns.size(); ++i) {
    SampleColumn& column = sample.columns[i];
    column.name = fmt::format("c{}", i + 1);
    if (!header.is_there) continue;
    column.name = std::string(column.values.front());
    column.values.erase(column.values.begin());
    const auto [other, is_new] = places.emplace(column.name, i);
    if (is_new) continue;
    return Error{Errc::kData,
                 fmt::format("{}:1: columns {} and {} have the same name, {}", shown,
                             other->second + 1, i + 1, shown_text(column.name)),
                 "give each column a name of its own in the header"};
  }
  return {};
}

Result<TableSample> sample_csv(std::span<const Line> lines, const std::string& shown) {
  if (lines.front().text.starts_with("sep=")) {
    return at_line(
        shown, lines.front(),
        {Errc::kData, "this line is only for spreadsheets", "sed 1d OLD >NEW removes it"});
  }
  PADDLE_TRY(const Division division, find_division(lines, shown));
  TableSample sample;
  sample.format = "csv";
  sample.delimiter = division.delimiter;
  if (division.fields > kSampleColumnsMax) {
    return Error{Errc::kData,
                 fmt::format("{}: it has {} columns; the limit is {}", shown, division.fields,
                             kSampleColumnsMax),
                 std::string(kTooWide)};
  }
  sample.columns.resize(division.fields);
  config::CsvLine line_of(division.delimiter, true);
  for (const Line& line : lines) {
    if (Status good = line_of.split(line.text); !good)
      return at_line(shown, line, std::move(good).error());
    const auto& fields = line_of.fields();
    if (fields.size() != division.fields) {
      const std::size_t count = fields.size();
      PADDLE_TRY_STATUS(check_quotes(lines, division.delimiter, shown));
      return wrong_fields(shown, line, count, division);
    }
    const bool has_quotes = line.text.find('"') != line.text.npos;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      sample.columns[i].values.push_back(has_quotes ? sample.texts.keep(fields[i]) : fields[i]);
    }
  }
  PADDLE_TRY_STATUS(name_columns(sample, shown));
  sample.records = lines.size() - (sample.has_header ? 1 : 0);
  return sample;
}

// jsonl

class JsonSampler {
 public:
  explicit JsonSampler(TableSample& sample) : sample_(sample) {}

  Status add(std::string_view line) {
    PADDLE_TRY_STATUS(reader_.read(line));
    const JsonValue& object = reader_.object();
    const JsonValue* at = object.items();
    for (std::size_t i = 0; i < object.size(); ++i) {
      const JsonValue* const value = at->next();
      PADDLE_TRY_STATUS(add_value(at->text(), *value));
      at = value->next();
    }
    ++records_;
    return {};
  }
  // Gives each column a value for each record.
  void finish() {
    for (auto& [name, column] : columns_) {
      fill(column, records_);
    }
    sample_.records = records_;
  }

 private:
  struct Place {
    std::size_t index = 0;
    std::uint64_t records = 0;  // with values in the column, or with missing ones
    bool has_value = false;     // not all of these are missing
  };

  // Missing values up to that record.
  void fill(Place& place, std::uint64_t records) {
    SampleColumn& column = sample_.columns[place.index];
    column.values.insert(column.values.end(), (records - place.records) * column.width, "");
    place.records = records;
  }

  Status add_value(std::string_view key, const JsonValue& value) {
    auto found = columns_.find(std::string(key));
    if (found == columns_.end()) {
      if (columns_.size() == kSampleColumnsMax) {
        return Error{Errc::kData, fmt::format("there are over {} keys", kSampleColumnsMax),
                     std::string(kTooWide)};
      }
      found = columns_.emplace(std::string(key), Place{sample_.columns.size()}).first;
      sample_.columns.push_back({.name = std::string(key)});
    }
    Place& place = found->second;
    SampleColumn& column = sample_.columns[place.index];
    const bool is_missing = value.is_null() || (value.is_list() && value.size() == 0);
    if (is_missing || !column.unusable.empty()) return {};
    if (place.records > records_) return {};  // the key is repeated
    set_shape(place, column, value);
    if (!column.unusable.empty()) return {};
    fill(place, records_);
    const auto before = static_cast<std::ptrdiff_t>(column.values.size());
    add_fields(column, value);
    place.has_value =
        place.has_value || std::any_of(column.values.begin() + before, column.values.end(),
                                       [](std::string_view one) { return !one.empty(); });
    ++place.records;
    return {};
  }

  // Sees what kind of value the column has, or that it has several.
  static void set_shape(const Place& place, SampleColumn& column, const JsonValue& value) {
    const bool has_texts = value.is_list() && value.size() > 0 && value.items()->is_text();
    const std::uint32_t width =
        value.is_list() && !has_texts ? static_cast<std::uint32_t>(value.size()) : 1;
    if (value.is_object()) {
      column.unusable = "its values are objects";
    } else if (!place.has_value) {
      if (width != column.width) column.values.assign(place.records * width, "");
      column.width = width;
      column.is_list = has_texts;
    } else if (column.width != width || column.is_list != has_texts) {
      column.unusable = "its values have different shapes";
    }
    column.is_text = column.is_text || value.is_text() || has_texts;
  }

  void add_fields(SampleColumn& column, const JsonValue& value) {
    if (!value.is_list()) {
      column.values.push_back(field_of(value));
      return;
    }
    const JsonValue* item = value.items();
    std::string joined;
    for (std::size_t i = 0; i < value.size(); ++i, item = item->next()) {
      if (item->is_list() || item->is_object() || item->is_text() != column.is_list) {
        column.unusable = "its lists are not only numbers, or not only texts";
        return;
      }
      if (column.is_list) {
        joined += (i == 0 ? "" : " ") + std::string(item->text());
      } else {
        column.values.push_back(field_of(*item));
      }
    }
    if (column.is_list) column.values.push_back(sample_.texts.keep(joined));
  }

  std::string_view field_of(const JsonValue& value) {
    if (value.is_bool()) return value.truth() ? "1" : "0";
    return value.is_null() ? "" : sample_.texts.keep(value.text());
  }

  TableSample& sample_;
  JsonReader reader_{std::vector<std::string>{}};
  std::unordered_map<std::string, Place> columns_;
  std::uint64_t records_ = 0;
};

Result<TableSample> sample_json(std::span<const Line> lines, const std::string& shown) {
  TableSample sample;
  sample.format = "jsonl";
  JsonSampler sampler(sample);
  for (const Line& line : lines) {
    if (Status good = sampler.add(line.text); !good) {
      Error error = at_line(shown, line, std::move(good).error());
      if (error.hint.empty())
        error.hint = "jsonl has one JSON object in each line: jq -c . OLD >NEW";
      return error;
    }
  }
  sampler.finish();
  return sample;
}

// libsvm

// The words of a line, up to a comment.
std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// The index of "index:value", or nothing; 0 for "qid:7".
std::optional<std::uint64_t> index_of(std::string_view word) {
  const std::size_t colon = word.find(':');
  if (colon == word.npos) return {};
  if (word.substr(0, colon) == "qid") return 0;
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + colon, index);
  if (error != std::errc() || end != word.data() + colon) return {};
  return index;
}

bool is_number_or_missing(std::string_view text) {
  const std::string_view bare = text.starts_with('-') ? text.substr(1) : text;
  return is_number(text) || config::is_missing_value(text) || lower_case(bare) == "inf";
}

// Whether the lines are labels with features. A record may have none, so the first one with
// features decides.
bool is_libsvm(std::span<const Line> lines) {
  for (const Line& line : lines) {
    const std::vector<std::string_view> words = words_of(line.text);
    if (words.empty()) continue;
    if (words.size() == 1 && is_number(words.front())) continue;
    return words.size() > 1 && words.front().find(':') == std::string_view::npos &&
           std::ranges::all_of(words.begin() + 1, words.end(), [](std::string_view word) {
             return index_of(word) && is_number_or_missing(word.substr(word.find(':') + 1));
           });
  }
  return false;
}

Result<TableSample> sample_libsvm(std::span<const Line> lines, const std::string& shown) {
  TableSample sample;
  sample.format = "libsvm";
  sample.columns.push_back({.name = "label"});
  for (const Line& line : lines) {
    const std::vector<std::string_view> words = words_of(line.text);
    if (words.empty()) continue;
    sample.columns.front().values.push_back(words.front());
    for (const std::string_view word : std::span(words).subspan(1)) {
      const auto index = index_of(word);
      if (!index) {
        return at_line(shown, line,
                       {Errc::kData, fmt::format("{} is not index:value", shown_text(word))});
      }
      if (!is_number(word.substr(word.find(':') + 1))) {
        return at_line(shown, line,
                       {Errc::kData, fmt::format("{} has no finite number", shown_text(word)),
                        "leave out features whose value is missing"});
      }
      sample.feature_max = std::max(sample.feature_max, *index);
    }
    ++sample.records;
  }
  return sample;
}

Status check_records(const TableSample& sample, const std::string& shown) {
  if (sample.records >= kRecordsMin) return {};
  return Error{Errc::kData, fmt::format("{}: it has {}", shown, counted(sample.records, "record")),
               fmt::format("a model needs at least {} of them, better thousands", kRecordsMin)};
}

// Reads the beginning of a regular file.
Result<std::string> read_sample(const std::string& path, const std::string& shown,
                                std::uint64_t& bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file && errno == ENOENT) {
    return Error{Errc::kUsage, shown + ": there is no such file",
                 "name a csv, jsonl, npz or libsvm file: paddlectl init --from FILE"};
  }
  if (!file || ::fstat(file.get(), &status) != 0) return system_error(Errc::kUsage, shown);
  if (!S_ISREG(status.st_mode)) {
    return Error{Errc::kUsage, shown + ": it is not a regular file",
                 "name a csv, jsonl, npz or libsvm file"};
  }
  bytes = static_cast<std::uint64_t>(status.st_size);
  std::string text(std::min<std::uint64_t>(bytes, kSampleBytesMax), '\0');
  if (!read_at(file.get(), std::as_writable_bytes(std::span(text)), 0))
    return system_error(Errc::kData, shown);
  return text;
}

}  // namespace

std::string_view TextPool::keep(std::string_view text) {
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size())
    blocks_.emplace_back().reserve(std::max(kBlockBytes, text.size()));
  const std::size_t begin = blocks_.back().size();
  return std::string_view(blocks_.back().append(text)).substr(begin);
}

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return !text.empty() && text[0] != '+' && read.ec == std::errc() && read.ptr == end &&
         std::abs(number) <= std::numeric_limits<float>::max();
}

Result<TableSample> sample_text(std::string text, std::uint64_t file_bytes,
                                const std::string& shown) {
  PADDLE_TRY_STATUS(check_kind(text, shown));
  const std::uint64_t read = text.size();
  TextPool kept;
  text = text_of_lines(std::move(text));
  const bool is_whole = read == file_bytes;
  if (!is_whole) {
    const std::size_t end = text.rfind('\n');
    if (end == text.npos) {
      return Error{
          Errc::kData,
          fmt::format("{}: its first line has over {}", shown, human_bytes(kSampleBytesMax)),
          "init reads tables with a line for each record: csv, jsonl and libsvm; and npz"};
    }
    text.resize(end + 1);
  }
  if (!is_utf8(text)) return not_utf8(shown);
  const std::vector<Line> lines = lines_of(kept.keep(text));
  if (lines.empty()) return Error{Errc::kData, shown + ": it is empty", "name a file with records"};
  const std::string_view first =
      lines.front().text.substr(lines.front().text.find_first_not_of(" \t"));
  if (first.starts_with('[')) {
    return Error{Errc::kData, shown + ": it is a JSON array, not lines",
                 "write one object in each line: jq -c '.[]' OLD >new.jsonl"};
  }
  Result<TableSample> sample = first.starts_with('{') ? sample_json(lines, shown)
                               : is_libsvm(lines)     ? sample_libsvm(lines, shown)
                                                      : sample_csv(lines, shown);
  if (!sample) return sample;
  PADDLE_TRY_STATUS(check_records(*sample, shown));
  if (is_whole && sample->format == "csv")
    PADDLE_TRY_STATUS(check_total(*sample, lines.back(), shown));
  sample->source = std::move(kept);
  sample->bytes = file_bytes;
  sample->sample_bytes = text.size();
  sample->is_whole = is_whole;
  sample->records_all = is_whole ? sample->records
                                 : static_cast<std::uint64_t>(static_cast<double>(sample->records) *
                                                              static_cast<double>(file_bytes) /
                                                              static_cast<double>(text.size()));
  return sample;
}

Result<TableSample> sample_table(const std::string& path, const std::string& shown) {
  std::uint64_t bytes = 0;
  PADDLE_TRY(std::string text, read_sample(path, shown, bytes));
  if (!text.starts_with("PK\x03\x04")) return sample_text(std::move(text), bytes, shown);
  PADDLE_TRY(TableSample sample, sample_npz(path, shown));
  PADDLE_TRY_STATUS(check_records(sample, shown));
  return sample;
}

}  // namespace paddle::cli
