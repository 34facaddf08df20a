#include "engine/model/json_requests.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/text_bits.h"
#include "engine/data/json_fields.h"

namespace paddle::serve {
namespace {

constexpr std::string_view kBodyMark = "\xef\xbb\xbf";
constexpr std::string_view kJsonBlanks = " \t\r\n";

Error bad_body(std::string what) {
  return {Errc::kData, std::move(what), "send one object per line, or an array of objects"};
}

// Most values have no line end, and a search is faster than a count.
std::uint64_t line_ends_in(std::string_view text) {
  if (text.find('\n') == text.npos) return 0;
  return static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
}

// Finds the end of a value that begins with a bracket: behind the bracket that closes it.
class BracketSearch {
 public:
  // Empty: the value is not closed.
  Result<std::optional<std::size_t>> end_in(std::string_view text) {
    std::size_t depth = 0;
    for (std::size_t begin = 0; begin < text.size(); begin += ByteBlock::kBytes) {
      const ByteBlock block(text, begin);
      std::uint64_t brackets = block.matches('{', kBrace) | block.matches('}', kBrace);
      brackets &= ~inside_texts(block);
      for (; brackets != 0; brackets &= brackets - 1) {
        const std::size_t at = begin + static_cast<std::size_t>(std::countr_zero(brackets));
        if (text[at] == '{' || text[at] == '[') {
          if (++depth > kJsonDepthMax)
            return Error{Errc::kData, fmt::format("it is nested more than {} deep", kJsonDepthMax)};
        } else if (--depth == 0) {
          return std::optional(at + 1);
        }
      }
    }
    return std::optional<std::size_t>();
  }

 private:
  static constexpr char kBrace = '{' - '[';  // the bit that makes [ and ] braces

  // Marks the bytes of the next block that are inside texts.
  std::uint64_t inside_texts(const ByteBlock& block) {
    std::uint64_t quotes = block.matches('"');
    const std::uint64_t backslashes = block.matches('\\');
    if (backslashes != 0 || is_escaped_) quotes = without_escaped(quotes, backslashes);
    // A byte is inside if the number of quotes up to it is odd.
    std::uint64_t inside = quotes;
    for (unsigned shift = 1; shift < ByteBlock::kBytes; shift *= 2) inside ^= inside << shift;
    if (is_in_text_) inside = ~inside;
    is_in_text_ = inside >> (ByteBlock::kBytes - 1) != 0;
    return inside;
  }

  // The quotes that begin or end a text. In a text, a backslash escapes the byte after it.
  std::uint64_t without_escaped(std::uint64_t quotes, std::uint64_t backslashes) {
    std::uint64_t ends = 0;
    bool is_in_text = is_in_text_;
    unsigned first = is_escaped_ ? 1 : 0;  // the bytes before it do not count
    is_escaped_ = false;
    for (std::uint64_t left = quotes | backslashes; left != 0; left &= left - 1) {
      const auto at = static_cast<unsigned>(std::countr_zero(left));
      if (at < first) continue;
      if ((quotes >> at & 1U) != 0) {
        ends |= std::uint64_t{1} << at;
        is_in_text = !is_in_text;
      } else if (is_in_text) {
        first = at + 2;
        is_escaped_ = first > ByteBlock::kBytes;
      }
    }
    return ends;
  }

