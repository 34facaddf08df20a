#include "engine/pserver/value_transfer.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "engine/math/optimizer.h"
#include "engine/math/update_kernels.h"
#include "engine/table/parameter_set.h"

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kScannedRowsMax = 1U << 20U;  // for one answer

Refused check_finite(std::span<const float> values, std::string_view what) {
  if (optim::all_below(values, std::numeric_limits<float>::infinity())) return {};
  return Refusal{wire::REFUSAL_NOT_FINITE, fmt::format("initial {} are not finite", what)};
}

std::uint64_t bytes_of_values(std::span<const RowSegment> segments) {
  std::uint64_t floats = 0;
  for (const RowSegment& segment : segments) floats += segment.ids.size() * segment.width;
  return floats * sizeof(float);
}

}  // namespace

Refused ValueTransfer::begin_loading(const Request& request) {
  if (request.trainer.id == 0 && !state_.progress.ready) {
    state_.progress.is_loading = true;
    return {};
  }
  return protocol_error("trainer {} sent initial values {}", request.trainer.id,
                        state_.progress.ready ? "after Ready" : "(only trainer 0 may)");
}

Refused ValueTransfer::on_load_begin(const Request& request, const wire::LoadBegin& message) {
  if (auto refused = begin_loading(request)) return refused;
  auto& trainers = state_.membership.trainers();
  const bool has_cursors = message.cursors_size() > 0;
  if (has_cursors && static_cast<std::size_t>(message.cursors_size()) != trainers.size()) {
    return protocol_error("{} cursors for {} trainers", message.cursors_size(), trainers.size());
  }
  const bool is_in_pass = message.pass_batches_size() > 0;
  if (is_in_pass && static_cast<std::size_t>(message.pass_batches_size()) != trainers.size()) {
    return protocol_error("{} places in a pass for {} trainers", message.pass_batches_size(),
                          trainers.size());
  }
  wire::PassOrigins origins;
  const ByteSpan tail = request.frame.tail;
  const bool is_origins = tail.size() <= kTransferBytesMax &&
                          origins.ParseFromArray(tail.data(), static_cast<int>(tail.size()));
  if (!is_origins) return protocol_error("{} bytes are not valid pass origins", tail.size());
  for (const int places : {origins.batches_size(), origins.records_size(), origins.data_size()}) {
    if (tail.empty() || static_cast<std::size_t>(places) == trainers.size()) continue;
    return protocol_error("pass origins of {} trainers, not {}", places, trainers.size());
  }
  const auto is_beyond = [](std::uint64_t count) { return count > parameter::kCounterMax; };
  if (is_beyond(message.step()) || is_beyond(message.passes_finished()) ||
      is_beyond(message.samples()) || std::ranges::any_of(message.cursors(), is_beyond) ||
      std::ranges::any_of(message.pass_batches(), is_beyond) ||
      std::ranges::any_of(origins.batches(), is_beyond) ||
      std::ranges::any_of(origins.records(), is_beyond)) {
    return protocol_error("it would continue from a count over {}", parameter::kCounterMax);
  }
  for (Trainer& trainer : trainers) {
    const auto id = static_cast<int>(trainer.id);
    trainer.last_applied = has_cursors ? message.cursors(id) : 0;
    trainer.clock = is_in_pass ? message.pass_batches(id) : 0;
  }
  state_.progress.step = message.step();
  state_.progress.passes_finished = message.passes_finished();
  state_.progress.samples = message.samples();
  state_.progress.origins = std::move(origins);
  state_.send_position(request.trainer, request.id, request.out);
  return {};
}

Refused ValueTransfer::on_put_dense(const Request& request, const wire::PutDense& message) {
  if (auto refused = begin_loading(request)) return refused;
  if (state_.parameters.dense() == nullptr) return protocol_error("dense values on a sparse port");
  const ByteSpan tail = request.frame.tail;
  if (tail.size() % sizeof(float) != 0 || tail.size() / sizeof(float) != message.count()) {
    return protocol_error("{} values in {} bytes", message.count(), tail.size());
  }
  const std::span values(reinterpret_cast<const float*>(tail.data()), message.count());
  if (auto refused = check_finite(values, "dense values")) return refused;
  if (message.update_count() > parameter::kCounterMax) {
    return protocol_error("values after {} updates", message.update_count());
  }
  const Status written = state_.parameters.dense()->write(message.plane(), message.offset(), values,
                                                          message.update_count());
  if (!written) return protocol_error("{}", written.error().message);
  return state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
}

