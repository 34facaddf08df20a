#include "engine/model/parameters.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "engine/table/parameter_set.h"

namespace paddle::inference {
namespace {

constexpr std::uint64_t kRowsReserved = 4096;  // at a time

// Tables are never trained here: they have no optimizer state, and their rows neither age nor
// expire.
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

// Subtracts the table's bytes from `bytes_left`.
Status load_table(const snapshot::SnapshotReader& snapshot, const std::string& name,
                  table::SparseTable& table, std::uint64_t& bytes_left) {
  std::uint64_t reserved = 0;
  const auto put = [&](const table::Row& row) -> Status {
    if (row.marks.sightings > 0) return {};  // not admitted: it has no row yet
    if (reserved == 0) {
      if (table.bytes_for(table.rows() + kRowsReserved) > bytes_left) {
        return Error{Errc::kResource,
                     fmt::format("snapshot {}: the rows of table '{}' do not fit in memory, after "
                                 "{} rows of {} bytes",
                                 snapshot.directory(), name, table.rows(), table.bytes_for(1)),
                     "use a machine with more memory"};
      }
      PADDLE_TRY_STATUS(table.reserve(kRowsReserved));
      reserved = kRowsReserved;
    }
    --reserved;
    if (table.put({.id = row.id, .marks = {}, .value = row.value, .state = {}})) return {};
    return Error{Errc::kData, fmt::format("snapshot {}: table '{}' has row {} more than once",
                                          snapshot.directory(), name, row.id)};
  };
  PADDLE_TRY_STATUS(snapshot.read_rows(name, put));
  bytes_left -= std::min(bytes_left, table.bytes_for(table.rows()));
  return {};
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
                                    const std::vector<wire::ParameterSpec>& specs,
                                    std::uint64_t bytes_max) {
  PADDLE_TRY_STATUS(check_shapes(snapshot, specs));
  const wire::ParameterSet set = set_to_read(specs, snapshot.info().seed);
  Parameters parameters;
  parameters.specs_ = specs;
  parameters.dense_.resize(specs.size());
  parameters.tables_.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].sparse()) {
      auto& table = parameters.tables_[i];
      table = std::make_unique<table::SparseTable>(set, static_cast<std::uint32_t>(i));
      PADDLE_TRY_STATUS(load_table(snapshot, specs[i].name(), *table, bytes_max));
      continue;
    }
    PADDLE_TRY(parameters.dense_[i], snapshot.read_dense_value(specs[i].name()));
  }
  return parameters;
}

RowCounts Parameters::read_rows(std::size_t parameter, std::span<const std::uint64_t> ids,
                                std::vector<float>& to, DistinctIds* distinct) const {
  thread_local std::vector<std::uint32_t> numbers;
  const table::SparseTable& table = *tables_[parameter];
  to.resize(ids.size() * table.width());
  numbers.resize(ids.size());
  table.read_to_test(ids, to, numbers.data());
  if (distinct != nullptr) distinct->add(parameter, ids, numbers);
  const auto absent = std::ranges::count(numbers, table::RowIndex::kNone);
  return {ids.size(), static_cast<std::uint64_t>(absent)};
}

DistinctIds::DistinctIds(const Parameters& parameters) : parameters_(parameters) {
  for (const auto& table : parameters.tables_)
    tables_.push_back(table ? std::make_unique<Table>(table->rows()) : nullptr);
}

void DistinctIds::add(std::size_t parameter, std::span<const std::uint64_t> ids,
                      std::span<const std::uint32_t> numbers) {
  Table& table = *tables_[parameter];
  std::unique_lock lock(mutex_, std::defer_lock);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (numbers[i] == table::RowIndex::kNone) {
      if (!lock.owns_lock()) lock.lock();
      if (table.absent.size() < kAbsentMax) table.absent.insert(ids[i]);
      continue;
    }
    std::atomic<std::uint64_t>& bits = table.found[numbers[i] / 64];
    const std::uint64_t bit = std::uint64_t{1} << numbers[i] % 64;
    if ((bits.load(std::memory_order_relaxed) & bit) == 0)
      bits.fetch_or(bit, std::memory_order_relaxed);
  }
}

std::uint64_t DistinctIds::absent() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  for (const auto& table : tables_) count += table ? table->absent.size() : 0;
  return count;
}

std::uint64_t DistinctIds::asked() const {
  std::uint64_t count = absent();
  for (const auto& table : tables_) {
    if (!table) continue;
    for (const auto& bits : table->found)
      count += static_cast<std::uint64_t>(std::popcount(bits.load(std::memory_order_relaxed)));
  }
  return count;
}

std::string DistinctIds::note() const {
  bool is_drawn = false, is_zero = true, is_dropped = false, is_bounded = false;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const wire::ParameterSpec& spec = parameters_.specs_[i];
    const std::uint64_t absent = tables_[i] ? tables_[i]->absent.size() : 0;
    if (absent == 0 || spec.is_static()) continue;  // a static table never has rows
    count += absent;
    is_bounded = is_bounded || absent == kAbsentMax;
    const wire::TablePolicy& policy = spec.table();
    const bool takes_all = table::EntryPolicy(policy, 0).takes_all();
    is_drawn = is_drawn || table::draws_unseen(spec);
    is_zero = is_zero && (!takes_all || spec.initial_mean() == 0);
    is_dropped = is_dropped || !takes_all || policy.expire_passes() > 0 || policy.has_shrink() ||
                 policy.evict();
  }
  if (count == 0) return "";
  return fmt::format("{}{} of {} distinct ids {}; each reads as {}", is_bounded ? "at least " : "",
                     count, asked(),
                     is_dropped ? "have no row: training never saw them, or their table did not "
                                  "keep them"
                                : "do not occur in the training data",
                     is_drawn  ? "the initial value that training would draw for it"
                     : is_zero ? "zeros"
                               : "the mean of its table's initial values");
}

}  // namespace paddle::inference
