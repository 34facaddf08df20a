// Requests in JSON: the records of a body, and a request for rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "base/result.h"
#include "engine/config/csv_line.h"
#include "engine/config/job_config.h"
#include "engine/data/dictionary.h"
#include "engine/data/fields.h"
#include "engine/data/record_block.h"

namespace paddle::serve {

// The records in a JSON body, one after the other: an object per line, objects over several lines,
// or one array of objects.
class JsonValues {
 public:
  // The body must outlive the object.
  explicit JsonValues(std::string_view body);

  // The text of the next value. It ends where the value's last bracket closes. A value that is not
  // an object ends with its line, and the parser of records refuses it. Empty at the end of the
  // body. kData: brackets are not closed, or values of the array are not separated by one comma.
  Result<std::optional<std::string_view>> next();
  // Whether the values are in an array; then the answers are in an array too.
  bool is_array() const { return is_array_; }
  // The number of the value that next() returned: its line, or its position in the array, both from
  // 1.
  std::uint64_t number() const { return is_array_ ? values_ : value_line_; }

 private:
  // Skips blanks and line ends, and counts the lines.
  void skip_blanks();
  Result<std::string_view> take_value();
  Status step_in_array();

  std::string_view left_;
  bool is_array_ = false;
  bool is_over_ = false;
  std::uint64_t line_ = 1;  // where left_ begins
  std::uint64_t value_line_ = 1;
  std::uint64_t values_ = 0;
};

// Records as JSON objects: {"dense":[0.5,1],"C1":"68fd1e64","words":["in","the"]}. The keys are the
// slots of the job, with the values as they are in its files. For csv, the columns of a slot may be
// given by their names instead: {"age":40,"income":3} for {"numbers":[40,3]}. A slot whose fields
// hold several ids takes a list of them, or the text of a field.
//
// Not thread-safe: it keeps memory from line to line.
class JsonRecords {
 public:
  // Both must outlive the object.
  JsonRecords(const config::JobConfig& job, const data::Dictionary& dictionary);

  // Appends the record of an object, with the ids and numbers that the parser of files makes from
  // the same values: it has the slots of config::raw_slots, and is not prepared yet. Slots that no
  // layer computes with, such as labels, may be missing or null; they are 0 then. null also stands
  // for a missing number, an empty text and an empty list. kData: it is not a record; the caller
  // must drop the values that it leaves at the end of the block.
  Status parse(std::string_view line, data::RecordBlock& block);

 private:
  struct Slot {
    config::SlotConfig config;
    bool is_read = false;                     // by a layer, other than as its label
    bool marks_missing = false;               // a number that is missing is NaN
    bool refuses_missing = false;             // such a number makes the record wrong
    char separator = 0;                       // csv: between the ids of one field; 0: none
    std::optional<data::SlotHash> hash = {};  // for texts, if the format hashes them
    data::ClassNames classes = {};            // names of the ids, if they have names
    // Keys of the slot's columns, if these have other names than slots.
    std::vector<std::size_t> columns = {};
  };

  Status add_record(data::RecordBlock& block) const;
  Status add_slot(const Slot& slot, const JsonValue* value, data::RecordBlock& block) const;
  Status add_columns(const Slot& slot, data::RecordBlock& block) const;
  // The key of a column of the slot that the record contains; empty if it contains none.
  std::optional<std::size_t> given_column(const Slot& slot) const;
  Error missing(const Slot& slot) const;
  bool may_be_missing(const Slot& slot) const;
  // `name` is the name of the slot or of its column. Adds the number of ids to `count`.
  Status add_list(const Slot& slot, const std::string& name, const JsonValue* value,
                  std::uint32_t& count, data::RecordBlock& block) const;
  // Adds the ids of a text as those of a csv field, with separators between them.
  Status add_field(const Slot& slot, const std::string& name, std::string_view text,
                   std::uint32_t& count, data::RecordBlock& block) const;
  Status add_id(const Slot& slot, const std::string& name, const JsonValue& value,
                data::RecordBlock& block) const;

  bool is_of_words_;             // texts are words of the dictionary
  bool is_jsonl_;                // the job's files are lines of JSON
  std::uint64_t index_buckets_;  // modulus of ids that are numbers; 0: none
  const data::Dictionary& dictionary_;
  config::CsvLine line_;  // knows the blanks that do not belong to a field
  std::vector<Slot> slots_;
  // Its keys are the slots, followed by the csv columns with other names. Columns of no slot are
  // ignored, and in jsonl all keys of no slot.
  JsonReader reader_;
};

// A request for rows of a table, as JSON.
struct RowRequest {
  std::string parameter;  // "": the only table
  std::vector<std::uint64_t> ids;
};

// {"parameter":"_proj","ids":[3,7],"words":["in"]}: the ids come first, then the ids of the words;
// unknown words are <unk>, as in training. kData.
Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary);

}  // namespace paddle::serve
