// Values and rows in and out of a shard: initial values while it loads, pulls once it is ready,
// and rows for snapshots.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class ValueTransfer {
 public:
  explicit ValueTransfer(ShardState& state) : state_(state) {}

  // The job's position as of a snapshot.
  Refused on_load_begin(const Request& request, const wire::LoadBegin& message);
  Refused on_put_dense(const Request& request, const wire::PutDense& message);
  Refused on_put_rows(const Request& request, const wire::PutRows& message);
  // With rounds, a pull of a later step waits for it.
  Refused on_pull_dense(const Request& request, const wire::PullDense& message);
  Refused on_pull_rows(const Request& request, const wire::PullRows& message);
  // All rows of a table, its candidates, or how it differs from the last full snapshot.
  Refused on_export(const Request& request, const wire::ExportRows& message);

 private:
  Refused begin_loading(const Request& request);
  bool is_ahead(const Request& request) const {
    return state_.parameters.policy().has_rounds() &&
           request.frame.header.step > state_.progress.step;
  }
  // Fills entries_ with rows or candidates; returns the cursor to go on at, or 0.
  std::uint64_t scan(table::SparseTable& table, const wire::ExportRows& message,
                     std::uint64_t wanted);
  Bytes pack(table::SparseTable& table, wire::ExportMode mode) const;
  void export_removed(const Request& request, const table::RowChanges& changes,
                      const wire::ExportRows& message) const;

  ShardState& state_;
  std::vector<table::RowIndex::Entry> entries_;  // of one answer
};

}  // namespace paddle::pserver
