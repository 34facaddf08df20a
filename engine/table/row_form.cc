#include "engine/table/row_form.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/table/parameter_set.h"

namespace paddle::table {

RowForm RowForm::of(const wire::ParameterSpec& spec, std::uint64_t state_width) {
  return {parameter::row_width(spec), state_width, spec.table().has_shrink()};
}

Status RowForm::check(ByteSpan rows, std::uint64_t count) const {
  if (rows.size() % bytes() == 0 && rows.size() / bytes() == count) return {};
  return Error{Errc::kData, fmt::format("expected {} rows of {} bytes, found {} bytes", count,
                                        bytes(), rows.size())};
}

void RowForm::add(const Row& row, Bytes& to) const {
  PADDLE_CHECK(row.value.size() == width && row.state.size() == state_floats());
  float* const floats = add(row.id, row.marks.pack(), to).data();
  std::ranges::copy(row.value, floats);
  std::ranges::copy(row.state, floats + width);
  if (!has_score) return;
  floats[width + state_floats()] = row.score.shows;
  floats[width + state_floats() + 1] = row.score.clicks;
}

Row RowForm::read(const std::byte* from) const {
  const std::span<const float> floats = floats_at(from);
  Row row{.id = id_at(from),
          .marks = parameter::RowMarks::unpack(marks_at(from)),
          .value = floats.first(width),
          .state = floats.subspan(width, state_floats())};
  if (has_score) row.score = {floats[floats.size() - 2], floats[floats.size() - 1]};
  return row;
}

}  // namespace paddle::table
