// The guesses of `init --from` about a table: the kind of each column, the label and the task.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/job/table_sample.h"

namespace paddle::cli {

enum class ColumnKind {
  kNumber,
  kLongTail,    // numbers of which some are far larger than most
  kCategory,    // texts, or numbers that name something
  kText,        // sentences
  kIdentifier,  // another value in almost every record
  kDate,
  kConstant,
  kEmpty,
  kUnusable  // SampleColumn::unusable
};

enum class Sureness { kSure, kLikely, kGuess };
std::string_view sureness_text(Sureness sure);  // "sure", "likely", "a guess"

struct ColumnGuess {
  ColumnKind kind = ColumnKind::kNumber;
  Sureness sure = Sureness::kSure;
  std::uint64_t missing = 0;   // values in the sample
  std::uint64_t distinct = 0;  // different values, without missing ones
  std::string note = {};       // a change that the user may want; "": none

  bool is_number() const { return kind == ColumnKind::kNumber || kind == ColumnKind::kLongTail; }
  // Whether the network reads the column.
  bool is_used() const {
    return is_number() || kind == ColumnKind::kCategory || kind == ColumnKind::kText;
  }
};

enum class Task { kBinary, kClasses, kNumber };

struct TableGuess {
  std::vector<ColumnGuess> columns;  // as TableSample::columns
  std::size_t label = 0;             // index into columns
  Sureness label_sure = Sureness::kSure;
  std::string label_reason;  // "its name"
  Task task = Task::kNumber;
  Sureness task_sure = Sureness::kSure;
  std::string task_note;  // why the labels may be another task; "": nothing known
  // The labels in the order of their classes, as the file writes them; of two classes the first is
  // no and the second is yes. kNumber: none.
  std::vector<std::string> classes;
  bool are_classes_ids = false;    // the labels are 0, 1, ..., which need no list
  bool is_yes_sure = false;        // two classes: their texts say which one is yes
  std::size_t rare_class = 0;      // kBinary: index into classes
  std::uint64_t rare_records = 0;  // in the sample, with this class
  double mean = 0, deviation = 1;  // kNumber: of the labels
};

// `label`: the name of its column; "": guessed, from common names, else the last column. kUsage: no
// column has this name; or the column cannot be a label: all values are equal, it has sentences or
// a different text in each record, dates, or too many classes; or no column can predict it, and the
// hint says why each one is left out. kData: a label is missing, or a column writes numbers with
// commas. Messages begin with `shown`, the name of the file.
Result<TableGuess> guess_table(const TableSample& sample, const std::string& label,
                               const std::string& shown);

}  // namespace paddle::cli
