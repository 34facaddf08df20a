#include "engine/inference/parameters.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/parameter/parameter_set.h"

namespace paddle::inference {
namespace {

constexpr std::uint64_t kRowsReserved = 4096;  // at a time

// Tables are never trained here: no optimizer state, and rows neither age nor go.
wire::ParameterSet set_to_read(const std::vector<wire::ParameterSpec>& specs, std::uint64_t seed) {
  wire::ParameterSet set;
  set.mutable_optimizer()->set_method("sgd");
  set.set_seed(seed);
  for (const wire::ParameterSpec& spec : specs) {
    wire::ParameterSpec& added = *set.add_parameters();
    added = spec;
    if (!added.has_table()) continue;
    wire::TablePolicy& policy = *added.mutable_table();
    policy.clear_shrink();
    policy.clear_expire_passes();
    policy.clear_bytes_max();
    policy.clear_evict();
  }
  return set;
}

Status check_shape(const snapshot::SnapshotReader& snapshot,
                   const std::vector<wire::ParameterSpec>& saved, const wire::ParameterSpec& spec) {
  const auto found = std::ranges::find(saved, spec.name(), &wire::ParameterSpec::name);
  const bool is_there = found != saved.end();
  if (is_there && found->sparse() == spec.sparse() &&
      parameter::row_width(*found) == parameter::row_width(spec) &&
      (spec.sparse() || parameter::element_count(*found) == parameter::element_count(spec)))
    return {};
  return Error{Errc::kData,
               fmt::format("snapshot {}: parameter '{}' is {}", snapshot.directory(), spec.name(),
                           is_there ? "of another shape" : "missing"),
               "the job.toml must be that of the snapshot"};
}

Status load_table(const snapshot::SnapshotReader& snapshot, const std::string& name,
                  table::SparseTable& table) {
  std::uint64_t reserved = 0;
  return snapshot.read_rows(name, [&](const snapshot::SparseRow& row) -> Status {
    const auto marks = parameter::RowMarks::unpack(row.marks);
    if (marks.sightings > 0) return {};  // not admitted: it has no row yet
    if (reserved == 0) {
      PADDLE_TRY_STATUS(table.reserve(kRowsReserved));
      reserved = kRowsReserved;
    }
    --reserved;
    if (table.put({.id = row.id, .marks = {}, .value = row.value, .state = {}})) return {};
    return Error{Errc::kData, fmt::format("snapshot {}: table '{}' has row {} more than once",
                                          snapshot.directory(), name, row.id)};
  });
}

}  // namespace

Status check_shapes(const snapshot::SnapshotReader& snapshot,
                    const std::vector<wire::ParameterSpec>& specs) {
  const auto saved = snapshot.parameters();
  for (const wire::ParameterSpec& spec : specs)
    PADDLE_TRY_STATUS(check_shape(snapshot, saved, spec));
  return {};
}

Result<Parameters> Parameters::load(const snapshot::SnapshotReader& snapshot,
                                    const std::vector<wire::ParameterSpec>& specs) {
  PADDLE_TRY_STATUS(check_shapes(snapshot, specs));
  const wire::ParameterSet set = set_to_read(specs, snapshot.info().seed);
  Parameters parameters;
  parameters.dense_.resize(specs.size());
  parameters.tables_.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].sparse()) {
      auto& table = parameters.tables_[i];
      table = std::make_unique<table::SparseTable>(set, static_cast<std::uint32_t>(i));
      PADDLE_TRY_STATUS(load_table(snapshot, specs[i].name(), *table));
      continue;
    }
    PADDLE_TRY(parameters.dense_[i], snapshot.read_dense_value(specs[i].name()));
  }
  return parameters;
}

RowCounts Parameters::read_rows(std::size_t parameter, std::span<const std::uint64_t> ids,
                                std::vector<float>& to) const {
  thread_local std::vector<std::uint32_t> scratch;
  const table::SparseTable& table = *tables_[parameter];
  to.resize(ids.size() * table.width());
  return {ids.size(), table.read_and_count_absent(ids, to, scratch)};
}

}  // namespace paddle::inference
