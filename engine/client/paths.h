// How one kind of parameters (dense ones, or rows) is exchanged between a trainer and its shards,
// under a strategy that does more than push each batch and wait for the answer. One thread makes
// all calls, except for take_part() and interrupt().
#pragma once

#include "engine/client/shard_channels.h"

namespace paddle::client {

// `Parameters` is DenseParameter or SparseRows.
template <class Parameters>
class Path {
 public:
  explicit Path(ShardChannels& shards) : shards_(shards) {}
  virtual ~Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  virtual Status pull(std::span<Parameters> parameters) { return shards_.pull(parameters); }
  // See ParameterClient::pull_ahead().
  virtual Result<bool> pull_ahead(std::span<Parameters>) { return false; }
  // Accepts a batch's gradients, and refreshes dense values if the strategy has newer ones.
  virtual Status push(const PushTotals& totals, std::span<Parameters> parameters) = 0;
  // Waits until everything pushed is applied.
  virtual Status settle() { return {}; }
  // Pushes the batches that are held back, and settles.
  virtual Status end_pass(PassEnd) { return settle(); }

  // For paths that also exchange data with other trainers. announce_busy(), leave() and interrupt()
  // do what the functions of ParameterClient with these names do. A thread calls take_part() once
  // the shards have received that this trainer's pass ends, while another thread awaits their
  // answers; it returns when no other trainer needs this one.
  virtual bool talks_to_trainers() const { return false; }
  virtual Status take_part() { return {}; }
  virtual void announce_busy(std::string_view /*activity*/) {}
  virtual Status leave() { return {}; }
  virtual void interrupt(const Error& /*why*/) {}  // any thread

 protected:
  ShardChannels& shards_;
};

using DensePath = Path<DenseParameter>;
using RowsPath = Path<SparseRows>;

}  // namespace paddle::client
