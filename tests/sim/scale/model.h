// The parameters of a job of many processes, and the gradients of its batches: whole numbers, so
// that their sums are exact in any order.
#pragma once

#include <array>
#include <span>

#include "tests/sim/scale/options.h"

namespace paddle::sim {

constexpr std::size_t kDenseOfPort = 8;
constexpr std::size_t kRowWidth = 4;
constexpr std::size_t kRowsOfPush = 2;
constexpr std::uint32_t kTable = 0;  // its parameter; the other one is dense

using DenseValues = std::array<float, kDenseOfPort>;
using RowValues = std::array<float, kRowWidth>;
using RowGradients = std::array<RowValues, kRowsOfPush>;

class ScaledModel {
 public:
  explicit ScaledModel(const ScaleOptions& options);

  const wire::ParameterSet& set() const { return set_; }
  const std::string& set_text() const { return set_text_; }
  std::uint32_t trainers() const { return set_.num_trainers(); }
  bool has_rounds() const { return set_.dense_strategy() == wire::STRATEGY_SYNC; }

  // Rows of a sparse port: one that all trainers share, then each trainer's own.
  std::uint64_t id_of(std::uint32_t port, std::size_t row) const { return ids_[port][row]; }
  // The rows that a trainer pulls and pushes, in the order of their ids.
  std::array<std::size_t, kRowsOfPush> rows_of(std::uint32_t port, std::uint32_t trainer) const;

  // The gradient of a batch that was computed on the values `seen` and, at the next port, `beside`.
  // The values of another round make another gradient.
  DenseValues dense_gradient(std::uint32_t port, std::uint32_t trainer, std::uint32_t batch,
                             const DenseValues& seen, const DenseValues& beside) const;
  RowGradients row_gradients(std::uint32_t port, std::uint32_t trainer, std::uint32_t batch) const;

 private:
  void create_set(const ScaleOptions& options);

  wire::ParameterSet set_;
  std::string set_text_;
  std::vector<std::vector<std::uint64_t>> ids_;  // by sparse port and row
};

}  // namespace paddle::sim