Refused ValueTransfer::on_put_rows(const Request& request, const wire::PutRows& message) {
  if (auto refused = begin_loading(request)) return refused;
  const std::uint32_t parameter = message.parameter();
  if (state_.parameters.table(parameter) == nullptr) {
    return protocol_error("this port has no such table");
  }
  table::SparseTable& table = *state_.parameters.table(parameter);
  const std::string what = fmt::format("rows of '{}'", state_.parameters.name(parameter));
  const table::RowForm form = table.form();
  if (message.state_width() != form.state_width) {
    return protocol_error("{} with state width {}, here {}", what, message.state_width(),
                          form.state_width);
  }
  const ByteSpan rows = request.frame.tail;
  if (const Status whole = form.check(rows, message.count()); !whole) {
    return protocol_error("{}: {}", what, whole.error().message);
  }
  std::vector<std::uint64_t> ids(message.count());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = table::RowForm::id_at(rows.data() + i * form.bytes());
  }
  const RowSegment segment{parameter, table.width(), ids, {}};
  if (auto refused = state_.parameters.make_room({&segment, 1}, 1, state_.membership)) {
    return refused;
  }
  for (std::size_t at = 0; at < rows.size(); at += form.bytes()) {
    if (auto refused = check_finite(form.floats_at(rows.data() + at), what)) return refused;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (table.put(form.read(rows.data() + i * form.bytes()))) continue;
    return protocol_error("row {} of '{}' was sent twice, with different values", ids[i],
                          state_.parameters.name(parameter));
  }
  return state_.replies.acknowledge<wire::Done>(request, FrameType::kDone);
}

Refused ValueTransfer::on_pull_dense(const Request& request, const wire::PullDense& message) {
  if (!state_.progress.ready) return protocol_error("a pull before Ready");
  const table::DenseTable* const dense = state_.parameters.dense();
  if (dense == nullptr) return protocol_error("a dense pull on a sparse port");
  if (message.count() > kTransferBytesMax / sizeof(float)) {
    return Refusal{wire::REFUSAL_LIMIT, "a pull exceeds the size of one frame"};
  }
  const auto values = dense->read(message.plane(), message.offset(), message.count());
  if (!values) return protocol_error("{}", values.error().message);
  if (is_ahead(request)) return request.wait(WaitFor::kStep);
  wire::DenseValues answer;
  answer.set_request(request.id);
  answer.set_step(state_.progress.step);
  answer.set_update_count(dense->update_count(message.offset()));
  request.trainer.seen_updates = state_.progress.updates;
  state_.replies.send(request.trainer, FrameType::kDenseValues, answer, {}, request.out);
  request.out.back().view = bytes_of(*values);
  return {};
}

Refused ValueTransfer::on_pull_rows(const Request& request, const wire::PullRows& message) {
  if (!state_.progress.ready) return protocol_error("a pull before Ready");
  std::vector<RowSegment> segments;
  if (auto refused = read_pull(message, request.frame.tail, kTransferBytesMax, segments)) {
    return refused;
  }
  if (is_ahead(request)) return request.wait(WaitFor::kStep);
  std::vector<std::span<float>> lent;
  if (state_.options.row_loan) lent = std::exchange(state_.options.row_loan->values, {});
  PADDLE_CHECK(lent.empty() || lent.size() == segments.size());
  Bytes tail(lent.empty() ? bytes_of_values(segments) : 0);
  auto* next = reinterpret_cast<float*>(tail.data());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const RowSegment& segment = segments[i];
    const std::size_t floats = segment.ids.size() * segment.width;
    float* const to = lent.empty() ? std::exchange(next, next + floats) : lent[i].data();
    PADDLE_CHECK(lent.empty() || lent[i].size() == floats);
    table::SparseTable& table = *state_.parameters.table(segment.parameter);
    if (message.averages()) {
      table.read_averages(segment.ids, {to, floats});
    } else if (message.to_test()) {
      table.read_to_test(segment.ids, {to, floats});
    } else {
      table.read_to_push(segment.ids, {to, floats});
    }
  }
  request.trainer.seen_updates = state_.progress.updates;
  wire::RowValues answer;
  answer.set_request(request.id);
  answer.set_step(state_.progress.step);
  state_.replies.send(request.trainer, FrameType::kRowValues, answer, std::move(tail), request.out);
  return {};
}

Refused ValueTransfer::read_pull(const wire::PullRows& message, ByteSpan ids,
                                 std::uint64_t bytes_max, std::vector<RowSegment>& segments) const {
  auto read = read_segments(message.segments(), ids, state_.parameters.widths(), false);
  if (!read) return protocol_error("{}", read.error().message);
  segments = *std::move(read);
  std::uint64_t left = bytes_max / sizeof(float);
  for (const RowSegment& segment : segments) {
    if (segment.ids.size() > left / segment.width) {
      return Refusal{wire::REFUSAL_LIMIT, "a pull exceeds the size of one frame"};
    }
    left -= segment.ids.size() * segment.width;
  }
  if (message.averages() && !optim::has_average(state_.parameters.set().optimizer())) {
    return protocol_error("this job does not keep averages");
  }
  return {};
}

Refused ValueTransfer::on_describe(const ReaderRequest& request, const wire::Describe& message) {
  wire::ShardDescription answer;
  answer.set_request(message.request());
  answer.set_shard(state_.options.index);
  answer.set_is_sparse(state_.options.is_sparse);
  answer.set_step(state_.progress.step);
  answer.set_passes_finished(state_.progress.passes_finished);
  const std::string set = state_.parameters.set().SerializeAsString();
  Bytes tail;
  append_bytes(tail, as_bytes(set));
  state_.replies.send(request.from, FrameType::kShardDescription, answer, std::move(tail),
                      request.out);
  return {};
}