  bool is_in_text_ = false;  // at the end of the last block
  bool is_escaped_ = false;  // the first byte of the next block
};

// The slots, followed by the csv columns with other names.
std::vector<std::string> keys_of(const config::DataConfig& data) {
  std::vector<std::string> names;
  for (const config::SlotConfig& slot : config::raw_slots(data)) names.push_back(slot.name);
  if (data.format != "csv") return names;
  std::unordered_set<std::string> known(names.begin(), names.end());
  for (const std::string& column : data.columns) {
    if (known.insert(column).second) names.push_back(column);
  }
  return names;
}

Error wrong(const std::string& key, std::string_view expected, const char* hint = "") {
  return {Errc::kData, fmt::format("'{}' must be {}", key, expected), hint};
}

// Without a value, appends zeros, or NaN if missing numbers are marked, as for an empty field of
// csv.
Status add_floats(const std::string& name, const JsonValue* value, std::uint32_t width,
                  bool marks_missing, data::RecordBlock& block) {
  if (value != nullptr && !value->is_null())
    return data::append_json_floats(name, *value, width, marks_missing, block);
  block.values.insert(block.values.end(), width, marks_missing ? data::kMissing : 0);
  return {};
}

constexpr const char* kHint = R"(for example {"parameter":"_proj","ids":[3,7]})";

Error unexpected(std::string_view key) {
  return {Errc::kData, fmt::format("'{}' is not expected", escape_control(key)), kHint};
}

}  // namespace

// The values of a body.

JsonValues::JsonValues(std::string_view body) : left_(body) {
  if (left_.starts_with(kBodyMark)) left_.remove_prefix(kBodyMark.size());
  skip_blanks();
  if (!left_.starts_with('[')) return;
  is_array_ = true;
  left_.remove_prefix(1);
}

void JsonValues::skip_blanks() {
  const std::size_t count = std::min(left_.find_first_not_of(kJsonBlanks), left_.size());
  line_ += line_ends_in(left_.substr(0, count));
  left_.remove_prefix(count);
}

Result<std::optional<std::string_view>> JsonValues::next() {
  skip_blanks();
  if (is_array_) PADDLE_TRY_STATUS(step_in_array());
  if (is_over_ || left_.empty()) return std::optional<std::string_view>();
  ++values_;
  value_line_ = line_;
  PADDLE_TRY(const std::string_view value, take_value());
  line_ += line_ends_in(value);
  return std::optional(value);
}

// Skips the comma before a value, or the end of the array, after which the body must end.
Status JsonValues::step_in_array() {
  if (is_over_) return {};
  if (left_.starts_with(']')) {
    is_over_ = true;
    left_.remove_prefix(1);
    skip_blanks();
    if (left_.empty()) return {};
    return bad_body("unexpected data after the array");
  }
  if (values_ > 0) {
    if (!left_.starts_with(','))
      return bad_body(left_.empty() ? "the array is not closed"
                                    : fmt::format("a comma is missing after record {}", values_));
    left_.remove_prefix(1);
    skip_blanks();
  }
  if (left_.empty()) return bad_body("the array is not closed");
  return {};
}

// INVARIANT: no search goes on after the end of the value, since a body may hold all its values in
// one line.
Result<std::string_view> JsonValues::take_value() {
  const std::string_view ends = is_array_ ? "\n,]" : "\n";
  std::size_t end = 0;
  if (left_.starts_with('{') || left_.starts_with('[')) {
    PADDLE_TRY(const auto closed, BracketSearch().end_in(left_));
    // An open value is passed on up to its line end; the parser says that it is not an object.
    end = closed ? *closed : left_.find('\n');
  } else {
    end = left_.find_first_of(ends);
  }
  end = std::min(end, left_.size());
  const std::string_view value = left_.substr(0, end);
  left_.remove_prefix(end);
  return value;
}

// A record from a value.

JsonRecords::JsonRecords(const config::JobConfig& job, const data::Dictionary& dictionary)
    : is_of_words_(!job.data.dictionary.empty()),
      is_jsonl_(job.data.format == "jsonl"),
      index_buckets_(job.data.format == "libsvm" ? job.data.buckets : 0),
      dictionary_(dictionary),
      line_(job.data.delimiter, job.data.trim),
      reader_(keys_of(job.data)) {
  const std::vector<config::SlotConfig> slots = config::raw_slots(job.data);
  const std::size_t count = slots.size();
  std::unordered_set<std::string_view> read;
  for (const config::LayerConfig& layer : job.layers) {
    read.insert(layer.inputs.begin(), layer.inputs.end());
  }
  std::unordered_map<std::string_view, const config::DataSlotConfig*> in_files;
  for (const config::DataSlotConfig& slot : job.data.slots) in_files.emplace(slot.name, &slot);
  for (const config::SlotConfig& config : slots) {
    Slot slot{.config = config};
    slot.is_read = read.contains(config.name);
    slot.classes = data::ClassNames(config.labels);
    if (config.hashed) slot.hash.emplace(config.name, job.data.buckets);
    const auto found = in_files.find(config.name);
    if (found != in_files.end()) {
      const config::DataSlotConfig& in_file = *found->second;
      slot.separator = in_file.separator;
      slot.marks_missing = slot.is_read && in_file.marks_missing();
      slot.refuses_missing = in_file.missing == config::Missing::kRefuse;
      for (const std::uint32_t column : in_file.columns) {
        if (job.data.format == "csv")
          slot.columns.push_back(reader_.index_of(job.data.columns[column]));
      }
    }
    // A column with the name of a slot is that slot; then there are no keys for columns.
    if (std::ranges::any_of(slot.columns, [&](std::size_t key) { return key < count; }))
      slot.columns.clear();
    slots_.push_back(std::move(slot));
  }
}

Status JsonRecords::parse(std::string_view line, data::RecordBlock& block) {
  Status parsed = reader_.read(line);
  if (parsed) parsed = add_record(block);
  reader_.trim();
  return parsed;
}

Status JsonRecords::add_record(data::RecordBlock& block) const {
  const data::RecordBlock::Extent begin = block.end();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    PADDLE_TRY_STATUS(add_slot(slots_[i], reader_.find(i), block));
  // A file of jsonl may have keys that no slot reads.
  if (const auto& unknown = reader_.unknown(); unknown && !is_jsonl_) {
    const auto slots = std::span(reader_.keys()).first(slots_.size());
    const auto columns = std::span(reader_.keys()).subspan(slots_.size());
    return Error{Errc::kData, fmt::format("unknown slot '{}'", escape_control(*unknown)),
                 fmt::format("slots are {}{}{}", fmt::join(slots, ", "),
                             columns.empty() ? "" : "; columns are ", fmt::join(columns, ", "))};
  }
  block.add_record(begin);
  return {};
}

std::optional<std::size_t> JsonRecords::given_column(const Slot& slot) const {
  const auto given = std::ranges::find_if(
      slot.columns, [this](std::size_t key) { return reader_.find(key) != nullptr; });
  if (given == slot.columns.end()) return {};
  return *given;
}

Error JsonRecords::missing(const Slot& slot) const {
  std::vector<std::string_view> names;
  for (const std::size_t key : slot.columns) names.emplace_back(reader_.keys()[key]);
  return {Errc::kData, fmt::format("'{}' is missing", slot.config.name),
          names.empty() ? ""
                        : fmt::format("give '{}', or all of its columns: {}", slot.config.name,
                                      fmt::join(names, ", "))};
}

Status JsonRecords::add_slot(const Slot& slot, const JsonValue* value,
                             data::RecordBlock& block) const {
  const auto column = given_column(slot);
  if (value != nullptr && column) {
    return Error{Errc::kData, fmt::format("both '{}' and its column '{}' are given",
                                          slot.config.name, reader_.keys()[*column])};
  }
  if (column && slot.is_read) return add_columns(slot, block);
  const bool is_given = value != nullptr && !value->is_null();
  if (value == nullptr && slot.is_read && !may_be_missing(slot)) return missing(slot);
  if (slot.config.width > 0)
    return add_floats(slot.config.name, value, slot.config.width, slot.marks_missing, block);
  if (slot.config.many) {
    std::uint32_t count = 0;
    if (is_given && value->is_text() && slot.separator != 0) {
      PADDLE_TRY_STATUS(add_field(slot, slot.config.name, value->text(), count, block));
    } else {
      PADDLE_TRY_STATUS(add_list(slot, slot.config.name, value, count, block));
    }
    block.counts.push_back(count);
    return {};
  }
  if (is_given || (slot.is_read && value != nullptr))
    return add_id(slot, slot.config.name, *value, block);
  block.ids.push_back(slot.hash ? (*slot.hash)("") : 0);
  return {};
}

// In lines of JSON, every key may be missing except a single id's. In other formats, only numbers
// of slots that mark missing ones may be.
bool JsonRecords::may_be_missing(const Slot& slot) const {
  if (slot.marks_missing) return !slot.refuses_missing;
  return is_jsonl_ && (slot.config.width > 0 || slot.config.many || slot.hash);
}

// All columns must be given, except numbers that are marked when they are missing. Each has one
// value, or a list if a separator divides its ids.
Status JsonRecords::add_columns(const Slot& slot, data::RecordBlock& block) const {
  std::uint32_t count = 0;
  for (const std::size_t key : slot.columns) {
    const JsonValue* const value = reader_.find(key);
    const std::string& name = reader_.keys()[key];
    if (value == nullptr && !slot.marks_missing) {
      Error error = missing(slot);
      error.message = fmt::format("'{}' is missing", name);
      return error;
    }
    if (slot.config.width > 0) {
      PADDLE_TRY_STATUS(add_floats(name, value, 1, slot.marks_missing, block));
    } else if (value->is_text() && slot.separator != 0) {
      PADDLE_TRY_STATUS(add_field(slot, name, value->text(), count, block));
    } else if (value->is_list() ? slot.config.many
                                : slot.separator != 0 && (value->is_null() || value->is_object())) {
      PADDLE_TRY_STATUS(add_list(slot, name, value, count, block));
    } else {
      PADDLE_TRY_STATUS(add_id(slot, name, *value, block));
      ++count;
    }
  }
  if (slot.config.many) block.counts.push_back(count);
  return {};
}

// A missing value, null and {} are an empty list too.
Status JsonRecords::add_list(const Slot& slot, const std::string& name, const JsonValue* value,
                             std::uint32_t& count, data::RecordBlock& block) const {
  const bool is_list = value != nullptr && value->is_list();
  const std::size_t size = is_list ? value->size() : 0;
  if (!is_list && value != nullptr && !value->is_null() &&
      (!value->is_object() || value->size() > 0))
    return wrong(name, "a list");
  const JsonValue* each = is_list ? value->items() : nullptr;
  for (std::size_t i = 0; i < size; ++i, each = each->next()) {
    if (!slot.config.weighted) {
      PADDLE_TRY_STATUS(add_id(slot, name, *each, block));
      continue;
    }
    if (!each->is_list() || each->size() != 2 || !each->items()->next()->is_number())
      return wrong(name, "a list of [id, value]");
    PADDLE_TRY_STATUS(add_id(slot, name, *each->items(), block));
    block.values.push_back(data::float_of(*each->items()->next()));
    if (!std::isfinite(block.values.back())) return wrong(name, "of finite values");
  }
  count += static_cast<std::uint32_t>(size);
  return {};
}

Status JsonRecords::add_field(const Slot& slot, const std::string& name, std::string_view text,
                              std::uint32_t& count, data::RecordBlock& block) const {
  const std::string what = fmt::format("'{}':", name);
  for (std::string_view rest = line_.trimmed(text); !rest.empty(); ++count) {
    const std::string_view part = line_.trimmed(data::take_field(rest, slot.separator));
    if (slot.hash) {
      block.ids.push_back((*slot.hash)(part));
      continue;
    }
    const std::string_view word = line_.without_blanks(part);
    std::uint64_t& id = block.ids.emplace_back();
    PADDLE_TRY_STATUS(slot.classes.empty() ? data::parse_id(word, what, id)
                                           : slot.classes.parse(word, what, id));
  }
  return {};
}

// A number in place of a hashed text stands for its digits, as in a file.
Status JsonRecords::add_id(const Slot& slot, const std::string& name, const JsonValue& value,
                           data::RecordBlock& block) const {
  if (!slot.classes.empty()) {
    if (value.is_null() || value.is_list() || value.is_object())
      return wrong(name, "one of the slot's labels", "/v1/model lists them");
    const std::string other = value.is_text() ? "" : value.shown();
    return slot.classes.parse(value.is_text() ? value.text() : other, fmt::format("'{}':", name),
                              block.ids.emplace_back());
  }
  if (slot.hash && !value.is_list() && !value.is_object() && (is_jsonl_ || !value.is_bool())) {
    // The reader of JSON lines hashes a number's shortest spelling; readers of other formats, the
    // text as it is written.
    const std::string other = is_jsonl_ && !value.is_text() ? value.shown() : "";
    const bool is_itself = value.is_text() || (value.is_number() && !is_jsonl_);
    block.ids.push_back((*slot.hash)(is_itself ? value.text() : other));
    return {};
  }
  const std::optional<std::uint64_t> id = value.is_bool() ? value.truth() : data::whole_of(value);
  if (id && !slot.hash) {
    block.ids.push_back(index_buckets_ > 0 && slot.config.weighted ? *id % index_buckets_ : *id);
    return {};
  }
  if (value.is_text() && is_of_words_) {
    block.ids.push_back(dictionary_.id(value.text()));
    return {};
  }
  if (slot.hash) return wrong(name, "a string");
  return is_of_words_ ? wrong(name, "a word, or an id") : data::not_whole(name, value);
}

// A request for rows.

Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary) {
  enum Key : std::size_t { kIds, kParameter, kWords };
  JsonReader reader({"ids", "parameter", "words"});
  if (const Status read = reader.read(text); !read)
    return Error{Errc::kData, read.error().message, kHint};
  if (reader.unknown()) return unexpected(*reader.unknown());
  RowRequest request;
  if (const JsonValue* const parameter = reader.find(kParameter)) {
    if (!parameter->is_text()) return wrong("parameter", "the name of a table", kHint);
    request.parameter = parameter->text();
  }
  for (const Key key : {kIds, kWords}) {
    const JsonValue* const list = reader.find(key);
    if (list == nullptr) continue;
    const std::string& name = reader.keys()[key];
    if (key == kWords && dictionary.size() == 0) return unexpected(name);
    const auto expected = key == kIds ? "a list of whole numbers from 0" : "a list of words";
    if (!list->is_list()) return wrong(name, expected, kHint);
    const JsonValue* each = list->items();
    for (std::size_t i = 0; i < list->size(); ++i, each = each->next()) {
      const auto id = key == kIds       ? data::whole_of(*each)
                      : each->is_text() ? std::optional(dictionary.id(each->text()))
                                        : std::nullopt;
      if (!id) return wrong(name, expected, kHint);
      request.ids.push_back(*id);
    }
  }
  return request;
}

}  // namespace paddle::serve
