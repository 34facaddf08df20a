// The kernels of a card: a closed set, so that each device can compile them all.
#pragma once

#include <variant>

#include "engine/kernels/device/costs.h"
#include "engine/kernels/device/elementwise.h"
#include "engine/kernels/device/row_wise.h"
#include "engine/kernels/device/rows.h"
#include "engine/kernels/device/sums.h"
#include "engine/kernels/device/update.h"

namespace paddle::kernels::device {

using Kernel =
    std::variant<Fill, Scale, CopyBlock, SumOf, ProductOf, Activate, ActivateBackward, AddBias,
                 Dropout, RoundToBfloat16, Gather, Pool, GatherBackward, PoolBackward, SampledCost,
                 SampledCostBackward, SampledTableBackward, SoftmaxRows, SoftmaxRowsBackward,
                 SoftmaxCrossEntropy, BinaryCrossEntropy, SquaredError, SumCosts, LayerNorm,
                 LayerNormBackward, PairSum, PairSumBackward, CosineSimilarity,
                 CosineSimilarityBackward, SlopeSums, GainSums, ThinProduct, Update, CountUpdates,
                 UpdateRows>;

}  // namespace paddle::kernels::device
