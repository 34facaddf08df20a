#include "engine/pserver/row_export.h"

#include <algorithm>

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kScannedRowsMax = 1U << 20U;  // for one answer

}  // namespace

Refused RowExport::on_export(const Request& request, const wire::ExportRows& message) {
  if (request.trainer.id != 0) return protocol_error("only trainer 0 exports rows");
  table::SparseTable* const table = state_.parameters.table(message.parameter());
  if (table == nullptr) return protocol_error("rows of no table of this port");
  table::RowChanges* const changes = table->changes();
  const bool is_plain =
      message.mode() == wire::EXPORT_ROWS || message.mode() == wire::EXPORT_CANDIDATES;
  if (!wire::ExportMode_IsValid(message.mode()) || (!is_plain && changes == nullptr)) {
    return protocol_error("an export of changes, which this job does not keep");
  }
  if (message.mode() == wire::EXPORT_REMOVED) {
    export_removed(request, *changes, message);
    return {};
  }
  if (message.mode() == wire::EXPORT_BASE && message.cursor() == 0) changes->begin_base();
  const std::uint64_t wanted =
      std::min(message.rows_max(), kTransferBytesMax / table->exported_bytes_per_row());
  wire::ExportedRows answer;
  answer.set_request(request.id);
  answer.set_next_cursor(scan(*table, message, wanted));
  answer.set_count(entries_.size());
  answer.set_state_width(table->state_width());
  state_.replies.send(request.trainer, FrameType::kExportedRows, answer,
                      pack(*table, message.mode()), request.out);
  return {};
}

Bytes RowExport::pack(table::SparseTable& table, wire::ExportMode mode) const {
  Bytes tail;
  tail.reserve(entries_.size() * table.exported_bytes_per_row());
  const auto row = [&](const table::RowIndex::Entry& entry) {
    return mode == wire::EXPORT_CANDIDATES ? table.candidate(entry) : table.row(entry);
  };
  const auto append = [&tail](std::uint64_t value) {
    append_bytes(tail, std::span<const std::uint64_t>(&value, 1));
  };
  for (const auto& entry : entries_) append(entry.id);
  for (const auto& entry : entries_) append(row(entry).marks.pack());
  for (const auto& entry : entries_) append_bytes(tail, row(entry).value);
  for (const auto& entry : entries_) append_bytes(tail, row(entry).state);
  for (const auto& entry : entries_) {
    const parameter::RowScore score = row(entry).score;
    if (table.shrinks()) append_bytes(tail, std::span<const parameter::RowScore>(&score, 1));
    if (mode == wire::EXPORT_BASE) table.changes()->on_base(entry.number);
  }
  return tail;
}

std::uint64_t RowExport::scan(table::SparseTable& table, const wire::ExportRows& message,
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

void RowExport::export_removed(const Request& request, const table::RowChanges& changes,
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
