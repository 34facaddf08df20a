// The way of one kind of parameters between a trainer and its shards, under a strategy that does
// more than push each batch and wait for the answer. One thread calls.
#pragma once

#include "engine/client/parameter_client.h"
#include "engine/client/shard_channels.h"

namespace paddle::client {

class DensePath {
 public:
  explicit DensePath(ShardChannels& shards) : shards_(shards) {}
  virtual ~DensePath() = default;
  DensePath(const DensePath&) = delete;
  DensePath& operator=(const DensePath&) = delete;

  virtual Status pull(std::span<DenseParameter> parameters) {
    return shards_.pull_dense(parameters);
  }
  // Takes a batch's gradients, and refreshes values if the strategy has newer ones.
  virtual Status push(const PushTotals& totals, std::span<DenseParameter> parameters) = 0;
  // Waits until everything pushed is applied.
  virtual Status settle() { return {}; }
  // Pushes what is held back, and settles.
  virtual Status end_pass(PassEnd) { return settle(); }

 protected:
  ShardChannels& shards_;
};

class RowsPath {
 public:
  explicit RowsPath(ShardChannels& shards) : shards_(shards) {}
  virtual ~RowsPath() = default;
  RowsPath(const RowsPath&) = delete;
  RowsPath& operator=(const RowsPath&) = delete;

  virtual Status pull(std::span<SparseRows> rows) { return shards_.pull_rows(rows); }
  virtual Status push(const PushTotals& totals, std::span<SparseRows> rows) = 0;
  virtual Status settle() { return {}; }
  virtual Status end_pass(PassEnd) { return settle(); }

 protected:
  ShardChannels& shards_;
};

}  // namespace paddle::client
