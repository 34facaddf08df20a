// Batches whose gradients are not finite, and how they are left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/trainer/metrics.h"
#include "proto/parameters.pb.h"

namespace paddle::trainer {

constexpr std::uint32_t kNotFiniteInARowMax = 10;

class NotFinite {
 public:
  // limit: a gradient below it leaves all values finite (parameter::gradient_limit()).
  explicit NotFinite(float limit) : limit_(limit) {}

  // Leaves out a batch that is not finite: its gradients are zero then and its score has no
  // samples, so that a push of it changes nothing on any pserver. An error of the
  // kNotFiniteInARowMax-th in a row. `where` names the batch: "pass 0, batch 7".
  Status leave_out(const std::string& where, std::span<const wire::ParameterSpec> specs,
                   std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows,
                   Score& score);

 private:
  float limit_;
  std::uint32_t in_a_row_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace paddle::trainer
