// The bytes of a table's row outside of its table. A savepoint, the wire and the files of a
// snapshot have them in this one form, so that rows go from a shard to a file, and back, as they
// are.
//
//   +--------+-----------+-----------------+------------------------------+------------------+
//   | u64 id | u64 marks | f32 value       | f32 state                    | f32 shows, clicks|
//   |        |           | [width]         | [state_width][width]         | if has_score     |
//   +--------+-----------+-----------------+------------------------------+------------------+
//     one after another, without gaps; integers and floats are little-endian
//
// Marks are those of RowMarks; a savepoint has the pass in which the row was last seen in place of
// passes_unseen. The floats stand as in the memory of a table.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/table/row_notes.h"

namespace paddle::table {

// A row of a table. Its floats are in memory of another owner.
struct Row {
  std::uint64_t id = 0;
  parameter::RowMarks marks = {};
  std::span<const float> value;
  std::span<const float> state;    // state_width planes of value.size() floats
  parameter::RowScore score = {};  // if the table shrinks
};

// Sizes of the rows of one table. A buffer of rows is aligned as new memory is.
struct RowForm {
  static constexpr std::size_t kHeadBytes = 2 * sizeof(std::uint64_t);  // id and marks

  std::uint64_t width = 0;
  std::uint64_t state_width = 0;
  bool has_score = false;  // the table shrinks

  static RowForm of(const wire::ParameterSpec& spec, std::uint64_t state_width);

  std::uint64_t state_floats() const { return width * state_width; }
  std::uint64_t floats() const {
    return width + state_floats() + (has_score ? sizeof(parameter::RowScore) / sizeof(float) : 0);
  }
  std::uint64_t bytes() const { return kHeadBytes + floats() * sizeof(float); }
  // kData unless `rows` are `count` whole rows: the bytes that a peer sent, and the count it named.
  Status check(ByteSpan rows, std::uint64_t count) const;

  // Appends a row, and returns the place of its floats, which the caller writes. `to` should have
  // room for the row: growth copies byte by byte.
  std::span<float> add(std::uint64_t id, std::uint64_t marks, Bytes& to) const {
    const std::size_t begin = to.size();
    to.resize(begin + bytes());
    std::byte* const row = to.data() + begin;
    store_le(row, id);
    store_le(row + sizeof(id), marks);
    return floats_at(row);
  }
  // REQUIRES: the row's value and state have the widths of this form.
  void add(const Row& row, Bytes& to) const;
  // The row at `from`, which points into it.
  Row read(const std::byte* from) const;
  std::span<float> floats_at(std::byte* from) const {
    return {reinterpret_cast<float*>(from + kHeadBytes), floats()};
  }
  std::span<const float> floats_at(const std::byte* from) const {
    return {reinterpret_cast<const float*>(from + kHeadBytes), floats()};
  }
  static std::uint64_t id_at(const std::byte* from) { return load_le<std::uint64_t>(from); }
  static std::uint64_t marks_at(const std::byte* from) {
    return load_le<std::uint64_t>(from + sizeof(std::uint64_t));
  }
};

}  // namespace paddle::table
