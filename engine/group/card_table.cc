#include "engine/group/card_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/gpu/device.h"
#include "engine/snapshot/reader.h"
#include "engine/table/entry_policy.h"
#include "engine/table/lookup.h"
#include "engine/table/parameter_set.h"
#include "engine/table/row_notes.h"
#include "engine/table/row_store.h"

namespace paddle::strategy {
namespace {

constexpr std::size_t kRowsMin = 4096;
constexpr const char* kWayOut = "train with a pserver, which supports it: --pservers 1";
constexpr const char* kMoreRoom =
    "train with pservers, whose nodes have more memory: --pservers 1 or more";
constexpr std::size_t kRunBytes = 8U << 20U;

std::size_t rows_max_of(const wire::ParameterSet& set, const wire::ParameterSpec& spec) {
  return static_cast<std::size_t>(table::RowLayout(set, spec).rows_max);
}

// The counts as floats, for kernels that only move the bits.
float* as_floats(std::uint32_t* counts) {
  return reinterpret_cast<float*>(counts);
}

}  // namespace

Status CardTable::check(const wire::ParameterSet& set, const wire::ParameterSpec& spec) {
  const wire::TablePolicy& policy = spec.table();
  const wire::Optimizer& optimizer = set.optimizer();
  const char* what = nullptr;
  if (!table::EntryPolicy(policy, 0).takes_all()) {
    what = "entry_count, entry_probability or entry";
  } else if (policy.expire_passes() > 0) {
    what = "expire_passes";
  } else if (policy.has_shrink()) {
    what = "shrink";
  } else if (policy.evict()) {
    what = "on_full = \"evict\"";
  } else if (spec.clip_norm() > 0 || optimizer.clip_norm() > 0 ||
             optimizer.clip_global_norm() > 0) {
    what = "clip_norm or clip_global_norm";
  } else if (set.delta_snapshots()) {
    what = "full_snapshot_period";
  } else if (set.sparse_strategy() != wire::STRATEGY_SYNC) {
    what = "[strategy] sparse other than \"sync\"";
  }
  if (what == nullptr) return {};
  return Error{Errc::kUsage,
               fmt::format("table '{}' would be on the GPU, but {} is not supported on GPUs",
                           spec.name(), what),
               kWayOut};
}

CardTable::CardTable(const wire::ParameterSet& set, std::uint32_t index,
                     device::ComputeStream compute, Duration patience)
    : spec_(set.parameters(static_cast<int>(index))),
      parameter_(index),
      compute_(compute),
      device_(*compute.device),
      patience_(patience),
      rule_(set.optimizer(), spec_),
      width_(parameter::row_width(spec_)),
      state_width_(rule_.state_width()),
      counts_(optim::counts_updates(set.optimizer())),
      rows_max_(rows_max_of(set, spec_)),
      initial_(spec_, set.seed(), width_),
      unseen_(optim::InitialRows::unseen(spec_, set.seed(), width_)),
      rows_(device_),
      batch_(device_),
      room_(device_),
      update_room_(device_),
      not_finite_(device_),
      found_(device_) {}

// Waits, since the card may still run work that uses this memory.
CardTable::~CardTable() {
  if (done_) device::drain(device_, compute_.stream, done_->handle());
}

Status CardTable::start(std::uint64_t vocabulary) {
  PADDLE_TRY(sent_, device::Event::make(device_));
  PADDLE_TRY(done_, device::Event::make(device_));
  PADDLE_TRY_STATUS(not_finite_.reserve(1));
  PADDLE_TRY_STATUS(found_.reserve(1));
  device_.launch(compute_.stream, kernels::device::Fill{1, 0, as_floats(not_finite_.data())});
  device_.record(compute_.stream, sent_->handle());
  std::size_t most = rows_max_;
  if (vocabulary > 0) most = std::min<std::size_t>(most, vocabulary);
  return move_to(most < table::RowStore::kRowsMax ? most : kRowsMin);
}

Status CardTable::find(client::SparseRows& rows, Reads reads) {
  number(rows);
  PADDLE_TRY_STATUS(reserve(this->rows() + absent_.size()));
  PADDLE_TRY_STATUS(reserve_batch(rows.ids.size()));
  return place(rows, reads);
}

// All commands are given to the compute stream, behind the update.
Result<bool> CardTable::find_ahead(client::SparseRows& rows) {
  number(rows);
  if (this->rows() + absent_.size() > rows_.capacity || rows.ids.size() > batch_.rows_max ||
      absent_.size() * width_ > room_.capacity()) {
    return false;
  }
  PADDLE_TRY_STATUS(place(rows, Reads::kToTrain));
  return true;
}

Status CardTable::update(const client::SparseRows& rows, float learning_rate) {
  PADDLE_TRY_STATUS(finish());
  const std::vector<std::uint32_t>& numbers = rows.card.numbers;
  const auto made = std::exchange(absent_, {});
  if (rule_.is_static() || numbers.empty()) return {};
  PADDLE_TRY_STATUS(append(made));
  std::ranges::copy(numbers, batch_.numbers.data());
  upload(batch_.numbers.data(), batch_.on_card.data(), numbers.size());
  const optim::Step step = rule_.unnumbered_step(learning_rate);
  if (counts_) {
    device_.launch(compute_.stream, kernels::device::CountUpdates{.rows = numbers.size(),
                                                                  .numbers = batch_.on_card.data(),
                                                                  .step = step,
                                                                  .counts = rule_.counts_updates(),
                                                                  .average = rule_.average(),
                                                                  .updates = rows_.updates.data(),
                                                                  .steps = batch_.steps.data()});
  }
  device_.launch(
      compute_.stream,
      kernels::device::UpdateRows{.rows = numbers.size(),
                                  .width = width_,
                                  .numbers = batch_.on_card.data(),
                                  .step = step,
                                  .steps = counts_ ? batch_.steps.data() : nullptr,
                                  .gradients = batch_.gradients.data(),
                                  .values = plane(0),
                                  .state = state_width_ > 0 ? plane(1) : nullptr,
                                  .plane_stride = rows_.capacity * width_,
                                  .averages = rule_.has_average() ? plane(state_width_) : nullptr,
                                  .not_finite = not_finite_.data()});
  download(not_finite_.data(), found_.data(), 1);
  device_.record(compute_.stream, done_->handle());
  is_under_way_ = true;
  return {};
}

Status CardTable::finish() {
  if (!std::exchange(is_under_way_, false)) return {};
  PADDLE_TRY_STATUS(await(*done_));
  if (*found_.data() == 0) return {};
  return Error{Errc::kFailed,
               fmt::format("the gradients of a step made values of '{}' or their optimizer's state "
                           "not finite",
                           spec_.name()),
               "lower optimizer.learning_rate"};
}

client::TableTotals CardTable::totals() const {
  return {.rows = rows(),
          .bytes = rows_.capacity * bytes_per_row(),
          .payload_bytes = rows() * bytes_per_row()};
}

// Snapshots. Rows lie one after the other in every plane, so a run of rows takes one copy per
// plane.

Status CardTable::save(snapshot::SnapshotWriter& writer) {
  PADDLE_TRY_STATUS(finish());
  PADDLE_TRY_STATUS(writer.begin_sparse(spec_, static_cast<std::uint32_t>(state_width_)));
  const table::RowForm form = table::RowForm::of(spec_, state_width_);
  const std::size_t planes = 1 + state_width_;
  Bytes saved;
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
    saved.clear();
    saved.reserve(count * form.bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const parameter::RowMarks marks{.updates = counts_ ? update_room_.data()[i] : 0};
      const std::span<float> floats = form.add(ids_[begin + i], marks.pack(), saved);
      for (std::size_t p = 0; p < planes; ++p) {
        std::copy_n(room_.data() + p * size + i * width_, width_, floats.data() + p * width_);
      }
      if (rule_.has_average()) {
        optim::swap_average(floats.first(width_), floats.subspan(width_));
      }
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
  const table::RowForm form = source.form(spec_);
  Bytes run;
  const auto take_row = [&](const table::Row& row) -> Status {
    // This id has not been seen often enough to have a row.
    if (row.marks.sightings > 0) return {};
    if (run.empty()) run.reserve(rows_of_run() * form.bytes());
    PADDLE_TRY_STATUS(source.append(spec_, row, run));
    return run.size() < rows_of_run() * form.bytes() ? Status() : put(form, run);
  };
  PADDLE_TRY_STATUS(reader.read_rows(spec_.name(), take_row));
  return put(form, run);
}

// Memory for rows, and the work of the card.

std::size_t CardTable::bytes_per_row() const {
  return width_ * (1 + state_width_) * sizeof(float) + (counts_ ? sizeof(std::uint32_t) : 0);
}

void CardTable::look_up(std::span<const std::uint64_t> ids,
                        std::vector<std::uint32_t>& numbers) const {
  numbers.assign(ids.size(), table::RowIndex::kNone);
  if (index_.size() == 0) return;
  table::LookupBlock block;
  for (std::size_t begin = 0; begin < ids.size(); begin += table::LookupBlock::kIds) {
    const std::size_t count = std::min(table::LookupBlock::kIds, ids.size() - begin);
    block.find(index_, ids.subspan(begin, count));
    std::copy_n(block.numbers.begin(), count, numbers.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

// Ids without a row get the numbers after those of the table's rows.
void CardTable::number(client::SparseRows& rows) {
  std::vector<std::uint32_t>& numbers = rows.card.numbers;
  look_up(rows.ids, numbers);
  absent_.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != table::RowIndex::kNone) continue;
    numbers[i] = static_cast<std::uint32_t>(this->rows() + absent_.size());
    absent_.push_back(rows.ids[i]);
  }
}

// The values of the new rows are in their places already.
Status CardTable::append(std::span<const std::uint64_t> ids) {
  PADDLE_TRY_STATUS(index_.reserve(ids.size()));
  index_.make_room(ids.size());
  for (const std::uint64_t id : ids) {
    index_.insert(id, static_cast<std::uint32_t>(rows()));
    ids_.push_back(id);
  }
  return {};
}

// Existing rows stay. If an allocation with half as much again fails, one of just the needed size
// may succeed.
Status CardTable::reserve(std::size_t count) {
  if (count <= rows_.capacity) return {};
  if (count > rows_max_) {
    return Error{
        Errc::kResource,
        fmt::format("table '{}' would have more than the {} rows that its bytes_max allows",
                    spec_.name(), rows_max_),
        "raise bytes_max"};
  }
  const std::size_t more = std::min(rows_max_, std::max(count, rows_.capacity / 2 * 3));
  Status moved = move_to(more);
  if (moved || moved.error().code != Errc::kResource || more == count) return moved;
  return move_to(count);
}

Status CardTable::move_to(std::size_t capacity) {
  Rows larger(device_);
  larger.capacity = capacity;
  auto made = larger.planes.reserve(capacity * width_ * (1 + state_width_));
  if (made && counts_) made = larger.updates.reserve(capacity);
  if (!made) {
    Error error = std::move(made).error();
    if (error.code != Errc::kResource) return error;
    const std::size_t mib = (capacity * bytes_per_row() >> 20U) + 1;
    return Error{Errc::kResource,
                 fmt::format("table '{}' needs {} MiB of its GPU for {} rows: {}", spec_.name(),
                             mib, capacity, error.message),
                 kMoreRoom};
  }
  for (std::size_t p = 0; p <= state_width_ && rows() > 0; ++p) {
    float* const to = larger.planes.data() + p * capacity * width_;
    device_.launch(compute_.stream, kernels::device::CopyBlock{
                                        rows(), width_, {plane(p), width_}, {to, width_}, false});
  }
  if (counts_ && rows() > 0) {
    device_.launch(compute_.stream,
                   kernels::device::CopyBlock{1,
                                              rows(),
                                              {as_floats(rows_.updates.data()), 0},
                                              {as_floats(larger.updates.data()), 0},
                                              false});
  }
  PADDLE_TRY_STATUS(wait());
  rows_ = std::move(larger);
  return {};
}

// Rounds up to a power of two, as the executor does.
Status CardTable::reserve_batch(std::size_t rows) {
  rows = std::bit_ceil(rows);
  if (rows <= batch_.rows_max) return {};
  PADDLE_TRY_STATUS(wait());
  PADDLE_TRY_STATUS(batch_.numbers.reserve(rows));
  PADDLE_TRY_STATUS(batch_.on_card.reserve(rows));
  if (counts_) PADDLE_TRY_STATUS(batch_.steps.reserve(rows));
  PADDLE_TRY_STATUS(batch_.gradients.reserve(rows * width_));
  batch_.rows_max = rows;
  return {};
}

Status CardTable::place(client::SparseRows& rows, Reads reads) {
  rows.card.place = {plane(reads == Reads::kToTest && rule_.has_average() ? state_width_ : 0),
                     batch_.gradients.data()};
  rows.card.rows_max = batch_.rows_max;
  rows.values.clear();
  rows.gradients.clear();
  if (absent_.empty()) return {};
  PADDLE_TRY_STATUS(await(*sent_));
  PADDLE_TRY_STATUS(room_.reserve(std::bit_ceil(absent_.size()) * width_));
  std::vector<optim::InitialRows::Row> wanted;
  for (const std::uint64_t id : absent_) {
    wanted.push_back({id, room_.data() + wanted.size() * width_});
  }
  (reads == Reads::kToTest ? unseen_ : initial_).fill(wanted);
  const std::size_t at = this->rows() * width_;
  const std::size_t size = absent_.size() * width_;
  upload(room_.data(), plane(0) + at, size);
  for (std::size_t p = 1; p <= state_width_; ++p) {
    if (rule_.has_average() && p == state_width_) {  // the average begins as the value
      upload(room_.data(), plane(p) + at, size);
    } else {
      device_.launch(compute_.stream, kernels::device::Fill{size, 0, plane(p) + at});
    }
  }
  if (counts_) {
    device_.launch(
        compute_.stream,
        kernels::device::Fill{absent_.size(), 0, as_floats(rows_.updates.data() + this->rows())});
  }
  device_.record(compute_.stream, sent_->handle());
  return {};
}

std::size_t CardTable::rows_of_run() const {
  return std::max<std::size_t>(1, kRunBytes / bytes_per_row());
}

Status CardTable::put(const table::RowForm& form, Bytes& run) {
  const std::size_t count = run.size() / form.bytes();
  const std::size_t size = count * width_;
  PADDLE_TRY_STATUS(reserve(rows() + count));
  PADDLE_TRY_STATUS(wait());
  PADDLE_TRY_STATUS(room_.reserve(size * (1 + state_width_)));
  PADDLE_TRY_STATUS(update_room_.reserve(count));
  std::vector<std::uint64_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    const table::Row row = form.read(run.data() + i * form.bytes());
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!std::ranges::all_of(row.value, is_finite) || !std::ranges::all_of(row.state, is_finite)) {
      return Error{Errc::kData,
                   fmt::format("table '{}' has a row that is not finite", spec_.name())};
    }
    ids[i] = row.id;
    if (counts_) update_room_.data()[i] = row.marks.updates;
    std::ranges::copy(row.value, room_.data() + i * width_);
    for (std::size_t p = 1; p <= state_width_; ++p) {
      std::copy_n(row.state.data() + (p - 1) * width_, width_,
                  room_.data() + p * size + i * width_);
    }
  }
  const std::size_t first = rows() * width_;
  for (std::size_t p = 0; p <= state_width_; ++p) {
    upload(room_.data() + p * size, plane(p) + first, size);
  }
  if (counts_) {
    upload(update_room_.data(), rows_.updates.data() + rows(), count);
  }
  PADDLE_TRY_STATUS(wait());
  PADDLE_TRY_STATUS(append(ids));
  run.clear();
  return {};
}

Status CardTable::wait() {
  device_.record(compute_.stream, done_->handle());
  return await(*done_);
}

Status CardTable::await(const device::Event& event) {
  return device::as_own(device_.wait(event.handle(), SteadyClock().now() + patience_));
}

Status CardTables::check(const wire::ParameterSet& set) {
  for (const wire::ParameterSpec& spec : set.parameters()) {
    if (spec.sparse()) PADDLE_TRY_STATUS(CardTable::check(set, spec));
  }
  return {};
}

Result<std::unique_ptr<CardTables>> CardTables::create(
    const wire::ParameterSet& set, device::ComputeStream compute,
    std::span<const std::uint64_t> vocabularies) {
  std::unique_ptr<CardTables> made(new CardTables(set));
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set.parameters_size()); ++i) {
    const wire::ParameterSpec& spec = set.parameters(static_cast<int>(i));
    if (!spec.sparse()) continue;
    made->tables_.push_back(std::make_unique<CardTable>(set, i, compute));
    PADDLE_TRY_STATUS(made->tables_.back()->start(vocabularies[i]));
    log_info("table '{}' is on GPU {} ({})", spec.name(), compute.device->card().index,
             compute.device->card().name);
  }
  return made;
}

