// Requests in JSON: the records of a body, one after the other, and a request for rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/data/records/dictionary.h"
#include "engine/data/records/fields.h"
#include "engine/data/records/json_reader.h"
#include "engine/data/records/record_block.h"

namespace paddle::serve {

// The records in a JSON body, one after the other: an object a line, objects over several lines, or
// one array of objects.
class JsonValues {
 public:
  // The body must outlive this.
  explicit JsonValues(std::string_view body);

  // The text of the next value. It ends where the value's last bracket closes; a value that is no
  // object ends with its line, and a parser says what is wrong with it. Nothing at the end. kData:
  // brackets are not closed, or values of the array are not separated by one comma.
  Result<std::optional<std::string_view>> next();
  // The values are those of an array, and the answers are too.
  bool is_array() const { return is_array_; }
  // Of the value that next() returned: its line, or in an array its place there, both from 1.
  std::uint64_t number() const { return is_array_ ? values_ : value_line_; }

 private:
  // Skips blanks and line ends, and counts those.
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
// slots of the job; each holds what the network reads. Of csv, a slot may be given by the names of
// its columns instead: {"age":40,"income":3} for {"numbers":[40,3]}.
//
// For one thread: it keeps memory from line to line.
class JsonRecords {
 public:
  // Both must outlive this.
  JsonRecords(const config::JobConfig& job, const data::Dictionary& dictionary);

  // Appends the record of an object, with the ids and numbers that the reader of files makes of the
  // same values. Slots that no layer computes with, such as labels, may be missing or null, and are
  // 0 then; null is also a missing number, an empty text and an empty list. kData: it is no record;
  // the caller drops the values left at the end of the block.
  Status parse(std::string_view line, data::RecordBlock& block);

 private:
  struct Slot {
    config::SlotConfig config;
    bool is_read = false;                     // by a layer, but for its label
    char separator = 0;                       // between the ids of one field of csv; 0: none
    std::optional<data::SlotHash> hash = {};  // of texts that the format hashes
    data::ClassNames classes = {};            // of the ids, where they have names
    // Keys of its columns, where their names are not the slot's.
    std::vector<std::size_t> columns = {};
  };

  Status add_record(data::RecordBlock& block) const;
  Status add_slot(const Slot& slot, const data::JsonValue* value, data::RecordBlock& block) const;
  Status add_columns(const Slot& slot, data::RecordBlock& block) const;
  // Whether one of the slot's columns is there; its key.
  std::optional<std::size_t> given_column(const Slot& slot) const;
  Error missing(const Slot& slot) const;
  bool may_be_missing(const Slot& slot) const;
  // `name` is that of the slot or of its column. `count` grows by the number of ids.
  Status add_list(const Slot& slot, const std::string& name, const data::JsonValue* value,
                  std::uint32_t& count, data::RecordBlock& block) const;
  static bool is_one(const Slot& slot, const data::JsonValue& value);
  Status add_id(const Slot& slot, const std::string& name, const data::JsonValue& value,
                data::RecordBlock& block) const;

  bool is_of_words_;             // texts are words of the dictionary
  bool is_jsonl_;                // the job's files are lines of JSON
  std::uint64_t index_buckets_;  // modulus of ids that are numbers; 0: none
  const data::Dictionary& dictionary_;
  std::vector<Slot> slots_;
  // Its keys are the slots, then the columns with other names, of which those of no slot are passed
  // over.
  data::JsonReader reader_;
};

// A request for rows of a table, as JSON.
struct RowRequest {
  std::string parameter;  // "": the only table
  std::vector<std::uint64_t> ids;
};

// {"parameter":"_proj","ids":[3,7],"words":["in"]}: ids first, then words, of which unknown ones
// are <unk> as in training. kData.
Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary);

}  // namespace paddle::serve