Refused ValueTransfer::on_read_rows(const ReaderRequest& request, const wire::PullRows& message) {
  std::vector<RowSegment> segments;
  // A single row is always read, however wide it is.
  const bool is_one_row = message.segments_size() == 1 && message.segments(0).count() == 1;
  const std::uint64_t bytes_max = is_one_row ? kTransferBytesMax : kReaderPullBytesMax;
  if (auto refused = read_pull(message, request.frame.tail, bytes_max, segments)) return refused;
  Bytes tail(bytes_of_values(segments));
  auto* to = reinterpret_cast<float*>(tail.data());
  for (const RowSegment& segment : segments) {
    const std::size_t floats = segment.ids.size() * segment.width;
    const table::SparseTable& table = *state_.parameters.table(segment.parameter);
    if (message.averages()) {
      table.read_averages(segment.ids, {to, floats});
    } else if (message.to_test()) {
      table.read_to_test(segment.ids, {to, floats});
    } else {
      table.read(segment.ids, {to, floats});
    }
    to += floats;
  }
  wire::RowValues answer;
  answer.set_request(message.request());
  answer.set_step(state_.progress.step);
  state_.replies.send(request.from, FrameType::kRowValues, answer, std::move(tail), request.out);
  return {};
}

Refused ValueTransfer::on_export(const Request& request, const wire::ExportRows& message) {
  table::SparseTable* const table = state_.parameters.table(message.parameter());
  if (table == nullptr) return protocol_error("this port has no such table");
  table::RowChanges* const changes = table->changes();
  const bool is_plain =
      message.mode() == wire::EXPORT_ROWS || message.mode() == wire::EXPORT_CANDIDATES;
  // Changes are counted from the snapshots of one trainer only.
  if (!is_plain && request.trainer.id != 0) return protocol_error("only trainer 0 exports changes");
  if (!wire::ExportMode_IsValid(message.mode()) || (!is_plain && changes == nullptr)) {
    return protocol_error("this job does not track changed rows");
  }
  if (message.mode() == wire::EXPORT_REMOVED) {
    export_removed(request, *changes, message);
    return {};
  }
  if (message.mode() == wire::EXPORT_BASE && message.cursor() == 0) changes->begin_base();
  const std::uint64_t wanted =
      std::min(message.rows_max(), kTransferBytesMax / table->form().bytes());
  wire::ExportedRows answer;
  answer.set_request(request.id);
  answer.set_next_cursor(scan(*table, message, wanted));
  answer.set_count(entries_.size());
  answer.set_state_width(table->state_width());
  state_.replies.send(request.trainer, FrameType::kExportedRows, answer,
                      pack(*table, message.mode()), request.out);
  return {};
}

Bytes ValueTransfer::pack(table::SparseTable& table, wire::ExportMode mode) const {
  const table::RowForm form = table.form();
  Bytes rows;
  rows.reserve(entries_.size() * form.bytes());
  for (const table::RowIndex::Entry& entry : entries_) {
    const bool is_candidate = mode == wire::EXPORT_CANDIDATES;
    form.add(is_candidate ? table.candidate(entry) : table.row(entry), rows);
    if (mode == wire::EXPORT_BASE) table.changes()->on_base(entry.number);
  }
  return rows;
}

std::uint64_t ValueTransfer::scan(table::SparseTable& table, const wire::ExportRows& message,
                                  std::uint64_t wanted) {
  std::uint64_t from = message.cursor();
  for (std::uint64_t scanned = 0;; scanned += wanted) {
    entries_.clear();
    if (message.mode() == wire::EXPORT_CANDIDATES) {
      table.entry().scan(from, wanted, entries_);
    } else {
      table.scan(from, wanted, entries_);
    }
    if (entries_.size() > wanted) entries_.resize(wanted);
    const bool is_end = entries_.size() < wanted || wanted == 0;
    from = is_end ? 0 : entries_.back().position + 1;
    if (message.mode() != wire::EXPORT_CHANGED) return from;
    std::erase_if(entries_, [&table](const table::RowIndex::Entry& entry) {
      return !table.changes()->is_changed(entry.number);
    });
    if (!entries_.empty() || from == 0 || scanned >= kScannedRowsMax) return from;
  }
}

void ValueTransfer::export_removed(const Request& request, const table::RowChanges& changes,
                                   const wire::ExportRows& message) const {
  const auto removed = changes.removed();
  const std::uint64_t begin = std::min<std::uint64_t>(message.cursor(), removed.size());
  const std::uint64_t count = std::min(
      {message.rows_max(), removed.size() - begin, kTransferBytesMax / sizeof(std::uint64_t)});
  wire::ExportedRows answer;
  answer.set_request(request.id);
  answer.set_count(count);
  if (begin + count < removed.size() && count > 0) answer.set_next_cursor(begin + count);
  Bytes tail;
  append_bytes(tail, removed.subspan(begin, count));
  state_.replies.send(request.trainer, FrameType::kExportedRows, answer, std::move(tail),
                      request.out);
}

}  // namespace paddle::pserver
