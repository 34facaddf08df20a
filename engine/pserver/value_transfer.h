// Transfer of values and rows to and from a shard: initial values while it loads, pulls once it is
// ready, and rows for snapshots.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class ValueTransfer {
 public:
  explicit ValueTransfer(ShardState& state) : state_(state) {}

  // Sets the job's position to that of a snapshot.
  Refused on_load_begin(const Request& request, const wire::LoadBegin& message);
  Refused on_put_dense(const Request& request, const wire::PutDense& message);
  Refused on_put_rows(const Request& request, const wire::PutRows& message);
  // With rounds, a pull of a later step waits for that step.
  Refused on_pull_dense(const Request& request, const wire::PullDense& message);
  Refused on_pull_rows(const Request& request, const wire::PullRows& message);
  // A reader's requests, answered from the values as they are now. They change nothing here.
  Refused on_describe(const ReaderRequest& request, const wire::Describe& message);
  Refused on_read_rows(const ReaderRequest& request, const wire::PullRows& message);
  // Returns all rows of a table, its candidates, or its difference from the last full snapshot.
  Refused on_export(const Request& request, const wire::ExportRows& message);

 private:
  Refused begin_loading(const Request& request);
  bool is_ahead(const Request& request) const {
    return state_.parameters.policy().has_rounds() &&
           request.frame.header.step > state_.progress.step;
  }
  // The segments of a pull, if they are valid and their values have at most `bytes_max`.
  Refused read_pull(const wire::PullRows& message, ByteSpan ids, std::uint64_t bytes_max,
                    std::vector<RowSegment>& segments) const;
  // Fills entries_ with rows or candidates; returns the cursor to continue from, 0 at the end.
  std::uint64_t scan(table::SparseTable& table, const wire::ExportRows& message,
                     std::uint64_t wanted);
  Bytes pack(table::SparseTable& table, wire::ExportMode mode) const;
  void export_removed(const Request& request, const table::RowChanges& changes,
                      const wire::ExportRows& message) const;

  ShardState& state_;
  std::vector<table::RowIndex::Entry> entries_;  // for one answer
};

}  // namespace paddle::pserver
