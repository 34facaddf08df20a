// What snapshots are made of: rows and candidates of a table, and how it differs from the last full
// snapshot.
#include <algorithm>

#include "engine/pserver/shard.h"

namespace paddle::pserver {
namespace {

constexpr std::uint64_t kExportScanRows = 1U << 20U;  // looked at for one answer

}  // namespace

Shard::Refused Shard::on_export_rows(Call& call, const wire::ExportRows& message) {
  if (call.trainer.id != 0) return protocol_error("only trainer 0 exports rows");
  const std::uint32_t parameter = message.parameter();
  if (sparse(parameter) == nullptr) return protocol_error("rows of no table of this port");
  table::SparseTable& table = *tables_[parameter];
  table::RowChanges* const changes = table.changes();
  const bool is_plain =
      message.mode() == wire::EXPORT_ROWS || message.mode() == wire::EXPORT_CANDIDATES;
  if (!wire::ExportMode_IsValid(message.mode()) || (!is_plain && changes == nullptr)) {
    return protocol_error("an export of changes, which this job does not keep");
  }
  if (message.mode() == wire::EXPORT_REMOVED) {
    export_removed(call, *changes, message);
    return {};
  }
  if (message.mode() == wire::EXPORT_BASE && message.cursor() == 0) changes->begin_base();
  const std::uint64_t row_bytes = table.exported_bytes_per_row();
  const std::uint64_t wanted = std::min(message.rows_max(), kTransferBytesMax / row_bytes);
  wire::ExportedRows answer;
  answer.set_request(call.request);
  answer.set_next_cursor(scan_rows(table, message, wanted));
  answer.set_count(export_entries_.size());
  answer.set_state_width(table.state_width());
  Bytes tail;
  tail.reserve(export_entries_.size() * row_bytes);
  const auto row = [&](const table::RowIndex::Entry& entry) {
    return message.mode() == wire::EXPORT_CANDIDATES ? table.candidate(entry) : table.row(entry);
  };
  const auto append = [&tail](std::uint64_t value) {
    append_bytes(tail, std::span<const std::uint64_t>(&value, 1));
  };
  for (const auto& entry : export_entries_) append(entry.id);
  for (const auto& entry : export_entries_) append(row(entry).marks.pack());
  for (const auto& entry : export_entries_) append_bytes(tail, row(entry).value);
  for (const auto& entry : export_entries_) append_bytes(tail, row(entry).state);
  for (const auto& entry : export_entries_) {
    const parameter::RowScore score = row(entry).score;
    if (table.shrinks()) append_bytes(tail, std::span<const parameter::RowScore>(&score, 1));
    if (message.mode() == wire::EXPORT_BASE) changes->on_base(entry.number);
  }
  reply(call.trainer, FrameType::kExportedRows, answer, std::move(tail), call.out);
  return {};
}

std::uint64_t Shard::scan_rows(table::SparseTable& table, const wire::ExportRows& message,
                               std::uint64_t wanted) {
  std::uint64_t from = message.cursor();
  for (std::uint64_t scanned = 0;; scanned += wanted) {
    export_entries_.clear();
    if (message.mode() == wire::EXPORT_CANDIDATES) {
      table.entry().scan(from, wanted, export_entries_);
    } else {
      table.scan(from, wanted, export_entries_);
    }
    if (export_entries_.size() > wanted) export_entries_.resize(wanted);
    const bool is_end = export_entries_.size() < wanted || wanted == 0;
    from = is_end ? 0 : export_entries_.back().position + 1;
    if (message.mode() != wire::EXPORT_CHANGED) return from;
    std::erase_if(export_entries_, [&table](const table::RowIndex::Entry& entry) {
      return !table.changes()->is_changed(entry.number);
    });
    if (!export_entries_.empty() || from == 0 || scanned >= kExportScanRows) return from;
  }
}

void Shard::export_removed(Call& call, table::RowChanges& changes,
                           const wire::ExportRows& message) {
  const auto removed = changes.removed();
  const std::uint64_t begin = std::min<std::uint64_t>(message.cursor(), removed.size());
  const std::uint64_t count = std::min(
      {message.rows_max(), removed.size() - begin, kTransferBytesMax / sizeof(std::uint64_t)});
  wire::ExportedRows answer;
  answer.set_request(call.request);
  answer.set_count(count);
  if (begin + count < removed.size() && count > 0) answer.set_next_cursor(begin + count);
  Bytes tail;
  append_bytes(tail, removed.subspan(begin, count));
  reply(call.trainer, FrameType::kExportedRows, answer, std::move(tail), call.out);
}

}  // namespace paddle::pserver