Status CardTables::find(std::span<client::SparseRows> rows, CardTable::Reads reads) {
  for (client::SparseRows& one : rows) {
    PADDLE_TRY_STATUS(table_of(one.parameter)->find(one, reads));
  }
  return {};
}

Result<bool> CardTables::find_ahead(std::span<client::SparseRows> rows) {
  for (client::SparseRows& one : rows) {
    PADDLE_TRY(const bool found, table_of(one.parameter)->find_ahead(one));
    if (!found) return false;
  }
  return true;
}

Status CardTables::update(std::span<const client::SparseRows> rows, float learning_rate) {
  for (const client::SparseRows& one : rows) {
    PADDLE_TRY_STATUS(table_of(one.parameter)->update(one, learning_rate));
  }
  return {};
}

Status CardTables::finish() {
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->finish());
  return {};
}

Status CardTables::save(snapshot::SnapshotWriter& writer) {
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->save(writer));
  return {};
}

Status CardTables::load(const snapshot::SnapshotReader& reader) {
  const snapshot::SnapshotSource source(set_, reader);
  for (const auto& table : tables_) PADDLE_TRY_STATUS(table->load(reader, source));
  return {};
}

std::map<std::uint32_t, client::TableTotals> CardTables::totals() const {
  std::map<std::uint32_t, client::TableTotals> all;
  for (const auto& table : tables_) all.emplace(table->parameter(), table->totals());
  return all;
}

CardTable* CardTables::table_of(std::uint32_t parameter) {
  const auto found = std::ranges::find(tables_, parameter, &CardTable::parameter);
  PADDLE_CHECK(found != tables_.end());
  return found->get();
}

}  // namespace paddle::strategy
