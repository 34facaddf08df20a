// Parameters that a trainer updates by itself between two pushes (geo, local_sgd), passive. For one
// parameter: x is what it trains on, y what it knows the shards to hold, its own pushes included.
// A push is the move -(x - y) * share, for shards that subtract it (ParameterSpec.is_delta); what
// comes back moves x by what the others did.
//
// Elastic averaging (EASGD: Zhang, Choromanska, LeCun 2015): y is the center as of the last round.
// A round moves x by -alpha (x - y) and the center by the sum of alpha (x - y) over the trainers; x
// stays the trainer's own.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/client/parameter_client.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/row_notes.h"

namespace paddle::strategy {

class LocalDense {
 public:
  // `share` of a move that is pushed; 1 / trainers where shards add moves up. `elastic`: alpha, or
  // 0 where x goes to what the shards hold.
  LocalDense(const wire::ParameterSet& set, float share, float elastic = 0);

  bool is_empty() const { return all_.empty() || all_.front().x.empty(); }

  // x and y become the values, and nothing is owed.
  void reset(std::span<const client::DenseParameter> values);
  // One step of the optimizer on x, then x as the values. The parameters are all dense ones, in the
  // order of the set.
  void update(float learning_rate, std::span<client::DenseParameter> parameters);
  // The push of everything since the last one; elastic: x gives way to the center.
  std::vector<client::DenseParameter> take_moves();
  // Elastic: the values that a round left on the shards.
  void on_center(std::span<const client::DenseParameter> values);
  // What shards held when they had applied all but the newest `unseen` pushes.
  void on_values(std::span<const client::DenseParameter> values, std::size_t unseen);
  // x as the parameters' values.
  void copy_to(std::span<client::DenseParameter> parameters) const;

 private:
  struct One {
    std::uint32_t parameter;
    optim::UpdateRule rule;
    LargeArray<float> x, y;
    std::vector<float> state;
    std::deque<LargeArray<float>> moves;  // pushed, maybe not in any answer yet
  };
  float share_;
  float elastic_;
  std::uint64_t count_ = 0;
  std::vector<One> all_;
};

// The rows of one sparse table that the trainer works on. A row is fetched when a batch first names
// it after a push; its optimizer state stays here.
class LocalRows {
 public:
  LocalRows(const wire::ParameterSet& set, std::uint32_t parameter, float share);

  std::uint32_t parameter() const { return parameter_; }
  std::vector<std::uint64_t> missing(std::span<const std::uint64_t> ids) const;
  void put(const client::SparseRows& fetched);
  // The values of rows that were fetched.
  void read(client::SparseRows& rows) const;
  void update(float learning_rate, const client::SparseRows& rows);
  // The moves of all rows fetched since the last call, in the order of ids; they must be fetched
  // again from here on.
  client::SparseRows take_moves();

 private:
  struct Row {
    std::uint64_t window = 0;  // it was fetched in
    std::uint64_t count = 0;
    std::vector<float> x, y, state, notes;
  };
  const Row* fresh(std::uint64_t id) const;

  std::uint32_t parameter_;
  std::size_t width_;
  float share_;
  parameter::RowNotes notes_;
  bool keeps_state_;
  optim::UpdateRule rule_;
  std::uint64_t window_ = 1;
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<std::uint64_t> ids_;  // fetched in this window
};

}  // namespace paddle::strategy
