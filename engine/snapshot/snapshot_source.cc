#include "engine/snapshot/snapshot_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::snapshot {

SnapshotSource::SnapshotSource(const wire::ParameterSet& set, const SnapshotReader& reader)
    : set_(set),
      reader_(reader),
      with_state_(optim::same_state(reader.info().optimizer, set.optimizer())),
      has_average_(optim::has_average(set.optimizer())),
      state_width_(optim::state_width(set.optimizer())) {}

Status SnapshotSource::check() const {
  if (!with_state_) {
    log_warning(
        "snapshot {} was trained with {}, this job uses {} or other options: the optimizer state "
        "starts from its initial values",
        reader_.directory(), reader_.info().optimizer.method(), set_.optimizer().method());
  }
  const auto saved = reader_.parameters();
  for (const wire::ParameterSpec& spec : set_.parameters()) {
    const auto found = std::ranges::find(saved, spec.name(), &wire::ParameterSpec::name);
    if (found == saved.end() || found->sparse() != spec.sparse() ||
        parameter::row_width(*found) != parameter::row_width(spec) ||
        (!spec.sparse() && parameter::element_count(*found) != parameter::element_count(spec))) {
      return Error{Errc::kData,
                   fmt::format("snapshot {}: parameter '{}' is {}", reader_.directory(),
                               spec.name(), found == saved.end() ? "missing" : "of another shape"),
                   "load a snapshot of the same network"};
    }
    if (spec.table().has_shrink() && !found->table().has_shrink()) {
      return Error{
          Errc::kData,
          fmt::format("snapshot {}: table '{}' has no shows and clicks, which 'shrink' needs",
                      reader_.directory(), spec.name()),
          "continue without shrink, or start from the beginning"};
    }
  }
  return {};
}

Result<wire::LoadBegin> SnapshotSource::place(bool resumes) const {
  const SnapshotInfo& info = reader_.info();
  wire::LoadBegin begin;
  begin.set_step(info.step);
  begin.set_passes_finished(resumes ? info.pass : 0);
  begin.set_samples(info.samples);
  if (info.trainer_cursors.size() == set_.num_trainers()) {
    for (const std::uint64_t cursor : info.trainer_cursors) begin.add_cursors(cursor);
  }
  if (resumes && !info.pass_batches.empty()) {
    if (info.pass_batches.size() != set_.num_trainers()) {
      return Error{
          Errc::kUsage,
          fmt::format("snapshot {} is from the middle of {}, which {} trainers shared",
                      reader_.directory(), pass_words(info.pass), info.pass_batches.size()),
          fmt::format("continue with {} trainers", info.pass_batches.size())};
    }
    for (const std::uint64_t batches : info.pass_batches) begin.add_pass_batches(batches);
  }
  return begin;
}

wire::PassOrigins SnapshotSource::origins(bool resumes) const {
  const SnapshotInfo& info = reader_.info();
  wire::PassOrigins origins;
  if (!resumes || !info.place) return origins;
  origins.set_pass(info.pass);
  for (std::size_t i = 0; i < info.pass_batches.size(); ++i) {
    origins.add_batches(info.pass_batches[i]);
    origins.add_records(info.place->records[i]);
    origins.add_data(info.place->data[i]);
  }
  return origins;
}

void SnapshotSource::convert(const wire::ParameterSpec& spec, std::span<float> value,
                             std::span<float> state) const {
  if (!with_state_) return optim::UpdateRule(set_.optimizer(), spec).start(value, state);
  if (has_average_) optim::swap_average(value, state);
}

Result<SnapshotSource::Dense> SnapshotSource::dense(std::uint32_t parameter) const {
  const auto& spec = set_.parameters(static_cast<int>(parameter));
  Dense dense;
  PADDLE_TRY_STATUS(reader_.read_dense(spec.name(), dense.value, dense.state, dense.update_count));
  const std::uint64_t elements = parameter::element_count(spec);
  const std::uint64_t state = elements * state_width_;
  if (dense.value.size() != elements || (with_state_ && dense.state.size() != state)) {
    return Error{Errc::kData, fmt::format("parameter '{}' has another size", spec.name())};
  }
  dense.state.resize(state);
  convert(spec, dense.value, dense.state);
  if (!with_state_) dense.update_count = 0;
  return dense;
}

table::RowForm SnapshotSource::form(const wire::ParameterSpec& spec) const {
  return table::RowForm::of(spec, state_width_);
}

Status SnapshotSource::append(const wire::ParameterSpec& spec, const table::Row& row,
                              Bytes& to) const {
  const table::RowForm form = this->form(spec);
  if (row.value.size() != form.width || (with_state_ && row.state.size() != form.state_floats())) {
    return Error{Errc::kData,
                 fmt::format("row {} of table '{}' has another width", row.id, spec.name())};
  }
  table::Row own = row;
  const std::vector<float> zeros(with_state_ ? 0 : form.state_floats());
  if (!with_state_) {
    own.marks.updates = 0;
    own.state = zeros;
  }
  form.add(own, to);
  const auto floats = form.floats_at(to.data() + to.size() - form.bytes());
  convert(spec, floats.first(form.width), floats.subspan(form.width, form.state_floats()));
  return {};
}

}  // namespace paddle::snapshot
