// Rows of a card's table in snapshots. They lie one after the other in every plane, so a run of
// them takes one copy a plane.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/parameter/row_notes.h"
#include "engine/snapshot/reader.h"
#include "engine/strategy/card/card_table.h"

namespace paddle::strategy {
namespace {

constexpr std::size_t kRunBytes = 8U << 20U;

}  // namespace

std::size_t CardTable::rows_of_run() const {
  return std::max<std::size_t>(1, kRunBytes / bytes_per_row());
}

Status CardTable::save(snapshot::SnapshotWriter& writer) {
  PADDLE_TRY_STATUS(finish());
  PADDLE_TRY_STATUS(writer.begin_sparse(spec_, static_cast<std::uint32_t>(state_width_)));
  const std::size_t planes = 1 + state_width_;
  std::vector<snapshot::SparseRow> saved;
  for (std::size_t begin = 0; begin < rows(); begin += rows_of_run()) {
    const std::size_t count = std::min(rows_of_run(), rows() - begin);
    const std::size_t size = count * width_;
    PADDLE_TRY_STATUS(wait());
    PADDLE_TRY_STATUS(room_.reserve(size * planes));
    PADDLE_TRY_STATUS(update_room_.reserve(count));
    for (std::size_t p = 0; p < planes; ++p) {
      download(plane(p) + begin * width_, room_.data() + p * size, size);
    }
    if (counts_) download(rows_.updates.data() + begin, update_room_.data(), count);
    PADDLE_TRY_STATUS(wait());
    saved.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      snapshot::SparseRow& row = saved[i];
      const parameter::RowMarks marks{.updates = counts_ ? update_room_.data()[i] : 0};
      row.id = ids_[begin + i];
      row.marks = marks.pack();
      const float* const value = room_.data() + i * width_;
      row.value.assign(value, value + width_);
      row.state.clear();
      for (std::size_t p = 1; p < planes; ++p) {
        row.state.insert(row.state.end(), value + p * size, value + p * size + width_);
      }
      if (rule_.has_average()) optim::swap_average(row.value, row.state);
    }
    PADDLE_TRY_STATUS(writer.add_rows(saved));
  }
  return writer.end_sparse();
}

Status CardTable::load(const snapshot::SnapshotReader& reader,
                       const snapshot::SnapshotSource& source) {
  PADDLE_TRY_STATUS(finish());
  index_ = table::RowIndex();
  ids_.clear();
  absent_.clear();
  Run run;
  PADDLE_TRY_STATUS(reader.read_rows(spec_.name(), [&](const snapshot::SparseRow& row) -> Status {
    // An id that was seen too seldom for a row.
    if (parameter::RowMarks::unpack(row.marks).sightings > 0) return {};
    PADDLE_TRY(const parameter::RowMarks marks, source.append(spec_, row, run.values, run.state));
    run.ids.push_back(row.id);
    run.updates.push_back(marks.updates);
    return run.ids.size() < rows_of_run() ? Status() : put(run);
  }));
  return put(run);
}

Status CardTable::put(Run& run) {
  const std::size_t count = run.ids.size();
  const std::size_t size = count * width_;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(run.values, is_finite) || !std::ranges::all_of(run.state, is_finite)) {
    return Error{Errc::kData, fmt::format("table '{}' has a row that is not finite", spec_.name())};
  }
  PADDLE_TRY_STATUS(reserve(rows() + count));
  PADDLE_TRY_STATUS(wait());
  PADDLE_TRY_STATUS(room_.reserve(size * (1 + state_width_)));
  PADDLE_TRY_STATUS(update_room_.reserve(count));
  std::ranges::copy(run.values, room_.data());
  for (std::size_t i = 0; i < run.state.size(); ++i) {
    const std::size_t in_row = i % (state_width_ * width_);
    const std::size_t row = i / (state_width_ * width_);
    const std::size_t p = 1 + in_row / width_;
    room_.data()[p * size + row * width_ + in_row % width_] = run.state[i];
  }
  const std::size_t first = rows() * width_;
  for (std::size_t p = 0; p <= state_width_; ++p) {
    upload(room_.data() + p * size, plane(p) + first, size);
  }
  if (counts_) {
    std::ranges::copy(run.updates, update_room_.data());
    upload(update_room_.data(), rows_.updates.data() + rows(), count);
  }
  PADDLE_TRY_STATUS(wait());
  PADDLE_TRY_STATUS(append(run.ids));
  run = {};
  return {};
}

}  // namespace paddle::strategy
