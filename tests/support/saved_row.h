// Rows of a table that own their floats, and their bytes as a snapshot has them.
#pragma once

#include <vector>

#include "engine/table/row_form.h"

namespace paddle::test {

struct SavedRow {
  std::uint64_t id = 0;
  std::uint64_t marks = 0;  // parameter::RowMarks, packed
  std::vector<float> value;
  std::vector<float> state;
  parameter::RowScore score = {};
};

inline SavedRow saved_row(const table::Row& row) {
  return {row.id,
          row.marks.pack(),
          {row.value.begin(), row.value.end()},
          {row.state.begin(), row.state.end()},
          row.score};
}

// `has_score`: the table shrinks.
inline Bytes encoded(const std::vector<SavedRow>& rows, bool has_score = false) {
  Bytes bytes;
  for (const SavedRow& row : rows) {
    const table::RowForm form{row.value.size(), row.state.size() / row.value.size(), has_score};
    form.add({row.id, parameter::RowMarks::unpack(row.marks), row.value, row.state, row.score},
             bytes);
  }
  return bytes;
}

}  // namespace paddle::test
