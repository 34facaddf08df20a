// Export of a table's rows for snapshots: all rows, candidates, or how the table differs from the
// last full snapshot.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class RowExport {
 public:
  explicit RowExport(ShardState& state) : state_(state) {}

  Refused on_export(const Request& request, const wire::ExportRows& message);

 private:
  // Fills entries_ with rows or candidates; returns the cursor to go on at, or 0.
  std::uint64_t scan(table::SparseTable& table, const wire::ExportRows& message,
                     std::uint64_t wanted);
  Bytes pack(table::SparseTable& table, wire::ExportMode mode) const;
  void export_removed(const Request& request, const table::RowChanges& changes,
                      const wire::ExportRows& message) const;

  ShardState& state_;
  std::vector<table::RowIndex::Entry> entries_;
};

}  // namespace paddle::pserver
